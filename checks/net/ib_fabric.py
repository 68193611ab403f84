"""Every InfiniBand port that is up has an address, knows its subnet manager and is in the partitions that it needs."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from checks.declare import Skip, check, code, ok
from checks.host import Host
from checks.net.adapters import adapters
from checks.net.ports import INFINIBAND, Port, jobs_ports, optional
from checks.wire import Finding

NO_LID = code(
    "ib_no_lid",
    "warn",
    "fabric",
    "port is ACTIVE and has no address (LID {lid})",
    explain="Nobody can reach it. Confirm: `ibstat`, `ibaddr`. Do: look at the subnet manager; many nodes at once "
    "point there.",
)
NO_SM_LID = code(
    "ib_no_sm_lid",
    "warn",
    "fabric",
    "port is ACTIVE and knows no subnet manager (SM lid {sm_lid})",
    explain="What is set up stays, nothing new can be. Confirm: `ibstat`, `sminfo`. Do: look at the subnet manager.",
)
MOVED = code(
    "ib_lid_changed",
    "warn",
    "fabric",
    "address changed from LID {before:#x} to {lid:#x} {seconds:.0f} s ago, while the port was up",
    explain="Connections that were open are lost; it ends by itself. Confirm: the subnet manager's log. Do: look why "
    "it gave new addresses (another one took over, duplicate GUIDs).",
)
NO_PKEY = code(
    "ib_pkey_missing",
    "warn",
    "fabric",
    "partition key {pkey} is not in the port's table: {table}",
    explain="Members of that partition cannot be reached. Confirm: `cat /sys/class/infiniband/<hca>/ports/1/pkeys/*`. "
    "Do: look at the subnet manager's partitions.conf for this port's GUID.",
)
STICKY = 600.0
PKEYS = 128
_FULL = 0x8000
_NONE = (0, 0xFFFF, 0xFFFFFFFF)


class _Memory(msgspec.Struct):
    """The address of each port in this boot, and from which it changed when, by our clock."""

    boot: str = ""
    lids: dict[str, int] = {}
    moved: dict[str, tuple[int, float]] = {}


@check(lane="rdma", interval=120, timeout=3.0, codes=(NO_LID, NO_SM_LID, MOVED, NO_PKEY))
def ib_fabric(host: Host, *, pkeys: tuple[str, ...] = (), ignore: tuple[str, ...] = ()) -> Iterator[Finding]:
    """What the subnet manager gave each InfiniBand port that is up: LID, SM lid, and the partition keys ``pkeys``.

    A key is written as sysfs does (``0x8001``); one without the highest bit is content with limited membership. iWARP
    adapters that call their link InfiniBand have no subnet manager and are left out, as is ``ignore`` (adapters or
    ports). Confirm by hand: ``ibstat``.
    """
    wanted = tuple(_key(text) for text in pkeys)
    iwarp = {a.name for a in adapters(host) if a.iwarp}
    seen = [p for p in jobs_ports(host, ignore) if p.layer == INFINIBAND and p.adapter not in iwarp]
    if not seen:
        raise Skip("no InfiniBand port is up")
    known = host.kept("lids", lambda: _recalled(host))
    if (boot := host.boot_id()) != known.boot:
        known.boot, known.lids, known.moved = boot, {}, {}
    for port in seen:
        yield from _addresses(host, port, known)
        yield from _partitions(host, port, wanted)
    host.keep("lids", msgspec.to_builtins(known))
    yield ok("node", f"{len(seen)} ports have addresses", ports=len(seen))


def _key(text: str) -> int:
    key = int(text, 16)
    if not 0 < key & ~_FULL <= 0x7FFF:
        raise ValueError(f"no partition key: {text[:20]!r}")
    return key


def _recalled(host: Host) -> _Memory:
    try:
        found = msgspec.convert(host.memory.get("lids"), _Memory)
    except msgspec.ValidationError:
        return _Memory()
    return _Memory() if any(at > host.clock() for _, at in found.moved.values()) else found


def _addresses(host: Host, port: Port, known: _Memory) -> Iterator[Finding]:
    lid, manager = _lid(host, port, "lid"), _lid(host, port, "sm_lid")
    if lid in _NONE:
        yield NO_LID(port.name, lid=lid)
    elif lid is not None:
        before = known.lids.get(port.name, lid)
        if before != lid:
            known.moved[port.name] = before, host.clock()
        known.lids[port.name] = lid
        if port.name in known.moved:
            was, at = known.moved[port.name]
            if host.clock() - at < STICKY:
                yield MOVED(port.name, before=was, lid=lid, seconds=host.clock() - at)
    if manager in _NONE:
        yield NO_SM_LID(port.name, sm_lid=manager)


def _lid(host: Host, port: Port, name: str) -> int | None:
    """An address as sysfs writes it, None where it says nothing that we know."""
    try:
        return int(optional(host, f"{port.folder}/{name}") or "", 16)
    except ValueError:
        return None


def _partitions(host: Host, port: Port, wanted: tuple[int, ...]) -> Iterator[Finding]:
    """Read until all are found: the subnet manager fills the table from its beginning."""
    left, table = list(wanted), []
    for index in range(PKEYS if wanted else 0):
        text = optional(host, f"{port.folder}/pkeys/{index}")
        if text is None:
            break
        try:
            key = int(text, 16)
        except ValueError:
            continue
        if key & ~_FULL:
            table.append(f"{key:#06x}")
        left = [w for w in left if key != w and key != w | _FULL]
        if not left:
            return
    if table:
        yield from (NO_PKEY(port.name, pkey=f"{w:#06x}", table=", ".join(table[:16])) for w in left)
    elif left:
        raise FileNotFoundError(f"port {port.name} has no readable table of partition keys")
