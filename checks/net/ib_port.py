"""Every RDMA port that the profile expects is up and runs at its full rate."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from checks.declare import Skip, check, code
from checks.host import Host
from checks.net.ports import INFINIBAND, Port, dead_adapters, has_adapter, ports, without_verbs
from checks.wire import Finding

DOWN = code(
    "ib_port_down",
    "fail",
    "node",
    "port state {state} ({physical}), expected ACTIVE",
    explain="Confirm: `ibstat`, `ibv_devinfo`; look at the cable, the transceiver and the switch port. "
    "Do: reseat or replace the cable; compare with the port at the other end.",
)
NO_SM = code(
    "ib_port_init",
    "fail",
    "fabric",
    "port state {state} with the link up, expected ACTIVE",
    explain="The cable is well and no subnet manager has configured the port. Confirm: `sminfo`, `ibstat`. "
    "Do: look at the subnet manager; many nodes at once point there.",
)
SLOW = code(
    "ib_port_slow",
    "warn",
    "node",
    "rate {rate:g} of {min_gbps} Gb/s",
    explain="The link trained at a lower speed or width. Confirm: `ibstat`, `mlxlink -d <hca>`. "
    "Do: reseat or replace the cable.",
)
FEW = code(
    "ib_port_count_low",
    "fail",
    "node",
    "{up} of {count} ports up; down: {down}",
    explain="Ports are missing and it cannot be told which of the others should be up. Confirm: `ibstat -l`, "
    "`lspci -d 15b3:`. Do: look for an adapter that did not start, then at cables.",
)
ABSENT = code("ib_port_absent", "fail", "node", "port is expected and does not exist", explain=FEW.explain)
RENAMED = code(
    "ib_port_renamed",
    "warn",
    "config",
    "none of the expected ports ({expected}) exists and as many others are up ({seen})",
    explain="Adapters get other names with another kernel or udev rule. Confirm: `ibstat -l`. "
    "Do: correct [checks.ib_port] expected, or promise a count instead.",
)
DEAD = code(
    "ib_adapter_dead",
    "fail",
    "node",
    "adapter is on the PCI bus and has no driver and no RDMA device",
    explain="Its driver failed to start it. Confirm: `lspci -k -s <pci id>`, `dmesg | grep <pci id>`. "
    "Do: let jobs end, power-cycle; replace the adapter if it stays.",
)
UNBOUND = code("ib_adapter_unbound", "warn", "config", "adapter is on the PCI bus and no driver uses it")
NO_SIGN = code(
    "ib_port_no_sign",
    "unknown",
    "self",
    "0 of {count} ports and no adapter on the PCI bus either",
    explain="None was found in any way: a blind check or a wrong profile, more often than so many dead adapters. "
    "Confirm: `lspci -d 15b3:`, `ibstat -l`.",
)
NO_VERBS = code(
    "ib_no_verbs",
    "fail",
    "node",
    "adapter has no uverbs device, others have",
    explain="No program can open it. Confirm: `ls /sys/class/infiniband_verbs`. Do: reload ib_uverbs, else reboot.",
)
EXTRA = code("ib_port_unused", "warn", "config", "port is {state} and not expected; name it in the profile's ignore")
UNREADABLE = code("ib_port_unreadable", "unknown", "node", "port cannot be read: {error}")
FLAPPING = code(
    "ib_port_flapping",
    "warn",
    "fabric",
    "link went down {growth} times in {seconds:.0f} s, limit {limit}",
    explain="Collectives stall whenever it does. Confirm: the counter link_downed. Do: cable, transceiver.",
)
CAME_BACK = code("ib_port_came_back", "warn", "fabric", "port was down until {seconds:.0f} s ago")

GROWTH_LIMIT = 10
"""link_downed may be other than 0 since boot; growth beyond this is the sign."""
WINDOW = 3600.0
STICKY = 600.0


@dataclass(slots=True)
class _Memory:
    """What this process saw of each port: whether it was ever up, when last down, and its counter over time."""

    boot: str = ""
    up: set[str] = field(default_factory=set)
    down_at: dict[str, float] = field(default_factory=dict)
    downed: dict[str, list[tuple[float, int]]] = field(default_factory=dict)


@check(
    lane="rdma",
    interval=30,
    timeout=3.0,
    codes=(
        DOWN,
        NO_SM,
        SLOW,
        FEW,
        ABSENT,
        RENAMED,
        DEAD,
        UNBOUND,
        NO_SIGN,
        NO_VERBS,
        EXTRA,
        UNREADABLE,
        FLAPPING,
        CAME_BACK,
    ),
)
def ib_port(
    host: Host,
    *,
    count: int = 0,
    min_gbps: int = 0,
    expected: tuple[str, ...] = (),
    ignore: tuple[str, ...] = (),
) -> Iterator[Finding]:
    """State and rate of each port: ``expected`` by name (``mlx5_0/1``), or ``count`` of them, at ``min_gbps`` Gb/s.

    A port that was never up needs one of these before it is a fault; one that was up and went down always is.
    Left out are ``ignore`` (adapters or ports), virtual functions, what manages an NVSwitch, and the adapter of the
    default route, unless it is InfiniBand (then the jobs use it too) or expected by name.
    Confirm by hand: ``ibstat``.
    """
    expected = tuple(_spelled(name) for name in expected)
    seen = [p for p in ports(host) if _counts(p, expected, ignore)]
    dead = [bdf for bdf in dead_adapters(host) if bdf not in ignore]
    if not seen and not dead and not count and not expected:
        raise Skip("no RDMA adapter in this node")
    memory = host.kept("ib_port", _Memory)
    _new_boot(memory, host.boot_id())
    readable = [p for p in seen if not p.error]
    for port in seen:
        if port.error and not port.unsupported:
            yield UNREADABLE(port.name, error=port.error)
    if count and not seen and not has_adapter(host):
        yield NO_SIGN("node", count=count)
        return
    # A port that could not be read is our trouble: it counts as there.
    blind = {p.name.removesuffix("?") for p in seen if p.error and not p.unsupported}
    count = max(0, count - len(blind))
    expected = tuple(name for name in expected if not name.startswith(tuple(blind)))
    yield from _states(memory, readable, count, expected)
    yield from _dead(readable, dead, count)
    yield from (NO_VERBS(name) for name in without_verbs(host) if name not in ignore)
    yield from _quality(memory, readable, min_gbps, host.clock())


def _spelled(name: str) -> str:
    """``mlx5_0`` and ``mlx5_0:1``, as other tools write it, mean ``mlx5_0/1``."""
    name = name.replace(":", "/")
    return name if "/" in name else f"{name}/1"


def _counts(port: Port, expected: Sequence[str], ignore: Sequence[str]) -> bool:
    """Whether a port is the jobs'."""
    if port.name in ignore or port.name.partition("/")[0] in ignore:
        return False
    return not port.management or port.layer == INFINIBAND or port.name in expected


