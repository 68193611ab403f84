"""The kernel has reported no trouble of processor, memory, bus, disk, network or file system since we listen."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

import msgspec

from checks.declare import Code, check, clean, code
from checks.host import Host
from checks.judge.policy import KernelRule, SxidRule, per_policy, usable
from checks.judge.rules import expression
from checks.log.file_clients import CLIENT, EVICTED, SERVER
from checks.log.kmsg import KernelLog, Record
from checks.log.listening import OVERRUN, UNREADABLE, listen, log_path, open_log
from checks.log.spare_disk import nothing_lost
from checks.log.sxid import Sxid, ended_by, kernel_rules, kind_of, named, parse_sxid
from checks.wire import Finding

_SEE = "Confirm: `dmesg -T --level=emerg,alert,crit,err,warn`. "
LOCKUP = code(
    "kernel_lockup",
    "fail",
    "node",
    "{means} ({lines} lines within {within:g} s, limit {limit})",
    explain="A core no longer leaves the kernel: jobs on it stand still and new ones join them. "
    + _SEE
    + "Do: let jobs end, reboot; if it comes back with the same frames, ask the maker of the module named there.",
)
DIED = code(
    "kernel_oops",
    "fail",
    "node",
    "kernel has hit an error of its own since it was booted (taint {taint}, bit 7 is set)",
    explain="Parts of the kernel died with what they held: later calls may hang or go wrong. "
    "Confirm: `cat /proc/sys/kernel/tainted`, `dmesg | grep -A30 -e Oops -e 'kernel BUG'`. Do: let jobs end, reboot.",
)
UNCORRECTED = code(
    "hardware_error_uncorrected",
    "fail",
    "node",
    "{means}",
    explain="Data was lost in memory or processor. " + _SEE + "Also `ipmitool sel list`. Do: let jobs end, replace the "
    "part that the record names; a person gives the node back.",
)
CORRECTED = code(
    "hardware_error_corrected",
    "warn",
    "node",
    "{means} ({lines} lines within {within:g} s, limit {limit})",
    explain="Corrected errors do no harm, many of them announce one that cannot be corrected. "
    + _SEE
    + "Do: plan a replacement of the module that the record names.",
)
PCIE = code(
    "pcie_error",
    "warn",
    "node",
    "{means} ({lines} lines within {within:g} s, limit {limit})",
    explain="Errors on PCI express: a card not seated, a bad riser, a retimer. "
    + _SEE
    + "`lspci -vv -s <target>`. Do: reseat or replace what is on that link.",
)
HOT = code(
    "cpu_too_hot",
    "warn",
    "node",
    "{means}",
    explain="Jobs run slower than on their other nodes. Confirm: `ipmitool sdr type fan`, `sensors`. Do: look at fans.",
)
TROUBLE = code(
    "kernel_trouble",
    "warn",
    "node",
    "{means} ({lines} lines within {within:g} s, limit {limit})",
    explain="The kernel waits where it should not. " + _SEE + "Do: find out for what; a mount or a driver that hangs "
    "has a finding of its own.",
)
GPU_INIT = code(
    "gpu_init_failed",
    "warn",
    "node",
    "{means}",
    explain="What is true now is told by gpu_count and gpu_driver. " + _SEE + "Do: reset the GPU or reboot.",
)
DISK_GONE = code(
    "disk_gone",
    "fail",
    "node",
    "{means}",
    explain="The disk has left the bus; a warning where all that is mounted lies on disks that are still there, as "
    "when a spare one was pulled. Confirm: `nvme list`, `lsblk`. Do: power-cycle the node, replace the disk.",
)
DISK = code(
    "disk_errors",
    "warn",
    "node",
    "{means} ({lines} lines within {within:g} s, limit {limit})",
    explain=_SEE + "`smartctl -a`, `nvme smart-log`. Do: plan a replacement of the disk.",
)
NIC_DEAD = code(
    "nic_firmware_dead",
    "fail",
    "node",
    "{means}",
    explain="The adapter's firmware stopped; its ports may still be shown as active. "
    + _SEE
    + "Do: let jobs end, reload the driver or power-cycle the node.",
)
NIC = code(
    "nic_trouble",
    "warn",
    "node",
    "{means} ({lines} lines within {within:g} s, limit {limit})",
    explain=_SEE + "Do: if it comes again, look at firmware, cable and slot.",
)
SWITCH = code(
    "nvswitch_fatal",
    "fail",
    "node",
    "{means}",
    explain="Every GPU of the node sends over the switches: collectives hang or fail although NVML says all is well. "
    "Confirm: `dmesg | grep SXid`, `nvidia-smi nvlink -s`, the fabric manager's log. Do: let jobs end, reboot; if it "
    "comes back, the board is for the maker.",
)
SWITCH_ERRORS = code(
    "nvswitch_errors",
    "warn",
    "node",
    "{means} ({lines} lines within {within:g} s, limit {limit})",
    explain="Confirm: `dmesg | grep SXid`. Do: watch; a board that gives many is for the maker.",
)
_OURS = {
    c.name: c
    for c in (LOCKUP, UNCORRECTED, CORRECTED, PCIE, HOT, TROUBLE, GPU_INIT, DISK_GONE, DISK, NIC_DEAD, NIC, SERVER,
              EVICTED, CLIENT, SWITCH, SWITCH_ERRORS)
}  # fmt: skip
KEPT = 256
"""Targets with standing lines; more at once are counted under the kind alone."""
WITHIN, HOLD = 600.0, 900.0
_DIED = 1 << 7
# Lines that begin with a process name of at most 15 characters, which its user chooses.
_USERS_OWN = re.compile(r"^(?:traps: )?.{1,15}\[\d{1,10}\][: ]")

Key = tuple[str, str]


@dataclass(slots=True)
class _Standing:
    """The last lines of one kind about one target, by the kernel's own clock, and when we read the newest."""

    stamps: deque[float]
    read_at: float = 0.0
    detail: str = ""


