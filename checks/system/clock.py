"""The node's clock is synchronised and close to the true time."""

from __future__ import annotations

import ctypes
import math
from collections.abc import Iterator

from checks.declare import check, code, ok
from checks.host import Host, NotRecorded
from checks.system.time_services import OWN, SERVICES, ntpd, running
from checks.wire import Finding

EXPLAIN = (
    "Beyond some minutes every credential is refused (munge: expired or rewound) and Slurm takes the node for dead; "
    "restarting slurmd does not help. Confirm: `chronyc tracking`, `timedatectl`. Do: repair the time service."
)
OFF = code("clock_off", "fail", "config", "clock is off by {offset:.3f} s, limit {limit:g} s", explain=EXPLAIN)
DRIFTING = code(
    "clock_drifting", "warn", "config", "clock is off by {offset:.3f} s, limit {limit:g} s", explain=EXPLAIN
)
UNSYNCHRONISED = code("clock_unsynchronised", "warn", "config", "clock is not synchronised ({source})", explain=EXPLAIN)
SOURCE = code(
    "clock_source_wrong",
    "warn",
    "config",
    "clock is kept by {found}, expected {expected}",
    explain="Confirm: `systemctl status chronyd ntpd systemd-timesyncd phc2sys`. Do: start the one that the site uses "
    "and stop the others: two of them pull the clock to and fro.",
)
UNASKED = code(
    "clock_unasked",
    "unknown",
    "self",
    "clock cannot be judged: {error}",
    explain="It says nothing about the node. Do: see that the time service runs and `chronyc -c tracking` or "
    "`ntpq` answers.",
)

COMMAND = ("chronyc", "-c", "tracking")
_OFFSET, _FIELDS = 4, 14
_STA_UNSYNC = 0x0040
_TIME_ERROR = 5


class _Timex(ctypes.Structure):
    """The head of Linux's struct timex, with room for the rest."""

    _fields_ = (
        ("modes", ctypes.c_uint),
        ("offset", ctypes.c_long),
        ("freq", ctypes.c_long),
        ("maxerror", ctypes.c_long),
        ("esterror", ctypes.c_long),
        ("status", ctypes.c_int),
        ("rest", ctypes.c_char * 256),
    )


@check(lane="system", interval=120, timeout=4.0, codes=(OFF, DRIFTING, UNSYNCHRONISED, SOURCE, UNASKED))
def clock(host: Host, *, warn_offset: float = 1.0, fail_offset: float = 60.0, source: str = "") -> Iterator[Finding]:
    """Offset in seconds as chrony or ntpd measure it; without them the kernel only says whether it is synchronised.

    ``source`` names the one service that may keep the clock: chrony, ntpd, timesyncd or ptp. Limits: munge refuses
    credentials beyond 300 s by default; 60 s leaves time to act. It is never the node's hardware: blame is config.
    Confirm by hand: ``chronyc tracking``, ``ntpq -c rv``, ``timedatectl``.

    ``warn_offset`` and ``fail_offset``: seconds from the true time, in either direction.
    """
    if source:
        yield from _service(host, source)
    missing = ""
    try:
        text = host.run(COMMAND)
    except NotRecorded as error:
        text, missing = "", str(error)
    except OSError:
        text = ""
    tracking = _tracking(text)
    if tracking is not None:
        yield _judge(*tracking, warn_offset, fail_offset, "chrony")
    elif (told := ntpd(host)) is not None:
        yield _judge(*told, warn_offset, fail_offset, "ntpd")
    elif missing:
        yield UNASKED("clock", error=missing)
    elif host.redirected:
        yield UNASKED("clock", error="chronyc gave no tracking line")
    else:
        yield from _by_kernel()


def _service(host: Host, source: str) -> Iterator[Finding]:
    if source not in SERVICES:
        raise ValueError(f"no time service: {source!r}, expected one of {', '.join(SERVICES)}")
    found = running(host)
    if found != (source,):
        yield SOURCE("clock", found=" and ".join(found) or "no service that is known", expected=source)


def _tracking(text: str) -> tuple[float, str] | None:
    """Offset and leap status of ``chronyc -c tracking``: 14 comma-separated fields or more, the 14th is the status."""
    fields = text.strip().split("\n")[0].split(",")
    if len(fields) < _FIELDS:
        return None
    try:
        offset = abs(float(fields[_OFFSET]))
    except ValueError:
        return None
    # Following its own clock it calls that normal.
    leap = "Not synchronised" if fields[0].strip().upper() == OWN else fields[_FIELDS - 1].strip()
    return (offset, leap) if math.isfinite(offset) else None


def _judge(offset: float, leap: str, warn_offset: float, fail_offset: float, source: str) -> Finding:
    if offset >= fail_offset:
        return OFF("clock", offset=offset, limit=fail_offset, leap=leap)
    if leap.lower().startswith("not"):
        return UNSYNCHRONISED("clock", source=source, offset=offset)
    if offset >= warn_offset:
        return DRIFTING("clock", offset=offset, limit=warn_offset, leap=leap)
    return ok("clock", f"off by {offset:.6f} s", offset=offset)


def _by_kernel() -> Iterator[Finding]:
    """Ask adjtimex(2), changing nothing."""
    asked = _Timex(modes=0)
    libc = ctypes.CDLL(None, use_errno=True)
    result = libc.adjtimex(ctypes.byref(asked))
    if result < 0:
        yield UNASKED("clock", error=f"adjtimex failed with errno {ctypes.get_errno()}")
    elif result == _TIME_ERROR or asked.status & _STA_UNSYNC:
        yield UNSYNCHRONISED("clock", source="kernel")
