"""Lines of the kernel's log are one event each time something happened, and an event ends when the driver says so."""

from __future__ import annotations

import os
import re
from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

import msgspec

from checks.host import Host
from checks.judge.policy import XidRule
from checks.log.kmsg import KernelLog, Record
from checks.log.xid import RECOVERY, Xid, begins, driver_loaded, joined, parse_xid

Key = tuple[str, int, str]
Table = Mapping[str, XidRule]

BURST = 1.0
"""Lines of one Xid and GPU within this many seconds are one event."""
KEPT, SIGHTINGS = 256, 64
KEPT_PARTS, KEPT_TIMES, KEPT_WHOSE = 64, 8, 32
"""So many are remembered over a restart of the agent."""
_WRAPPED = 4
_JOB = re.compile(r"/job_(\d+)(?:/|$)", re.MULTILINE)
_JOBS = (
    "/sys/fs/cgroup/system.slice/*slurmstepd.scope",
    "/sys/fs/cgroup/*/slurm*/uid_*",
    "/sys/fs/cgroup/slurm*/uid_*",
)


@dataclass(slots=True)
class Event:
    """One Xid that stands: when it was seen, by our clock, and whether we saw it happen."""

    xid: Xid
    at: float
    fresh: bool
    lines: int = 1
    first: float = 0.0
    stamp: float = 0.0


@dataclass(slots=True)
class Sighting:
    """One time that a program's error was logged, and whose program it can have been; nobody's: not known."""

    stamp: float
    last: float
    whose: frozenset[str]
    victim: bool = False


class _Row(msgspec.Struct, array_like=True):
    """What travels of one sighting."""

    bdf: str
    number: int
    part: str
    stamp: float
    last: float
    whose: list[str]
    victim: bool


class _Book(msgspec.Struct):
    """What travels of all of them."""

    boot: str
    rows: list[_Row]


def recalled(plain: object, boot: str) -> dict[Key, deque[Sighting]]:
    """The sightings that an earlier agent of this boot remembered; no such thing, or another boot's: none."""
    found: dict[Key, deque[Sighting]] = {}
    try:
        book = msgspec.convert(plain, _Book)
    except msgspec.ValidationError:
        return found
    for row in book.rows[: KEPT_PARTS * KEPT_TIMES] if boot and book.boot == boot else ():
        seen = found.setdefault((row.bdf, row.number, row.part), deque(maxlen=SIGHTINGS))
        seen.append(Sighting(row.stamp, row.last, frozenset(row.whose), row.victim))
    return found


