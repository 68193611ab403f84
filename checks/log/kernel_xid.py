"""The kernel has reported no GPU error since we began to listen."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import cast, get_args

import msgspec

from checks.declare import CODES, Code, Skip, check, code, ok
from checks.gpu.health import LOST as GPU_LOST
from checks.gpu.pci import has_nvidia, on_bus
from checks.host import Host
from checks.judge.policy import usable
from checks.log.kmsg import KernelLog, Reading, Record
from checks.log.listening import OVERRUN, UNREADABLE, listen, log_path, open_log, usual
from checks.log.xid import LOST, NVLINK5, RECOVERY, Xid, driver_loaded, parse_xid
from checks.wire import Blame, Finding, Status

RESET = code(
    "gpu_xid_reset",
    "fail",
    "node",
    "Xid {xid} {name}",
    explain="NVIDIA's catalogue asks for a reset of the GPU. Confirm: `dmesg | grep -i xid`, "
    "`nvidia-smi -q -i <pci id> | grep -i recovery`. Do: let jobs end, reset the GPU or reboot; a line of the driver "
    "that the recovery action is none again, or that it was loaded anew, ends the finding.",
)
REPLACE = code(
    "gpu_xid_replace",
    "fail",
    "node",
    "Xid {xid} {name}",
    explain="NVIDIA's catalogue asks for a replacement. Confirm: `nvidia-smi -q -d ROW_REMAPPER,ECC -i <pci id>`. "
    "Do: replace the GPU.",
)
NVLINK = code(
    "gpu_xid_nvlink",
    "fail",
    "node",
    "Xid {xid} {name}, fatal",
    explain="After a fatal NVLink error every pair of GPUs in this node may hang although NVML says all is well. "
    "Confirm: `dmesg | grep -i xid`, an all-reduce over all GPUs. Do: let jobs end, reset all GPUs or reboot.",
)
WARN = code(
    "gpu_xid_warn",
    "warn",
    "node",
    "Xid {xid} {name}: {text}",
    explain="Worth knowing and no fault by itself; the present state decides, see `judge` in the evidence. "
    "Confirm: `dmesg | grep -i xid`.",
)
JOB = code(
    "gpu_xid_job",
    "warn",
    "job",
    "Xid {xid} {name}: {text}",
    explain="NVIDIA's catalogue blames the program: a bad address, an illegal instruction. It never drains a node.",
)
REPEATED = code(
    "gpu_xid_repeated",
    "warn",
    "node",
    "Xid {xid} from {processes} processes on {part}, limit {limit}",
    explain="One program's error, but from many programs on the same part: hardware is possible. "
    "Confirm: run NVIDIA's field diagnostic when the node is idle.",
)
Entry = dict[str, str | int | bool]
Table = dict[str, Entry]

# A fault's message may become a public reason: the table's words only, the line itself is evidence.
_OURS = (RESET, REPLACE, NVLINK, WARN, JOB)
BURST = 1.0
"""Lines of one Xid and GPU within this many seconds are one event."""
JOB_HOLD = 120.0
"""Seconds a program's error is shown; the node is well all the while."""
KEPT = 256


@dataclass(slots=True)
class _Event:
    """One Xid that stands: when it was seen, by our clock, and whether we saw it happen."""

    xid: Xid
    at: float
    fresh: bool
    lines: int = 1
    stamp: float = 0.0


@dataclass(slots=True)
class _State:
    """What is kept between rounds."""

    log: KernelLog
    events: dict[tuple[str, int, str], _Event] = field(default_factory=dict)
    processes: dict[tuple[str, int, str], set[int]] = field(default_factory=dict)


@check(
    lane="kmsg",
    interval=10,
    timeout=3.0,
    required=True,
    codes=(GPU_LOST, RESET, REPLACE, NVLINK, WARN, JOB, REPEATED, UNREADABLE, OVERRUN),
)
def kernel_xid(
    host: Host, *, hold: float = 900.0, repeat: int = 3, policy_dir: str = "/etc/nodevet/policy.d"
) -> Iterator[Finding]:
    """Xid errors in the kernel's own records, judged by the policy's table ``xid`` and what is true now.

    Only records of facility kernel count: a user's write to the log never does. What stood there before we listened
    is history, and so is an event after ``hold`` seconds, after a reload of the driver or a recovery action of none.
    A GPU that fell off the bus is confirmed on the PCI bus. ``repeat`` programs with one error on one part of a GPU
    make a warning. Confirm by hand: ``dmesg | grep -i xid``.
    """
    if usual(host) and not has_nvidia(host):
        raise Skip("no NVIDIA GPU in this node")
    path = log_path(host)
    state = host.kept(f"kernel_xid {path}", lambda: _State(open_log(host)))
    reading = listen(host, state.log, host.boot_id())
    if isinstance(reading, Finding):
        yield reading
        return
    if reading.overrun:
        yield OVERRUN("node")
    if reading.form:
        yield ok("node", f"log of the form {reading.form}: {reading.trust}", lines=len(reading.records))
    if reading.blind:
        yield UNREADABLE("node", error=f"no kernel records in {log_path(host).name}")
    _follow(host, state, reading)
    _forget(host, state, hold)
    yield from _judge(host, state, repeat, usable(policy_dir).xid)


