"""Every RDMA port that the profile expects is up and runs at its full rate."""

from __future__ import annotations

from collections.abc import Container, Iterator, Sequence
from dataclasses import dataclass

import msgspec

from checks.declare import Skip, check
from checks.host import Host
from checks.net.adapters import (
    adapters,
    has_adapter,
    off_the_bus,
    without_device,
    without_verbs,
)
from checks.net.port_codes import (
    ABSENT,
    CODES,
    DEAD,
    DOWN,
    EXTRA,
    FEW,
    LAYER,
    LOST,
    MUTE,
    NO_FILE,
    NO_SIGN,
    NO_SM,
    NO_VERBS,
    RENAMED,
    SLOW,
    TRAINING,
    UNBOUND,
    UNREADABLE,
)
from checks.net.ports import ETHERNET, INFINIBAND, OTHER, Port, ports
from checks.net.steady import keep, memory, unsteady
from checks.pci import driver
from checks.wire import Finding

_IN_TRAINING = ("LinkErrorRecovery", "PortConfigurationTraining")


@dataclass(slots=True)
class _Wanted:
    """What is promised: so many ports, or these; less what cannot be read and what is told otherwise.

    ``unlisted``: adapters on the PCI bus that show no port, any of which may be one of those. ``layer``: of which kind
    they are, empty for both.
    """

    count: int
    expected: tuple[str, ...]
    unlisted: int
    layer: str


@check(lane="rdma", interval=30, timeout=3.0, codes=CODES)
def ib_port(
    host: Host,
    *,
    count: int = 0,
    min_gbps: int = 0,
    expected: tuple[str, ...] = (),
    ignore: tuple[str, ...] = (),
    layer: str = "",
) -> Iterator[Finding]:
    """State and rate of each port: ``expected`` by name (``mlx5_0/1``), or ``count`` of them, at ``min_gbps`` Gb/s.

    A port that was never up needs one of these before it is a fault; one that was up in this boot and went down always
    is. With ``layer`` (InfiniBand or Ethernet) ports of the other kind do not count. Left out are ``ignore`` (adapters
    or ports), virtual functions, software adapters, what manages an NVSwitch, and the adapter of the default route,
    unless it is InfiniBand (then the jobs use it too) or expected by name. EFA always says that it is up, and its rate
    means nothing. Confirm by hand: ``ibstat``.
    """
    if layer not in ("", INFINIBAND, ETHERNET):
        raise ValueError(f"layer {layer!r}: expected {INFINIBAND} or {ETHERNET}")
    expected = tuple(_spelled(name) for name in expected)
    there = [p for p in ports(host) if _counts(p, expected, ignore)]
    seen = [p for p in there if not layer or p.error or p.layer in (layer, "") or p.name in expected]
    dead, mute = ([bdf for bdf in found if bdf not in ignore] for found in without_device(host))
    if not there and not dead and not count and not expected:
        raise Skip("no RDMA adapter in this node")
    yield from (UNREADABLE(p.name, error=p.error) for p in seen if p.error and not p.unsupported)
    if count and not there and not has_adapter(host):
        yield NO_SIGN("node", count=count)
        return
    if not there and not host.path("/sys/class").is_dir():
        raise Skip("no /sys/class to look in")  # a part of a tree: what was not copied is not missing
    # A port that could not be read is our trouble: it counts as there.
    blind = {p.name.removesuffix("?") for p in seen if p.error and not p.unsupported}
    named = tuple(n for n in expected if not n.startswith(tuple(blind)))
    wanted = _Wanted(max(0, count - len(blind)), named, len(dead) + len(mute), layer)
    known, lost = memory(host), {a.name: a.bdf for a in adapters(host) if off_the_bus(host, a)}
    readable = [p for p in seen if not p.error]
    yield from _lost(lost, readable, wanted, known.up)
    readable = [p for p in readable if p.adapter not in lost]
    yield from _other_layer([p for p in there if p not in seen], readable, wanted)
    yield from _states(readable, wanted, known.up)
    yield from _without_port(host, dead, mute, lacking=len([p for p in readable if p.up]) < count)
    yield from _unopenable(host, {p.adapter for p in seen})
    yield from _quality(readable, min_gbps)
    yield from unsteady(host, known, readable)
    keep(host, known)


