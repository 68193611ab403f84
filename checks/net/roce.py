"""Every RoCE port that is up has the addresses and the packet size that the profile names."""

from __future__ import annotations

import re
from collections.abc import Iterator

from checks.declare import Skip, check, code, ok
from checks.host import Host
from checks.net.adapters import adapters
from checks.net.ports import ETHERNET, Port, jobs_ports, number, optional
from checks.wire import Finding

SMALL = code(
    "roce_mtu_small",
    "warn",
    "config",
    "RDMA packets of {mtu} bytes at most, expected {expected} (MTU of {interface} is {interface_mtu})",
    explain="RoCE takes the largest of 256 to 4096 bytes that fits the interface's MTU with its headers. Confirm: "
    "`ibv_devinfo -d <hca> | grep active_mtu`, `ip link show <interface>`. Do: set the interface's MTU, on the switch, "
    "too.",
)
NETDEV = code(
    "roce_interface_mtu",
    "warn",
    "config",
    "MTU of {interface} is {mtu}, expected {expected}",
    explain="Confirm: `ip link show <interface>`. Do: set it; both ends of a path need the same.",
)
NO_GID = code(
    "roce_gid_missing",
    "warn",
    "config",
    "port has no RoCE v2 address of kind {family}",
    explain="Its interface has no such IP address, or RoCE is switched off. Confirm: `show_gids`, `ip addr show "
    "<interface>`. Do: look at the interface's address.",
)
GID_INDEX = code(
    "roce_gid_index",
    "warn",
    "config",
    "address number {index} is {found}, expected RoCE v2",
    explain="Programs that are told this number (NCCL_IB_GID_INDEX) fail or take RoCE v1. Confirm: `show_gids`. "
    "Do: look at the order in which addresses came to the interface, or name the right number.",
)
UNSEEN = code(
    "roce_mtu_unseen",
    "unknown",
    "config",
    "MTU cannot be read: {path} is not there",
    explain="The port shows no network interface. Confirm: `rdma link`, `ibdev2netdev`. Do: look at its driver.",
)
GIDS = 64
FAMILIES = ("ipv4", "ipv6", "any")
_MTUS = (4096, 2048, 1024, 512, 256)
# GRH 40, UDP 8, BTH 12, XRC 4, atomic 28 and ICRC 4 bytes, as the kernel counts them.
_HEADERS = 96
_ZERO = "0000:0000:0000:0000:0000:0000:0000:0000"
_V4, _LOCAL = "0000:0000:0000:0000:0000:ffff:", "fe80:"
_V2 = "RoCE v2"


@check(lane="rdma", interval=600, timeout=3.0, codes=(SMALL, NETDEV, NO_GID, GID_INDEX, UNSEEN))
def roce(
    host: Host,
    *,
    mtu: int = 0,
    interface_mtu: int = 0,
    gid: str = "",
    gid_index: int = -1,
    ignore: tuple[str, ...] = (),
) -> Iterator[Finding]:
    """Settings of each RoCE port that is up; one that is not named is not asked for.

    ``mtu``: RDMA's (256 to 4096), at least. ``interface_mtu``: exactly. ``gid``: a RoCE v2 address of kind ipv4, ipv6
    (not link-local) or any. ``gid_index``: the number that programs are told. iWARP adapters and
    ``ignore`` are left out. Confirm by hand: ``show_gids``, ``ibv_devinfo``.
    """
    if gid and gid not in FAMILIES:
        raise ValueError(f"gid {gid[:20]!r}: expected one of {', '.join(FAMILIES)}")
    if not (mtu or interface_mtu or gid or gid_index >= 0):
        raise Skip("no setting of RoCE is named")
    seen = roce_ports(host, ignore)
    for port in seen:
        yield from _sizes(host, port, interface_of(host, port), mtu, interface_mtu)
        yield from _gids(host, port, gid, gid_index)
    yield ok("node", f"{len(seen)} RoCE ports", ports=len(seen))


def roce_ports(host: Host, ignore: tuple[str, ...]) -> list[Port]:
    """The ports of jobs that speak RoCE and are up; Skip where there is none."""
    iwarp = {a.name for a in adapters(host) if a.iwarp}
    seen = [p for p in jobs_ports(host, ignore) if p.layer == ETHERNET and p.adapter not in iwarp]
    if not seen:
        raise Skip("no RoCE port is up")
    return seen


def interface_of(host: Host, port: Port) -> str:
    """The port's network interface; that of a bond where the port stands on one."""
    told = optional(host, f"{port.folder}/gid_attrs/ndevs/0")
    if not told:
        found = host.glob(f"/sys/class/infiniband/{port.adapter}/device/net/*")
        told = found[0].name if len(found) == 1 else ""
    return told if re.fullmatch(r"[\w.:@-]{1,15}", told) else ""


def _sizes(host: Host, port: Port, interface: str, mtu: int, interface_mtu: int) -> Iterator[Finding]:
    size = number(host, f"/sys/class/net/{interface}/mtu") if interface else None
    if size is None:
        if mtu or interface_mtu:
            yield UNSEEN(port.name, path=f"/sys/class/net/{interface or '<interface>'}/mtu")
        return
    packet = next((m for m in _MTUS if m <= size - _HEADERS), 0)
    if packet < mtu:
        yield SMALL(port.name, mtu=packet, expected=mtu, interface=interface, interface_mtu=size)
    if interface_mtu and size != interface_mtu:
        yield NETDEV(port.name, interface=interface, mtu=size, expected=interface_mtu)


def _gids(host: Host, port: Port, family: str, index: int) -> Iterator[Finding]:
    if index >= 0:
        address, kind = _gid(host, port, index)
        if kind != _V2:
            yield GID_INDEX(port.name, index=index, found=kind or ("empty" if address in ("", _ZERO) else "untyped"))
    if not family:
        return
    empty = 0
    for at in range(GIDS):
        address, kind = _gid(host, port, at)
        empty = 0 if kind else empty + 1
        if kind == _V2 and _is(family, address):
            return
        if empty > 8:
            break
    yield NO_GID(port.name, family=family)


def _gid(host: Host, port: Port, index: int) -> tuple[str, str]:
    """One address and its kind, both empty where there is none."""
    address = optional(host, f"{port.folder}/gids/{index}") or ""
    if address in ("", _ZERO):
        return address, ""
    return address.lower(), optional(host, f"{port.folder}/gid_attrs/types/{index}") or ""


def _is(family: str, address: str) -> bool:
    if family == "any":
        return True
    return address.startswith(_V4) if family == "ipv4" else not address.startswith((_V4, _LOCAL))
