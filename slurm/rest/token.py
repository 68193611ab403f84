"""A JSON web token comes from a file that somebody renews, or from ``scontrol token``, renewed here in time."""

from __future__ import annotations

import base64
import binascii
import os
import re
import stat
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Protocol

import msgspec

from slurm.errors import BadAnswer, Busy, PermissionDenied, error_for
from slurm.run import SAFE_PATH, Run, run_command

LONGEST = 16 * 1024  # characters
LIFESPAN = 1800  # seconds that a token from `scontrol token` is asked for
RENEW = 0.5  # part of the lifespan after which another is asked for

# Only what may stand in a header: a line break in it would be a header of somebody else's choice.
_TOKEN = re.compile(r"[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+\.[A-Za-z0-9_-]*")
_USER = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.@-]{0,255}")


class TokenSource(Protocol):
    """Returns a token that is valid now; raises an error of `slurm.errors`."""

    def __call__(self) -> str: ...


class TokenFile:
    """A file with one token, read again for every request, since whoever renews it does not tell us."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __call__(self) -> str:
        """Return the token; a file that others may write is refused, since they would choose who we are."""
        try:
            with self.path.open("rb") as file:
                seen = os.fstat(file.fileno())
                data = file.read(LONGEST + 1)
        except OSError as error:
            raise PermissionDenied(f"token file {self.path}: {error.strerror}") from error
        if not stat.S_ISREG(seen.st_mode) or seen.st_mode & stat.S_IWOTH or seen.st_uid not in (0, os.geteuid()):
            raise PermissionDenied(f"token file {self.path} is no regular file of ours or root, or writable by others")
        # `scontrol token` prints SLURM_JWT=..., and that is what people put into the file.
        text = data.decode("ascii", "replace").strip().removeprefix("SLURM_JWT=")
        return _checked(text, f"token file {self.path}")


class TokenCommand:
    """``scontrol token``, which root and SlurmUser may ask for any user; asked again when half the lifespan is over."""

    def __init__(
        self,
        user: str,
        *,
        conf: Path | None = None,
        lifespan: int = LIFESPAN,
        run: Run = run_command,
        timeout: float = 10.0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._argv = ("scontrol", "token", f"username={user}", f"lifespan={lifespan}")
        self._env = {"LC_ALL": "C", "PATH": SAFE_PATH} | ({"SLURM_CONF": str(conf)} if conf else {})
        self._run, self._timeout, self._clock = run, timeout, clock
        self._keep = RENEW * lifespan
        self._lock = threading.Lock()
        self._token, self._until = "", 0.0

    def __call__(self) -> str:
        """Return the token at hand, or a new one; Busy while another thread waits for one all the time."""
        if not self._lock.acquire(timeout=self._timeout):
            raise Busy(f"scontrol token: another request waited {self._timeout:g} s for it")
        try:
            now = self._clock()
            if now >= self._until:
                self._token = self._asked()
                self._until = now + self._keep
            return self._token
        finally:
            self._lock.release()

    def _asked(self) -> str:
        ended = self._run(self._argv, env=self._env, timeout=self._timeout, step="scontrol token")
        if ended.code != 0:
            raise error_for(ended.err[:2000].decode("utf-8", "replace"), step="scontrol token")
        return _checked(ended.out.decode("ascii", "replace").strip().removeprefix("SLURM_JWT="), "scontrol token")


def expired(token: str, now: float) -> bool:
    """Whether the token says of itself that it has ended; it is not verified here, that is slurmctld's part."""
    end = _claims(token).get("exp")
    return isinstance(end, (int, float)) and end <= now


def checked_user(name: str) -> str:
    """Return the name, or raise ValueError: it stands in a header."""
    if _USER.fullmatch(name) is None:
        raise ValueError(f"{name[:64]!r} is not the name of a user")
    return name


def subject(token: str) -> str:
    """The user the token says it is for; empty when it does not say, or when the name could not stand in a header."""
    name = _claims(token).get("sun")
    return name if isinstance(name, str) and _USER.fullmatch(name) else ""


def _claims(token: str) -> dict[str, object]:
    try:
        middle = token.split(".")[1]
        claims = msgspec.json.decode(base64.urlsafe_b64decode(middle + "=" * (-len(middle) % 4)))
    except (IndexError, binascii.Error, ValueError, msgspec.MsgspecError, RecursionError):
        return {}
    return claims if isinstance(claims, dict) else {}


def _checked(text: str, where: str) -> str:
    if len(text) > LONGEST or _TOKEN.fullmatch(text) is None:
        raise BadAnswer(f"{where} holds no JSON web token of at most {LONGEST} characters")
    return text
