"""The kernel has reported no GPU error since we began to listen."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import msgspec

from checks.declare import Code, Skip, check, code, ok
from checks.gpu.health import ACTION_NAMES, ACTIONS
from checks.gpu.health import LOST as GPU_LOST
from checks.gpu.health import RESET as RESET_REQUIRED
from checks.gpu.pci import has_nvidia, on_bus
from checks.host import Host
from checks.judge.policy import Policy, XidRule, usable
from checks.log.listening import OVERRUN, UNREADABLE, listen, log_path, open_log, usual
from checks.log.nvlink5 import grave, step
from checks.log.xid import LOST, NVLINK5, RECOVERY, UNKNOWN_ACTION, Xid
from checks.log.xid_cause import cause_of, causes, mark_victims
from checks.log.xid_events import Event, Events, different
from checks.wire import Finding

_RECOVERY = tuple(dict.fromkeys(ACTIONS.values()))
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
    explain="NVIDIA's criteria for a replacement are met. Confirm: `nvidia-smi -q -d ROW_REMAPPER,ECC -i <pci id>`. "
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
    "Confirm: `dmesg | grep -i xid`."
    " Do: read `nodevet policy show xid.<number>` for what this one means.",
)
JOB = code(
    "gpu_xid_job",
    "warn",
    "job",
    "Xid {xid} {name}: {text}",
    explain="NVIDIA's catalogue blames the program: a bad address, an illegal instruction. It never drains a node."
    " Do: tell the job's owner.",
)
REPEATED = code(
    "gpu_xid_repeated",
    "warn",
    "node",
    "Xid {xid} from {programs} different {kind} on {part}, limit {limit}",
    explain="One program's error, but from different jobs on the same part within a day: hardware is possible. What "
    "one job repeats counts once, and what cannot be told whose it was does not count. "
    "Confirm: run NVIDIA's field diagnostic when the node is idle."
    " Do: replace the GPU if the diagnostic fails.",
)
# A fault's message may become a public reason: the table's words only, the line itself is evidence.
_OURS = {c.name: c for c in (RESET, REPLACE, NVLINK, WARN, JOB)}
JOB_HOLD = 120.0
"""Seconds a program's error is shown; the node is well all the while."""
WINDOW = 86400.0
"""Seconds within which the same error of different jobs is counted together."""
_NOTHING = XidRule()


@check(
    lane="kmsg",
    interval=10,
    timeout=3.0,
    required=True,
    codes=(GPU_LOST, *_RECOVERY, RESET, REPLACE, NVLINK, WARN, JOB, REPEATED, UNREADABLE, OVERRUN),
)
def kernel_xid(
    host: Host, *, hold: float = 900.0, repeat: int = 3, policy_dir: str = "/etc/nodevet/policy.d"
) -> Iterator[Finding]:
    """Xid errors in the kernel's own records, judged by the policy's ``xid`` and ``nvlink5`` and what is true now.

    Only records of facility kernel count: a user's write to the log never does. What stood there before we listened
    is history, and so is an event after ``hold`` seconds, after a reload of the driver or a recovery action of none.
    A GPU that fell off the bus is confirmed on the PCI bus. What is logged beside an error that others come of is its
    victim. ``repeat`` different jobs with one error on one part of a GPU within a day make a warning.
    Confirm by hand: ``dmesg | grep -i xid``.

    ``policy_dir``: where the site's tables lie; the agent's own unless set.
    """
    if usual(host) and not has_nvidia(host):
        raise Skip("no NVIDIA GPU in this node")
    path = log_path(host)
    events = host.kept(f"kernel_xid {path}", lambda: Events(open_log(host)))
    boot_id = host.boot_id()
    events.boot(boot_id, host.memory.get("sightings"))
    reading = listen(host, events.log, boot_id)
    if isinstance(reading, Finding):
        yield reading
        return
    if reading.overrun:
        yield OVERRUN("node")
    if reading.form:
        yield ok("node", f"log of the form {reading.form}: {reading.trust}", lines=len(reading.records))
    if reading.blind:
        yield UNREADABLE("node", error=f"no kernel records in {log_path(host).name}")
    policy = usable(policy_dir)
    events.follow(host, reading.records, policy.xid)
    events.forget(host.clock(), hold, WINDOW)
    yield from _judge(host, events, policy)
    yield from _repeated(events, repeat)
    if events.sightings:
        host.keep("sightings", events.plain())


