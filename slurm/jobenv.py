"""What a hook was told about its job is read from the SLURM_* environment, and garbled values never stop it.

A value that cannot be read leaves its field None and its name in `problems`. Unset is not a problem: every release
sets another part of them (20.11 has no restart count and no SLURM_JOB_GPUS, jobs without GPUs have none either).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime, timezone
from typing import TypeVar

from slurm import hostlist

MAX_BODY = 256 * 1024
MAX_VALUE = 64 * 1024
MAX_VARIABLES = 4096
MAX_GPUS = 1024

_T = TypeVar("_T")
_NUMBER = re.compile(r"[0-9]{1,18}")
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,252}")
_USER = re.compile(r"[^\s\x00-\x1f/:]{1,256}")
_GPU_RANGE = re.compile(r"([0-9]{1,4})(?:-([0-9]{1,4}))?")


@dataclass(frozen=True, slots=True)
class JobEnv:
    """One hook's job; None where Slurm did not say. The node list stays folded until somebody asks for names."""

    context: str | None = None
    cluster: str | None = None
    node: str | None = None
    job_id: int | None = None
    het_job_id: int | None = None
    restart_count: int | None = None
    uid: int | None = None
    gid: int | None = None
    user: str | None = None
    partition: str | None = None
    reservation: str | None = None
    nodelist: str | None = None
    num_nodes: int | None = None
    gpu_indices: tuple[int, ...] | None = None
    exclusive: bool | None = None
    exit_code: int | None = None
    exit_signal: int | None = None
    start_time: datetime | None = None
    comment: str | None = None
    problems: tuple[str, ...] = ()

    @classmethod
    def parse(cls, body: bytes | Mapping[str, str]) -> JobEnv:
        """Read an environment, given as a mapping or as the hook sends it: ``NAME=value``, each ended by NUL."""
        problems: list[str] = []
        values = _Values(_mapping(body, problems), problems)
        return cls(
            context=values.read(_name, "SLURM_SCRIPT_CONTEXT"),
            cluster=values.read(_name, "SLURM_CLUSTER_NAME"),
            node=values.read(_name, "SLURMD_NODENAME"),
            job_id=values.read(_number, "SLURM_JOB_ID", "SLURM_JOBID"),
            het_job_id=values.read(_number, "SLURM_HET_JOB_ID", "SLURM_PACK_JOB_ID"),
            restart_count=values.read(_number, "SLURM_JOB_RESTART_COUNT"),
            uid=values.read(_number, "SLURM_JOB_UID", "SLURM_UID"),
            gid=values.read(_number, "SLURM_JOB_GID"),
            user=values.read(_user, "SLURM_JOB_USER"),
            partition=values.read(_name, "SLURM_JOB_PARTITION"),
            reservation=values.read(str, "SLURM_JOB_RESERVATION"),
            nodelist=values.read(_hostlist, "SLURM_JOB_NODELIST", "SLURM_NODELIST"),
            num_nodes=values.read(_number, "SLURM_JOB_NUM_NODES"),
            gpu_indices=values.read(_gpus, "SLURM_JOB_GPUS"),
            exclusive=_exclusive(values),
            exit_code=values.read(_exit_code, "SLURM_JOB_EXIT_CODE"),
            exit_signal=values.read(_exit_signal, "SLURM_JOB_EXIT_CODE"),
            start_time=values.read(_time, "SLURM_JOB_START_TIME"),
            comment=values.read(str, "SLURM_JOB_COMMENT"),
            problems=tuple(dict.fromkeys(problems)),
        )

    @property
    def attempt(self) -> tuple[int, int | None] | None:
        """Job id and restart count, which together name the attempt; None without a job id."""
        return None if self.job_id is None else (self.job_id, self.restart_count)

    def nodes(self, *, limit: int = hostlist.MAX_NAMES) -> tuple[str, ...]:
        """Return the names of the job's nodes in Slurm's order; HostlistError above `limit`, empty when not told."""
        return hostlist.expand(self.nodelist, limit=limit) if self.nodelist else ()


class _Values:
    """Reads variables by name and notes those that are set but make no sense."""

    def __init__(self, variables: Mapping[str, str], problems: list[str]) -> None:
        self._variables = variables
        self._problems = problems

    def read(self, convert: Callable[[str], _T], *names: str) -> _T | None:
        """Return the first of `names` that can be read."""
        for name in names:
            text = self._variables.get(name)
            if text is None or text in ("", "(null)"):
                continue
            try:
                return convert(text)
            except ValueError:
                self._problems.append(name)
        return None


def _mapping(body: bytes | Mapping[str, str], problems: list[str]) -> Mapping[str, str]:
    if isinstance(body, Mapping):
        return body
    if len(body) > MAX_BODY:
        problems.append(f"environment has {len(body)} bytes, limit is {MAX_BODY}")
    found: dict[str, str] = {}
    for setting in body[:MAX_BODY].split(b"\0")[:MAX_VARIABLES]:
        name, sign, value = setting.partition(b"=")
        if sign and name:
            key = name.decode("ascii", "replace")
            if key in found:
                problems.append(key[:64])
            # slurmd never sets a name twice: keep the first and say so.
            found.setdefault(key, value[:MAX_VALUE].decode("utf-8", "replace"))
    return found


def _number(text: str) -> int:
    if _NUMBER.fullmatch(text) is None:
        raise ValueError(text)
    return int(text)


def _name(text: str) -> str:
    if _NAME.fullmatch(text) is None:
        raise ValueError(text)
    return text


def _user(text: str) -> str:
    if _USER.fullmatch(text) is None:
        raise ValueError(text)
    return text


def _hostlist(text: str) -> str:
    hostlist.count(text)
    return text


def _time(text: str) -> datetime:
    seconds = _number(text)
    if not 0 < seconds < 2**32:
        raise ValueError(text)
    return datetime.fromtimestamp(seconds, timezone.utc)


def _gpus(text: str) -> tuple[int, ...]:
    """Read ``0,1`` or ``0-3,5``: indices into the node's gres.conf, not NVML's and not the driver's minors."""
    found: list[int] = []
    for part in text.split(","):
        match = _GPU_RANGE.fullmatch(part)
        if match is None:
            raise ValueError(text)
        low = int(match.group(1))
        found.extend(range(low, int(match.group(2) or low) + 1))
        if len(found) > MAX_GPUS or not found:
            raise ValueError(text)
    return tuple(dict.fromkeys(found))


def _exit_code(text: str) -> int:
    """The exit status out of a wait status (768 is exit 3)."""
    return (_number(text) >> 8) & 0xFF


def _exit_signal(text: str) -> int:
    """The signal out of a wait status; 0 when the job ended by itself."""
    return _number(text) & 0x7F


def _exclusive(values: _Values) -> bool | None:
    """Whether the job has its nodes alone: 25.05 and later say so, before that OverSubscribe=NO is the sign."""
    told = values.read(_name, "SLURM_JOB_EXCLUSIVE")
    if told is not None:
        return told == "NODE"
    shared = values.read(_name, "SLURM_JOB_OVERSUBSCRIBE")
    return None if shared is None else shared == "NO"
