"""The limits of the Slurm that runs, not of a file that may not be in force yet, bound what a hook may take."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

from slurm.errors import BadAnswer
from slurm.nodes import time_from_text
from slurm.text import parse_config

MARGIN = 2.0  # seconds between our latest answer and Slurm's first limit
NONE_SET = 65534  # how Slurm writes "no PrologEpilogTimeout"
# The releases whose RunInJob was seen to lose prologs, and the GPU variables on every node of a job but its first.
RUN_IN_JOB_BROKEN = ((24, 11, 0), (24, 12, 0))

# What slurm.conf(5) gives where a setting is missing or unreadable, in seconds.
DEFAULT_MESSAGE_TIMEOUT = 10.0
DEFAULT_BATCH_START_TIMEOUT = 10.0
DEFAULT_CRED_EXPIRE = 120.0

_EMPTY = frozenset({"", "(null)", "n/a", "N/A", "none"})
_SECONDS = re.compile(r"([0-9]{1,9})(?: sec)?")
_VERSION = re.compile(r"([0-9]{1,4})\.([0-9]{1,4})\.([0-9]{1,4})")
_USER = re.compile(r"([A-Za-z0-9_][A-Za-z0-9._-]{0,255})(?:\((\d{1,10})\))?")


@dataclass(frozen=True, slots=True)
class SlurmLimits:
    """What ``scontrol show config`` says about hooks and time, in seconds; None where unset or unreadable.

    ``booted``: when the slurmctld that answers was started, by its own clock; another one has another time.
    """

    message_timeout: float | None = None
    batch_start_timeout: float | None = None
    prolog_epilog_timeout: float | None = None
    cred_expire: float | None = None
    health_check_interval: float | None = None
    prolog_flags: frozenset[str] | None = None
    scheduler_parameters: frozenset[str] = field(default_factory=frozenset)
    version: tuple[int, int, int] | None = None
    cluster: str | None = None
    slurm_user: str | None = None
    slurm_uid: int | None = None
    booted: datetime | None = None

    @property
    def alloc(self) -> bool:
        """Whether prologs run on all nodes at the allocation (some flags imply it)."""
        return bool(self._flags & {"alloc", "contain", "runinjob", "x11"})

    @property
    def serial(self) -> bool:
        """Whether the prologs of one node run one after another."""
        return "serial" in self._flags

    @property
    def deferbatch(self) -> bool:
        """Whether Slurm itself holds a batch script until all prologs have ended."""
        return "deferbatch" in self._flags

    @property
    def nohold(self) -> bool:
        """Whether a job that a prolog refused is requeued without being held."""
        return "nohold_on_prolog_fail" in self.scheduler_parameters

    @property
    def gpus_told(self) -> bool:
        """Whether the hooks of every node of a job are told its GPUs; see RUN_IN_JOB_BROKEN."""
        first, behind = RUN_IN_JOB_BROKEN
        return "runinjob" not in self._flags or self.version is None or not first <= self.version < behind

    @property
    def restart_after(self) -> float:
        """Seconds until a job that a prolog refused may start again, measured on 22.05: cred_expire and one more."""
        return (self.cred_expire or DEFAULT_CRED_EXPIRE) + 1.0

    @property
    def _flags(self) -> frozenset[str]:
        return self.prolog_flags or frozenset()

    def budget(self) -> float:
        """Return the longest time in seconds that a prolog may take: the smallest limit less 2 s, never below 0."""
        limits = [
            self.message_timeout or DEFAULT_MESSAGE_TIMEOUT,
            self.batch_start_timeout or DEFAULT_BATCH_START_TIMEOUT,
            self.cred_expire or DEFAULT_CRED_EXPIRE,
        ]
        if self.prolog_epilog_timeout is not None:
            limits.append(self.prolog_epilog_timeout)
        return max(0.0, min(limits) - MARGIN)


def parse_limits(text: str) -> SlurmLimits:
    """Read ``scontrol show config``; BadAnswer when it is something else."""
    settings = parse_config(text)
    if "MessageTimeout" not in settings and "SLURM_VERSION" not in settings:
        raise BadAnswer("answer is no slurm configuration: it has neither MessageTimeout nor SLURM_VERSION")
    user = _USER.fullmatch(settings.get("SlurmUser", ""))
    return SlurmLimits(
        message_timeout=_seconds(settings, "MessageTimeout"),
        batch_start_timeout=_seconds(settings, "BatchStartTimeout"),
        prolog_epilog_timeout=_hook_timeout(settings),
        cred_expire=_cred_expire(settings),
        health_check_interval=_seconds(settings, "HealthCheckInterval"),
        prolog_flags=_words(settings["PrologFlags"]) if "PrologFlags" in settings else None,
        scheduler_parameters=_words(settings.get("SchedulerParameters", "")),
        version=parse_version(settings.get("SLURM_VERSION", "")),
        cluster=_named(settings, "ClusterName"),
        slurm_user=user.group(1) if user else None,
        slurm_uid=int(user.group(2)) if user and user.group(2) else None,
        booted=time_from_text(settings.get("BOOT_TIME", "")),
    )


def gate_possible(limits: SlurmLimits) -> str | None:
    """Say why one node must not hold its prolog for the others, or None when it may.

    DeferBatch does not do without it: slurmctld then waits for every prolog, and after one that failed it starts the
    script all the same for a moment (26.05.5: 6 of 6 jobs, none with the first node's prolog held).
    """
    if limits.prolog_flags is None:
        return "PrologFlags of the running slurmctld are not known"
    if not limits.alloc:
        return "PrologFlags has no Alloc: prologs of the other nodes start only at the first step"
    if limits.serial:
        return "PrologFlags has Serial: jobs that wait for each other's nodes would deadlock"
    return None


def parse_version(text: str) -> tuple[int, int, int] | None:
    """Find a version such as 22.05.8 in the text."""
    match = _VERSION.search(text)
    return (int(match[1]), int(match[2]), int(match[3])) if match else None


def _seconds(settings: Mapping[str, str], key: str) -> float | None:
    match = _SECONDS.fullmatch(settings.get(key, ""))
    return float(match.group(1)) if match else None


def _hook_timeout(settings: Mapping[str, str]) -> float | None:
    """The smaller of PrologEpilogTimeout and, in releases that have it, PrologTimeout; None when none is set."""
    both = (_seconds(settings, key) for key in ("PrologEpilogTimeout", "PrologTimeout"))
    return min((value for value in both if value is not None and 0 < value < NONE_SET), default=None)


def _cred_expire(settings: Mapping[str, str]) -> float | None:
    if "AuthInfo" not in settings:
        return None
    words = dict(part.partition("=")[::2] for part in settings["AuthInfo"].split(","))
    if "cred_expire" not in words:
        return DEFAULT_CRED_EXPIRE
    return _seconds(words, "cred_expire")


def _words(text: str) -> frozenset[str]:
    parts = (part.strip().lower() for part in text.split(","))
    return frozenset(part for part in parts if part and part not in _EMPTY)


def _named(settings: Mapping[str, str], key: str) -> str | None:
    value = settings.get(key, "")
    return None if value in _EMPTY or not value.isprintable() else value[:255]