def _follow(host: Host, state: _State, reading: Reading) -> None:
    """Bring the standing events up to date with new records."""
    for record in reading.records:
        if driver_loaded(record.text):
            state.events.clear()
            continue
        xid = parse_xid(record.text)
        if xid is None or _by_us(host, xid):
            continue
        if xid.number == RECOVERY and xid.action == 0:
            state.events = {k: e for k, e in state.events.items() if k[0] != xid.bdf}
            continue
        _add(host, state, xid, record)


def _add(host: Host, state: _State, xid: Xid, record: Record) -> None:
    key = (xid.bdf, xid.number, xid.part)
    standing = state.events.get(key)
    if standing and abs(record.seconds - standing.stamp) <= BURST and standing.fresh == record.fresh:
        standing.lines += 1
        standing.stamp = record.seconds
    elif standing or _room(state):
        lines = standing.lines + 1 if standing else 1
        state.events[key] = _Event(xid, host.clock(), record.fresh, lines, record.seconds)
    programs = state.processes.setdefault(key, set()) if len(state.processes) < KEPT else set()
    if xid.pid is not None and len(programs) < KEPT:
        programs.add(xid.pid)


def _room(state: _State) -> bool:
    """Whether one more event can be kept; the many parts of a GPU that one program's errors name make room for it."""
    if len(state.events) >= KEPT:
        oldest = min((k for k in state.events if k[2]), key=lambda k: state.events[k].at, default=None)
        if oldest is not None:
            del state.events[oldest]
    return len(state.events) < KEPT


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


def _forget(host: Host, state: _State, hold: float) -> None:
    now = host.clock()
    state.events = {k: e for k, e in state.events.items() if not e.fresh or now - e.at <= hold}
    if not state.events:
        state.processes.clear()


def _judge(host: Host, state: _State, repeat: int, table: Table) -> Iterator[Finding]:
    for key, event in state.events.items():
        programs = len(state.processes.get(key, ()))
        found = _finding(host, event, table)
        if found.blame != "job" or host.clock() - event.at <= JOB_HOLD:
            yield found
        if found.blame == "job" and programs >= repeat:
            part = event.xid.part or event.xid.bdf
            yield REPEATED(event.xid.bdf, xid=event.xid.number, processes=programs, part=part, limit=repeat)


def _finding(host: Host, event: _Event, table: Table) -> Finding:
    """One event judged: a lost GPU by the bus, a victim and history as a note, the rest by the table."""
    xid = event.xid
    # A kept log may be another machine's, whose bus this one cannot ask.
    asked = host.redirected or not host.captured
    if xid.number == LOST and asked and on_bus(host, xid.bdf) is False:
        sign = "Xid 79, and it no longer answers on the PCI bus"
        return GPU_LOST(xid.bdf, sign=sign, xid=xid.number, lines=event.lines)
    entry = _entry(table, xid)
    name = str(entry.get("name", "not in the table"))
    if not event.fresh:
        return ok(xid.bdf, f"Xid {xid.number} {name} is history: logged before we listened", xid=xid.number)
    if xid.cause is not None:
        return ok(xid.bdf, f"Xid {xid.number} is a victim of Xid {xid.cause}", xid=xid.number, cause=xid.cause)
    judge = str(entry.get("judge", ""))
    text = xid.text or "no text"
    found = _code(entry, xid)(xid.bdf, xid=xid.number, name=name, text=text, lines=event.lines, judge=judge)
    if _harmless(xid):
        return found
    status, blame = entry.get("status", found.status), entry.get("blame", found.blame)
    if status in get_args(Status) and blame in get_args(Blame) and blame != "self":
        return msgspec.structs.replace(found, status=cast(Status, status), blame=cast(Blame, blame))
    return found


def _code(entry: Entry, xid: Xid) -> Code:
    """The entry's code; an unknown code is a warning."""
    if _harmless(xid):
        return WARN
    made = CODES.get(str(entry.get("code", WARN.name)), WARN)
    return made if made in _OURS else WARN


def _harmless(xid: Xid) -> bool:
    """An NVLink error that the driver calls nonfatal, or of which it does not say; the present state decides then."""
    return xid.number in NVLINK5 and not xid.fatal


def _entry(table: Table, xid: Xid) -> Entry:
    return table.get(str(xid.number)) or table.get("default", {})