def _new_boot(memory: _Memory, boot: str) -> None:
    """Device names may change with a boot; what was seen before it says nothing."""
    if boot != memory.boot:
        memory.boot = boot
        for kept in (memory.up, memory.down_at, memory.downed):
            kept.clear()


def _states(memory: _Memory, seen: Sequence[Port], count: int, expected: Sequence[str]) -> Iterator[Finding]:
    names = {p.name for p in seen}
    absent = [name for name in expected if name not in names]
    strangers = [p.name for p in seen if p.up]
    if absent and len(absent) == len(expected) <= len(strangers):
        yield RENAMED("node", expected=", ".join(absent), seen=", ".join(strangers))
    else:
        yield from map(ABSENT, absent)
    down = [p for p in seen if not p.up]
    up = len(seen) - len(down)
    proven = up < count and len(seen) <= count
    certain = {p.name for p in down if proven or p.name in memory.up or p.name in expected}
    for port in down:
        if port.name in certain:
            yield _down(port)
        elif (count or expected) and up >= count and port.physical != "Disabled":
            yield EXTRA(port.name, state=port.state)
    missing = count - up - len(certain)
    if missing > 0:
        yield FEW("node", up=up, count=count, down=", ".join(p.name for p in down) or "none is listed")


def _down(port: Port) -> Finding:
    if port.physical == "LinkUp" and port.state in ("INIT", "ARMED"):
        return NO_SM(port.name, state=port.state)
    return DOWN(port.name, state=port.state, physical=port.physical)


def _dead(seen: Sequence[Port], dead: Sequence[str], count: int) -> Iterator[Finding]:
    """An adapter without driver is a fault where ports are missing, else it may well be unused."""
    lacking = len([p for p in seen if p.up]) < count
    yield from (DEAD(bdf) if lacking else UNBOUND(bdf) for bdf in dead)


def _quality(memory: _Memory, seen: Sequence[Port], min_gbps: int, now: float) -> Iterator[Finding]:
    for port in seen:
        if port.up:
            if 0 < port.rate < min_gbps and port.layer != "other":
                yield SLOW(port.name, rate=port.rate, min_gbps=min_gbps)
            ago = now - memory.down_at.get(port.name, -STICKY)
            if ago < STICKY:
                yield CAME_BACK(port.name, seconds=ago)
            memory.up.add(port.name)
        elif port.name in memory.up:
            memory.down_at[port.name] = now
        if port.link_downed is not None:
            yield from _flapping(memory.downed.setdefault(port.name, []), port, now)


def _flapping(history: list[tuple[float, int]], port: Port, now: float) -> Iterator[Finding]:
    """Growth of link_downed against the oldest value inside the window; a counter that fell was reset."""
    value = port.link_downed or 0
    if history and value < history[-1][1]:
        history.clear()
    if not history or history[-1][1] != value:
        history.append((now, value))
    while len(history) > 1 and now - history[1][0] > WINDOW:
        del history[0]
    del history[1:-100]
    base = history[0][1] if now - history[0][0] <= WINDOW or len(history) > 1 else value
    if value - base > GROWTH_LIMIT:
        yield FLAPPING(port.name, growth=value - base, seconds=WINDOW, limit=GROWTH_LIMIT)
