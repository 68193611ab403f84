"""Every time limit of the running Slurm leaves the hook its deadline, and the clocks agree."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timezone

from slurm.config import (
    DEFAULT_BATCH_START_TIMEOUT,
    DEFAULT_CRED_EXPIRE,
    DEFAULT_MESSAGE_TIMEOUT,
    MARGIN,
    SlurmLimits,
    parse_limits,
)
from slurm.doctor.advice import Advice
from slurm.text import parse_config

REQUEUE_DELAY = (25, 11, 0)  # the first release with SchedulerParameters=requeue_delay
HEALTH_TIMEOUT = (26, 5, 0)  # the first release with HealthCheckTimeout
HEALTH_TIMEOUT_DEFAULT = 60  # seconds
CLOCK_WARN, CLOCK_PROBLEM = 5.0, 60.0  # seconds; MUNGE refuses a credential after 300
OTHERS_LEAST = 60  # seconds of BatchStartTimeout where other programs share the prolog's time

_AS_OF = re.compile(r"Configuration data as of (\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)")


@dataclass(frozen=True, slots=True)
class Running:
    """``scontrol show config`` of the running slurmctld, asked with TZ=UTC."""

    limits: SlurmLimits
    settings: Mapping[str, str]
    at: datetime | None = None

    @classmethod
    def read(cls, text: str) -> Running:
        """Read the whole answer; raises BadAnswer when it is something else."""
        match = _AS_OF.search(text)
        at = datetime.fromisoformat(match[1]).replace(tzinfo=timezone.utc) if match else None
        return cls(parse_limits(text), parse_config(text), at)

    def value(self, key: str) -> str:
        """The setting, empty where Slurm says that there is none."""
        value = self.settings.get(key, "")
        return "" if value in ("(null)", "(none)", "none", "N/A") else value

    def number(self, key: str) -> int | None:
        """The setting's leading number (``60 sec``), or None."""
        match = re.match(r"(\d{1,9})(?: sec)?$", self.value(key))
        return int(match[1]) if match else None

    def since(self, release: tuple[int, int, int]) -> bool:
        """Whether the running release is this one or later; an unknown one is not."""
        return self.limits.version is not None and self.limits.version >= release


def limit_rules(running: Running, deadline: float, now: datetime) -> Iterator[Advice]:
    """All advice about time; ``deadline`` is the hook's in seconds, ``now`` the middle of the question."""
    limits = running.limits
    yield from _limit("PrologEpilogTimeout", limits.prolog_epilog_timeout, None, deadline, _KILLED)
    yield from _limit("BatchStartTimeout", limits.batch_start_timeout, DEFAULT_BATCH_START_TIMEOUT, deadline, _MISSING)
    yield from _limit("MessageTimeout", limits.message_timeout, DEFAULT_MESSAGE_TIMEOUT, deadline, _MESSAGE)
    yield from _shared(running)
    yield from _cred_expire(running, deadline)
    yield from _health(running)
    if running.at is not None:
        yield clock(running.at, now)


_KILLED = "at the limit Slurm kills the prolog and drains the node for it"
_MISSING = "a batch job whose prolog still runs then can be taken for lost and requeued"
_MESSAGE = "slurmctld and slurmd give up on each other while the prolog still runs"


def _limit(key: str, value: float | None, default: float | None, deadline: float, why: str) -> Iterator[Advice]:
    limit = default if value is None else value
    if limit is None:
        yield Advice("ok", key, "not set: hooks are never killed by Slurm")
        return
    seen = f"{key} {limit:g} s against hook.conf deadline_s {deadline:g} s"
    write = f"{key}={_rounded(deadline)}"
    if limit <= deadline:
        yield Advice("problem", key, seen, why, write)
    elif limit < deadline + MARGIN:
        yield Advice("warning", key, f"{seen}, less than {MARGIN:g} s apart", why, write)
    else:
        yield Advice("ok", key, seen)


def _shared(running: Running) -> Iterator[Advice]:
    """Other programs of a chain take their time out of the same limit, one after the other."""
    limit = running.limits.batch_start_timeout or DEFAULT_BATCH_START_TIMEOUT
    chain = running.value("Prolog")
    if ("," in chain or "*" in chain) and limit < OTHERS_LEAST:
        seen = f"BatchStartTimeout {limit:g} s for all programs of Prolog {chain[:200]} together"
        yield Advice("warning", "BatchStartTimeout", seen, _MISSING, f"BatchStartTimeout={OTHERS_LEAST}")


def _rounded(deadline: float) -> int:
    """The next ten seconds with room to spare."""
    return int((deadline + MARGIN + 9) // 10 * 10)


def _cred_expire(running: Running, deadline: float) -> Iterator[Advice]:
    limit = running.limits.cred_expire or DEFAULT_CRED_EXPIRE
    if limit < deadline + MARGIN:
        yield Advice(
            "problem" if limit <= deadline else "warning",
            "cred_expire",
            f"AuthInfo cred_expire {limit:g} s against hook.conf deadline_s {deadline:g} s",
            "the job's credential expires while its prolog runs, and the launch fails",
            "AuthInfo=…,cred_expire=120 (or leave the word out)",
        )
    elif running.limits.nohold and not _words(running, "requeue_delay"):
        later = running.since(REQUEUE_DELAY)
        yield Advice(
            "ok",
            "cred_expire",
            f"a job whose node was refused waits {limit + 1:g} s before it may start again",
            "Slurm counts cred_expire before a requeue",
            "SchedulerParameters=…,requeue_delay=10" if later else "",
        )


def _words(running: Running, name: str) -> bool:
    return any(word.partition("=")[0] == name for word in running.limits.scheduler_parameters)


def _health(running: Running) -> Iterator[Advice]:
    interval, program = running.number("HealthCheckInterval"), running.value("HealthCheckProgram")
    if not program:
        return
    if not interval:
        why = "the program is set but slurmd never runs it"
        yield Advice("warning", "HealthCheckInterval", "HealthCheckInterval 0", why, "HealthCheckInterval=60")
        return
    limit = running.number("HealthCheckTimeout") or HEALTH_TIMEOUT_DEFAULT
    if running.since(HEALTH_TIMEOUT) and limit > interval:
        yield Advice(
            "warning",
            "HealthCheckTimeout",
            f"HealthCheckTimeout {limit} s against HealthCheckInterval {interval} s",
            "slurmd complains that the time-out must be less than the interval",
            f"HealthCheckTimeout={max(interval - 1, 1)}",
        )
    else:
        yield Advice("ok", "HealthCheckInterval", f"HealthCheckInterval {interval} s")


def clock(theirs: datetime, ours: datetime) -> Advice:
    """This machine's clock against the controller's, which tells whole seconds only."""
    apart = abs((ours - theirs).total_seconds())
    seen = f"clock {apart:.0f} s from the controller's"
    why = "credentials are refused when clocks differ (MUNGE: 300 s), and reports carry wrong times"
    if apart <= CLOCK_WARN:
        return Advice("ok", "clock", seen)
    level = "problem" if apart > CLOCK_PROBLEM else "warning"
    return Advice("problem" if level == "problem" else "warning", "clock", seen, why, "systemctl restart chronyd")