def _spelled(name: str) -> str:
    """``mlx5_0`` and ``mlx5_0:1``, as other tools write it, mean ``mlx5_0/1``."""
    name = name.replace(":", "/")
    return name if "/" in name else f"{name}/1"


def _counts(port: Port, expected: Sequence[str], ignore: Sequence[str]) -> bool:
    """Whether a port is the jobs'."""
    if port.name in ignore or port.adapter in ignore:
        return False
    return not port.management or port.layer == INFINIBAND or port.name in expected


def _lost(lost: dict[str, str], seen: Sequence[Port], wanted: _Wanted, was_up: set[str]) -> Iterator[Finding]:
    """Adapters that fell off the bus: a fault where their ports are wanted or were up, else a spare one's."""
    left = [p for p in seen if p.adapter not in lost and p.up]
    lacking = len(left) < wanted.count
    for name, pci in lost.items():
        own = [p.name for p in seen if p.adapter == name]
        if not own:
            continue
        certain = lacking or any(p in was_up or p in wanted.expected for p in own)
        found = LOST(name, pci=pci)
        yield found if certain else msgspec.structs.replace(found, status="warn")
    gone = [p.name for p in seen if p.adapter in lost]
    wanted.count = max(0, wanted.count - len(gone))
    wanted.expected = tuple(n for n in wanted.expected if n not in gone)


def _other_layer(others: Sequence[Port], seen: Sequence[Port], wanted: _Wanted) -> Iterator[Finding]:
    """Ports of the other link layer, where they are expected by name or make up for what is missing."""
    if not wanted.layer:
        return
    strangers = [p for p in seen if p.name in wanted.expected and p.layer not in (wanted.layer, "")]
    up = [p for p in others if p.up and p.layer in (INFINIBAND, ETHERNET)]
    missing = wanted.count - len(seen)
    if 0 < missing <= len(up):
        wanted.count -= missing
        strangers += up
    yield from (LAYER(p.name, layer=p.layer, expected=wanted.layer) for p in strangers)


def _without_port(host: Host, dead: Sequence[str], mute: Sequence[str], *, lacking: bool) -> Iterator[Finding]:
    """Where ports are missing, an adapter without driver or RDMA device is a fault, else it may well be unused."""
    yield from map(DEAD if lacking else UNBOUND, dead)
    yield from (MUTE(bdf, driver=driver(host, bdf)) for bdf in (mute if lacking else ()))


def _unopenable(host: Host, own: Container[str]) -> Iterator[Finding]:
    """Adapters of the jobs that no program can open."""
    missing, unmade = without_verbs(host)
    yield from (NO_VERBS(name) for name in missing if name in own)
    yield from (NO_FILE(name) for name in unmade if name in own)


def _states(seen: Sequence[Port], wanted: _Wanted, was_up: set[str]) -> Iterator[Finding]:
    count, expected = wanted.count, wanted.expected
    names = {p.name for p in seen}
    absent = [name for name in expected if name not in names]
    strangers = [p.name for p in seen if p.up]
    if absent and len(absent) == len(expected) <= len(strangers):
        yield RENAMED("node", expected=", ".join(absent), seen=", ".join(strangers))
    else:
        yield from map(ABSENT, absent)
    down = [p for p in seen if not p.up]
    up = len(seen) - len(down)
    proven = up < count and len(seen) + wanted.unlisted <= count
    certain = {p.name for p in down if proven or p.name in was_up or p.name in expected}
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


def _quality(seen: Sequence[Port], min_gbps: int) -> Iterator[Finding]:
    for port in seen:
        if port.up and 0 < port.rate < min_gbps and port.layer != OTHER:
            yield SLOW(port.name, rate=port.rate, min_gbps=min_gbps)
        if port.up and port.physical in _IN_TRAINING:
            yield TRAINING(port.name, physical=port.physical)
