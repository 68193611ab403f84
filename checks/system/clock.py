"""The node's clock is synchronised and close to the true time."""

from __future__ import annotations

import ctypes
import math
from collections.abc import Iterator

from checks.declare import check, code, ok
from checks.host import Host, NotRecorded
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
UNASKED = code("clock_unasked", "unknown", "self", "clock cannot be judged: {error}")

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


@check(lane="system", interval=120, timeout=4.0, codes=(OFF, DRIFTING, UNSYNCHRONISED, UNASKED))
def clock(host: Host, *, warn_offset: float = 1.0, fail_offset: float = 60.0) -> Iterator[Finding]:
    """Offset in seconds as chrony measures it; without chrony the kernel only says whether it is synchronised.

    Limits: munge refuses credentials beyond 300 s by default; 60 s leaves time to act. It is never the node's
    hardware: blame is config. Confirm by hand: ``chronyc tracking``, ``timedatectl``.
    """
    try:
        text = host.run(COMMAND)
    except NotRecorded as error:
        yield UNASKED("clock", error=str(error))
        return
    except OSError:
        text = ""
    tracking = _tracking(text)
    if tracking is not None:
        yield _judge(*tracking, warn_offset, fail_offset)
    elif host.redirected:
        yield UNASKED("clock", error="chronyc gave no tracking line")
    else:
        yield from _by_kernel()


def _tracking(text: str) -> tuple[float, str] | None:
    """Offset and leap status of ``chronyc -c tracking``: 14 comma-separated fields or more, the 14th is the status."""
    fields = text.strip().split("\n")[0].split(",")
    if len(fields) < _FIELDS:
        return None
    try:
        offset = abs(float(fields[_OFFSET]))
    except ValueError:
        return None
    return (offset, fields[_FIELDS - 1].strip()) if math.isfinite(offset) else None


def _judge(offset: float, leap: str, warn_offset: float, fail_offset: float) -> Finding:
    if offset >= fail_offset:
        return OFF("clock", offset=offset, limit=fail_offset, leap=leap)
    if leap.lower().startswith("not"):
        return UNSYNCHRONISED("clock", source="chrony", offset=offset)
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