def _judge(host: Host, events: Events, policy: Policy) -> Iterator[Finding]:
    primary = causes(events, policy)
    mark_victims(events, primary, policy)
    for event in _one_each(events):
        cause = cause_of(event, primary, policy)
        found = _victim(event.xid, cause) if cause else _finding(host, event, policy)
        if found.blame != "job" or host.clock() - event.at <= JOB_HOLD:
            yield found


def _one_each(events: Events) -> Iterator[Event]:
    """One event of each Xid and GPU, the newest: one program's error may name every part of a GPU within a second."""
    newest: dict[tuple[str, int, bool], Event] = {}
    for event in sorted(events.standing.values(), key=lambda e: e.stamp):
        key = (event.xid.bdf, event.xid.number, event.fresh)
        lines = event.lines + (newest[key].lines if key in newest else 0)
        newest[key] = replace(event, lines=lines)
    yield from newest.values()


def _repeated(events: Events, repeat: int) -> Iterator[Finding]:
    for (bdf, number, part), seen in events.sightings.items():
        count = different(seen)
        if count >= repeat:
            kind = "jobs" if any(w.startswith("job ") for s in seen for w in s.whose) else "processes"
            yield REPEATED(bdf, xid=number, programs=count, kind=kind, part=part or bdf, limit=repeat)


def _victim(xid: Xid, cause: Xid) -> Finding:
    text = f"Xid {xid.number} is a victim of Xid {cause.number}"
    if cause.bdf != xid.bdf:
        text += f" of {cause.bdf}"
    return ok(xid.bdf, text, xid=xid.number, cause=cause.number, cause_gpu=cause.bdf)


def _finding(host: Host, event: Event, policy: Policy) -> Finding:
    """One event judged: a lost GPU by the bus, a victim and history as a note, the rest by the table."""
    xid = event.xid
    # A kept log may be another machine's, whose bus this one cannot ask.
    asked = host.redirected or not host.captured
    if xid.number == LOST and asked and on_bus(host, xid.bdf) is False:
        sign = "Xid 79, and it no longer answers on the PCI bus"
        return GPU_LOST(xid.bdf, sign=sign, xid=xid.number, lines=event.lines)
    rule = policy.xid.get(str(xid.number)) or policy.xid.get("default", _NOTHING)
    name = rule.name or "not in the table"
    if not event.fresh:
        return ok(xid.bdf, f"Xid {xid.number} {name} is history: logged before we listened", xid=xid.number)
    if xid.cause is not None:
        return ok(xid.bdf, f"Xid {xid.number} is a victim of Xid {xid.cause}", xid=xid.number, cause=xid.cause)
    if xid.number == RECOVERY and rule.code in (None, WARN.name):
        found = _recovery(xid, event.lines)
    else:
        evidence = {"judge": rule.judge or "", **_of_link(xid, policy)}
        made = _code(rule, xid, policy)
        found = made(xid.bdf, xid=xid.number, name=name, text=xid.text or "no text", lines=event.lines, **evidence)
        if made is WARN and xid.number in NVLINK5:
            return found
    return msgspec.structs.replace(found, status=rule.status or found.status, blame=rule.blame or found.blame)


def _code(rule: XidRule, xid: Xid, policy: Policy) -> Code:
    """The entry's code; of an NVLink error only where it is a fault, else the present state decides."""
    if xid.number in NVLINK5 and not grave(xid, step(xid, policy.nvlink5.values())):
        return WARN
    return _OURS.get(rule.code or "", WARN)


def _of_link(xid: Xid, policy: Policy) -> dict[str, str | int]:
    """What an NVLink5 error says of itself, as evidence."""
    if xid.number not in NVLINK5:
        return {}
    wanted = step(xid, policy.nvlink5.values())
    told = {"unit": xid.unit, "link": xid.link, "subcode": xid.subcode, "status": xid.status, "step": wanted}
    return {name: value for name, value in told.items() if value is not None and value != ""}


def _recovery(xid: Xid, lines: int) -> Finding:
    """What the driver asks for; an action that is not known holds new work as a reset would."""
    action = UNKNOWN_ACTION if xid.action is None else xid.action
    named = ACTION_NAMES.get(action) or ("not known to us" if action < 0 else f"{action}, not known to us")
    made = ACTIONS.get(action, RESET_REQUIRED)
    return made(xid.bdf, sign=f"recovery action {named} (Xid 154)", action=action, xid=xid.number, lines=lines)
