"""What is run on a site's behalf belongs to root and cannot be changed by anybody else, the way to it included."""

from __future__ import annotations

import os
import re
import stat
import sys
from pathlib import Path
from typing import Literal

import msgspec

from checks.wire import Blame

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

MOST = 64
_SIDECAR_LIMIT = 64 * 1024
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
_OTHERS = stat.S_IWGRP | stat.S_IWOTH


class NotTrusted(Exception):
    """An executable that is not run; the text says why."""


class Sidecar(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """NAME.toml beside an executable: who runs it, how often and how long (seconds), and whom its text blames."""

    user: Literal["nodevet", "root"] = "nodevet"
    interval: float | None = None
    timeout: float = 5.0
    blame: Blame = "config"


def candidates(directory: Path) -> tuple[str, ...]:
    """Names in ``directory`` that are meant to be run: what is executable, what has a sidecar, and every link.

    Whether one may be run is told when it is asked. A directory that cannot be listed is one candidate, refused then.
    """
    try:
        with os.scandir(directory) as entries:
            names = {entry.name: entry for entry in entries}
    except FileNotFoundError:
        return ()
    except OSError:
        return (directory.name,)
    meant = (n for n, e in names.items() if not n.startswith(".") and not n.endswith(".toml") and _meant(e, names))
    return tuple(sorted(meant)[:MOST])


def _meant(entry: os.DirEntry[str], names: dict[str, os.DirEntry[str]]) -> bool:
    if entry.is_symlink() or f"{entry.name}.toml" in names:
        return True
    try:
        return entry.is_file(follow_symlinks=False) and bool(entry.stat(follow_symlinks=False).st_mode & 0o111)
    except OSError:
        return False


def executable(directory: Path, name: str) -> Path:
    """The path of one that may be run; raises NotTrusted."""
    if not _NAME.fullmatch(name):
        raise NotTrusted("its name has other characters than letters, digits, dot, dash and underscore")
    path = directory / name
    seen = proven(path)
    if not stat.S_ISREG(seen.st_mode) or not seen.st_mode & 0o111:
        raise NotTrusted("it is no executable file")
    if seen.st_mode & (stat.S_ISUID | stat.S_ISGID):
        raise NotTrusted("it is set-user-ID or set-group-ID")
    return path


def sidecar(directory: Path, name: str) -> Sidecar:
    """What stands beside an executable, the defaults where nothing does; raises NotTrusted."""
    path = directory / f"{name}.toml"
    try:
        if not stat.S_ISREG(proven(path).st_mode):
            raise NotTrusted(f"{path.name} is no file")
        with path.open("rb") as file:
            data = file.read(_SIDECAR_LIMIT + 1)
    except FileNotFoundError:
        return Sidecar()
    except OSError as error:
        raise NotTrusted(f"{path.name}: {error.strerror}") from error
    try:
        made = msgspec.convert(tomllib.loads(data.decode("utf-8")), Sidecar)
    except (UnicodeDecodeError, tomllib.TOMLDecodeError, msgspec.ValidationError) as error:
        raise NotTrusted(f"{path.name}: {error}") from error
    interval = 5 if made.interval is None else made.interval
    if made.blame == "self" or not 5 <= interval <= 86400 or not 0.1 <= made.timeout <= 60:
        raise NotTrusted(f"{path.name}: expected interval 5 to 86400 s, timeout 0.1 to 60 s, and not blame self")
    return made


def proven(path: Path) -> os.stat_result:
    """What is at ``path``, once nobody but root (or, without root's rights, ourselves) could have put it there.

    A root-owned sticky directory such as /tmp may lie on the way: others cannot move what is root's in it.
    """
    if not path.is_absolute() or ".." in path.parts:
        raise NotTrusted(f"{path} is no absolute path")
    for part in (*reversed(path.parents), path):
        try:
            seen = os.lstat(part)
        except FileNotFoundError:
            raise
        except OSError as error:
            raise NotTrusted(f"{part}: {error.strerror}") from error
        if stat.S_ISLNK(seen.st_mode):
            raise NotTrusted(f"{part} is a symbolic link")
        if seen.st_uid not in (0, os.geteuid()):
            raise NotTrusted(f"{part} belongs to uid {seen.st_uid}, expected root")
        sticky = stat.S_ISDIR(seen.st_mode) and seen.st_mode & stat.S_ISVTX and part != path.parent
        if seen.st_mode & _OTHERS and not sticky:
            raise NotTrusted(f"{part} can be written by others, mode {stat.S_IMODE(seen.st_mode):04o}")
    return seen