@dataclass(slots=True)
class _State:
    """What is kept between rounds."""

    log: KernelLog
    boot_id: str = ""
    standing: dict[Key, _Standing] = field(default_factory=dict)


@check(lane="kmsg", interval=10, timeout=3.0, codes=(*_OURS.values(), DIED, UNREADABLE, OVERRUN))
def kernel_events(host: Host, *, policy_dir: str = "/etc/nodevet/policy.d") -> Iterator[Finding]:
    """Lines of the kernel's own log other than Xids, by the policy's tables ``kernel`` and ``sxid``; and whether the
    kernel is tainted 'D'.

    Only records of facility kernel count, only those written since we listen, and no expression may rest on a text
    that a user chooses, such as a process name. A line that ends the trouble ends the finding, else it stands for the
    entry's ``hold`` seconds. Confirm by hand: ``dmesg -T --level=emerg,alert,crit,err,warn``.

    ``policy_dir``: where the site's tables lie; the agent's own unless set.
    """
    yield from _taint(host)
    state = host.kept(f"kernel_events {log_path(host)}", lambda: _State(open_log(host)))
    if (boot_id := host.boot_id()) != state.boot_id:
        state.boot_id, state.standing = boot_id, {}
    reading = listen(host, state.log, boot_id)
    if isinstance(reading, Finding):
        yield reading
        return
    if reading.overrun:
        yield OVERRUN("node")
    if reading.blind:
        yield UNREADABLE("node", error=f"no kernel records in {log_path(host).name}")
    rules, switches = _rules(policy_dir), usable(policy_dir).sxid
    for record in reading.records:
        if record.fresh and not _USERS_OWN.match(record.text):
            if (sxid := parse_sxid(record.text)) is not None:
                _take_sxid(state, rules, switches, (sxid, record), host.clock())
            else:
                _take(state, rules, record, host.clock())
    for found in _judge(state, rules, host.clock()):
        spare = found.code == DISK_GONE.name and found.status == "fail" and nothing_lost(host)
        yield msgspec.structs.replace(found, status="warn") if spare else found