@dataclass(slots=True)
class Events:
    """What is kept between rounds."""

    log: KernelLog
    boot_id: str = ""
    standing: dict[Key, Event] = field(default_factory=dict)
    sightings: dict[Key, deque[Sighting]] = field(default_factory=dict)
    begun: str = ""
    begun_at: int = 0
    now: float = 0.0

    def boot(self, boot_id: str, remembered: object = None) -> None:
        """A new boot ends everything; what an earlier agent of this boot remembers of sightings is taken over."""
        if boot_id != self.boot_id:
            self.boot_id, self.begun, self.now = boot_id, "", 0.0
            self.standing.clear()
            self.sightings = recalled(remembered, boot_id)

    def plain(self) -> object:
        """What ``recalled`` takes: the last sightings of the last parts."""
        kept = [
            _Row(*key, one.stamp, one.last, sorted(one.whose)[:KEPT_WHOSE], one.victim)
            for key, seen in list(self.sightings.items())[-KEPT_PARTS:]
            for one in list(seen)[-KEPT_TIMES:]
        ]
        return msgspec.to_builtins(_Book(self.boot_id, kept))

    def follow(self, host: Host, records: Iterable[Record], table: Table) -> None:
        """Bring the standing events up to date with new records."""
        for record in records:
            self.now = record.seconds
            if driver_loaded(record.text):
                self.standing.clear()
                continue
            xid = self._read(record)
            if xid is None or _by_us(host, xid):
                continue
            if xid.number == RECOVERY and xid.action == 0:
                self._end(xid.bdf)
                continue
            rule = table.get(str(xid.number), XidRule())
            if rule.ends:
                self._end(xid.bdf, rule.ends)
            self._add(host, xid, record)
            # What stands in the ring of a live node from before is remembered, or nobody can tell whose it was.
            if rule.code == "gpu_xid_job" and xid.cause is None and (record.fresh or host.captured):
                self._sight(host, xid, record)

    def _read(self, record: Record) -> Xid | None:
        """The event of a record, together with the beginning of its message where that came as a record of its own."""
        xid = parse_xid(record.text)
        if xid is None and self.begun and record.sequence - self.begun_at <= _WRAPPED:
            xid = parse_xid(joined(self.begun, record.text))
        if xid is not None:
            self.begun = ""
        elif begins(record.text):
            self.begun, self.begun_at = record.text, record.sequence
        return xid

    def _end(self, bdf: str, numbers: tuple[int, ...] | None = None) -> None:
        over = [k for k in self.standing if k[0] == bdf and (numbers is None or k[1] in numbers)]
        for key in over:
            del self.standing[key]

    def _add(self, host: Host, xid: Xid, record: Record) -> None:
        key = (xid.bdf, xid.number, xid.part)
        standing = self.standing.get(key)
        if standing and abs(record.seconds - standing.stamp) <= BURST and standing.fresh == record.fresh:
            standing.lines += 1
            standing.stamp = record.seconds
            if graver(xid, standing.xid):
                standing.xid = xid
        elif standing or self._room():
            lines = standing.lines + 1 if standing else 1
            if standing and standing.fresh == record.fresh and not graver(xid, standing.xid) and standing.xid.fatal:
                xid = standing.xid
            self.standing[key] = Event(xid, host.clock(), record.fresh, lines, record.seconds, record.seconds)

    def _room(self) -> bool:
        """Whether one more can be kept; the many parts of a GPU that one program's errors name make room for it."""
        if len(self.standing) >= KEPT:
            oldest = min((k for k in self.standing if k[2]), key=lambda k: self.standing[k].at, default=None)
            if oldest is not None:
                del self.standing[oldest]
        return len(self.standing) < KEPT

    def _sight(self, host: Host, xid: Xid, record: Record) -> None:
        """Note whose program it was; what a burst says again is said once."""
        key = (xid.bdf, xid.number, xid.part)
        if key not in self.sightings and len(self.sightings) >= KEPT:
            del self.sightings[min(self.sightings, key=lambda k: self.sightings[k][-1].last)]
        seen = self.sightings.setdefault(key, deque(maxlen=SIGHTINGS))
        if seen and record.seconds - seen[-1].last <= BURST:
            seen[-1].last = max(seen[-1].last, record.seconds)
            return
        seen.append(Sighting(record.seconds, record.seconds, whose(host, xid)))

    def forget(self, now: float, hold: float, window: float) -> None:
        """Drop what is older than it may stand."""
        self.standing = {k: e for k, e in self.standing.items() if not e.fresh or now - e.at <= hold}
        for key, seen in list(self.sightings.items()):
            while seen and self.now - seen[0].last > window:
                seen.popleft()
            if not seen:
                del self.sightings[key]


def graver(one: Xid, other: Xid) -> bool:
    """Of one burst the fatal line counts, and of recovery actions the later."""
    return bool(one.fatal and not other.fatal) or one.number == RECOVERY


def whose(host: Host, xid: Xid) -> frozenset[str]:
    """The jobs whose program it can have been, by its control group, else all that run here now.

    Where Slurm keeps jobs in no control groups the process itself stands for its job; where it does and none is left,
    nobody: it cannot be told and does not count.
    """
    try:
        found = _JOB.search(host.read(f"/proc/{xid.pid}/cgroup")) if xid.pid is not None and _asked(host) else None
    except OSError:
        found = None
    if found:
        return frozenset({f"job {found[1]}"})
    places = [place for pattern in _JOBS for place in host.glob(pattern)] if _asked(host) else []
    if places:
        return frozenset(f"job {m[1]}" for p in places for j in p.glob("job_*") if (m := _JOB.search(f"/{j.name}")))
    return frozenset({f"process {xid.pid}"}) if xid.pid is not None else frozenset()


def different(seen: Iterable[Sighting]) -> int:
    """How many different jobs it were at least: two that may have been one count as one."""
    told: set[str] = set()
    count = 0
    for sighting in sorted((s for s in seen if s.whose and not s.victim), key=lambda s: len(s.whose)):
        if told.isdisjoint(sighting.whose):
            count += 1
        told |= sighting.whose
    return count


def _asked(host: Host) -> bool:
    """A kept log may be another machine's, whose processes this one cannot ask about."""
    return host.redirected or not host.captured


def _by_us(host: Host, xid: Xid) -> bool:
    """Whether our own question to the driver drew the error; judged by process id, a name can be anybody's."""
    if xid.pid is None or host.redirected:
        return False
    if xid.pid in (os.getpid(), os.getppid()):
        return True
    try:
        after_name = host.read(f"/proc/{xid.pid}/stat").rpartition(")")[2].split()
        return int(after_name[1]) == os.getppid() != 1
    except (OSError, ValueError, IndexError):
        return False
