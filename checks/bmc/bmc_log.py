"""The BMC has logged no trouble of the hardware since we first read its log."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from checks.bmc.bmc_sensors import UNASKED
from checks.bmc.ipmi import Entry, ask, entries
from checks.declare import check, code, ok
from checks.host import Host
from checks.wire import Finding

LOGGED = code(
    "bmc_event",
    "warn",
    "node",
    "BMC logged {means}: {event}, {count} times since entry {since}",
    explain="What the machine noted while nobody looked, also before its kernel ran. What was logged before we first "
    "read it is not told. Confirm: `ipmitool sel elist`. Do: see to the part, then `ipmitool sel clear`.",
)
FULL = code(
    "bmc_log_full",
    "warn",
    "config",
    "BMC's event log is {used_pct} % full, limit {limit_pct} %",
    explain="A full one takes no new entry. Confirm: `ipmitool sel info`. "
    "Do: `ipmitool sel save FILE`, then `ipmitool sel clear`.",
)
# What is worth a warning, most telling first; the rest (boots, logins, presence) is a log and no trouble.
_MEANINGS: Sequence[tuple[re.Pattern[str], str]] = tuple(
    (re.compile(pattern, re.IGNORECASE), means)
    for pattern, means in (
        (r"uncorrectable ecc|uncorrectable (?:memory|error)", "an uncorrectable memory error"),
        (r"bus (?:fatal|uncorrectable) error|pci serr|fatal nmi|pcie? fatal", "a fatal error of the bus"),
        (
            r"\bierr\b|machine check|caterr|processor (?:disabled|configuration error)|frb[123]",
            "a fault of a processor",
        ),
        (r"thermal trip|upper (?:critical|non-recoverable) going high|over ?temperature", "too much heat"),
        (r"processor throttled|cpu throttl|automatically throttled", "a processor that was throttled"),
        (r"power supply ac lost|ac lost or out-of-range|failure detected|predictive failure", "a failing power supply"),
        (r"redundancy lost|insufficient resources", "that nothing is spare any more"),
        (r"lower (?:critical|non-recoverable) going low", "a sensor below its critical limit"),
        (r"drive fault|in (?:critical|failed) array", "a failing drive"),
        (
            r"bios corruption|rom corruption|firmware (?:rom )?corrupt|no (?:usable|system) memory",
            "trouble of the firmware",
        ),
        (r"correctable (?:ecc|memory) (?:error )?(?:logging )?limit reached", "too many corrected memory errors"),
    )
)
_USED = re.compile(r"^Percent Used\s*:\s*(\d{1,3})\s*%", re.MULTILINE)
_NAMED = 20
_ELSEWHERE = 0xFFFF
"""The highest number an entry can have; a log that is cleared begins anew."""


@check(lane="bmc", cost="active", interval=3600, timeout=30.0, needs=("root",), codes=(LOGGED, FULL, UNASKED))
def bmc_log(
    host: Host, *, full_pct: int = 90, ignore: tuple[str, ...] = (), seconds: float = 20.0
) -> Iterator[Finding]:
    """Entries of the system event log behind the last one of our first look, which the agent remembers.

    gcm's seven patterns and their like are told, other entries are not; one that was deasserted later has ended.
    ``ignore`` names sensors. A log that was cleared is read anew. Confirm by hand: ``ipmitool sel elist``.

    ``full_pct``: how full the log may be. ``seconds``: how long ipmitool may take.
    """
    try:
        found = entries(ask(host, "sel", "elist", timeout=seconds))
    except OSError as error:  # TimeoutError is one
        yield UNASKED("bmc", error=str(error)[:160])
        return
    since = _baseline(host, found)
    new = [e for e in found if e.number > since and e.sensor not in ignore]
    bad = list(_told(new, since))
    yield from bad[:_NAMED]
    used = _used(host)
    if used is not None and used >= full_pct:
        yield FULL("bmc", used_pct=used, limit_pct=full_pct)
    elif not bad:
        yield ok("bmc", f"{len(found)} entries, {len(new)} new", entries=len(found), new=len(new))


def _baseline(host: Host, found: Sequence[Entry]) -> int:
    """The last entry of the first look; begun anew when the log no longer reaches up to it."""
    last = max((e.number for e in found), default=0)
    known = host.memory.get("bmc_log")
    remembered = isinstance(known, int) and 0 <= known <= _ELSEWHERE
    since = last if not remembered else known if isinstance(known, int) and known <= last else 0
    host.keep("bmc_log", since)
    return since


def _told(new: Sequence[Entry], since: int) -> Iterator[Finding]:
    """One finding for each sensor and meaning whose last entry does not say that it ended."""
    last: dict[tuple[str, str], tuple[Entry, int]] = {}
    for entry in sorted(new, key=lambda e: e.number):
        means = next((means for pattern, means in _MEANINGS if pattern.search(entry.event)), "")
        if means:
            count = last.get((entry.sensor, means), (entry, 0))[1]
            last[entry.sensor, means] = (entry, count + (not entry.ended))
    for (sensor, means), (entry, count) in last.items():
        if not entry.ended:
            yield LOGGED(sensor, means=means, event=entry.event, count=count, since=since, entry=entry.number)


def _used(host: Host) -> int | None:
    """Percent of the log in use; None where the BMC does not say."""
    try:
        used = _USED.search(ask(host, "sel", "info", timeout=5.0))
    except OSError:
        return None
    return int(used[1]) if used else None