def _taint(host: Host) -> Iterator[Finding]:
    """The kernel's own memory of an error of its own, which no line can forge and no restart of ours loses."""
    try:
        taint = host.count("/proc/sys/kernel/tainted")
    except (OSError, ValueError):
        return
    if taint & _DIED and taint < 1 << 32:  # the kernel has some twenty flags
        yield DIED("node", taint=taint)


@dataclass(frozen=True, slots=True)
class _Rule:
    """One entry of the table, ready for use; an SXid is found by its number instead of an expression."""

    given: KernelRule
    match: re.Pattern[str] | None
    clear: re.Pattern[str] | None
    code: Code


def _take(state: _State, rules: Mapping[str, _Rule], record: Record, now: float) -> None:
    for name, rule in rules.items():
        if rule.clear is not None and (over := rule.clear.match(record.text)):
            state.standing.pop((name, _target(over)), None)
        elif rule.match is not None and (found := rule.match.match(record.text)):
            standing = _add(state, (name, _target(found)), rule.given, record.seconds, now)
            standing.detail = clean(found.groupdict().get("detail") or "", 32)


def _take_sxid(
    state: _State,
    rules: Mapping[str, _Rule],
    table: Mapping[str, SxidRule],
    seen: tuple[Sxid, Record],
    now: float,
) -> None:
    sxid, record = seen
    if over := ended_by(sxid, table):
        state.standing.pop((over, sxid.bdf), None)
    kind = kind_of(sxid, table)
    if kind in rules:
        standing = _add(state, (kind, sxid.bdf), rules[kind].given, record.seconds, now)
        standing.detail = clean(named(sxid, table), 64)


def _target(match: re.Match[str]) -> str:
    return match.groupdict().get("target") or "node"


def _add(state: _State, key: Key, rule: KernelRule, stamp: float, now: float) -> _Standing:
    if key not in state.standing and len(state.standing) >= KEPT:
        key = (key[0], "node")
    room = max(1, min(rule.at_least or 1, 10_000))
    standing = state.standing.setdefault(key, _Standing(deque(maxlen=room)))
    standing.stamps.append(stamp)
    standing.read_at = now
    return standing


def _judge(state: _State, rules: Mapping[str, _Rule], now: float) -> Iterator[Finding]:
    for key, standing in list(state.standing.items()):
        rule = rules.get(key[0])
        if rule is None or now - standing.read_at > (rule.given.hold or HOLD):
            del state.standing[key]
            continue
        limit, within = rule.given.at_least or 1, rule.given.within or WITHIN
        if len(standing.stamps) >= limit and standing.stamps[-1] - standing.stamps[0] <= within:
            yield _finding(rule, key, limit, within, standing.detail)


def _finding(rule: _Rule, key: Key, limit: int, within: float, detail: str) -> Finding:
    given = rule.given
    judge = {"judge": given.judge} if given.judge else {}
    means = f"{given.means or key[0]} ({detail})" if detail else given.means or key[0]
    found = rule.code(key[1], means=means, lines=limit, limit=limit, within=within, kind=key[0], **judge)
    return msgspec.structs.replace(found, status=given.status or found.status, blame=given.blame or found.blame)


@per_policy
def _rules(directory: str) -> dict[str, _Rule]:
    """The tables in force, with their expressions ready."""
    policy = usable(directory)
    lines = {name: given for name, given in policy.kernel.items() if given.match}
    return {
        name: _Rule(
            given,
            expression(given.match) if given.match else None,
            expression(given.clear) if given.clear else None,
            _OURS.get(given.code or "", TROUBLE),
        )
        for name, given in {**lines, **kernel_rules(policy.sxid)}.items()
        if not given.off
    }
