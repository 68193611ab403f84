"""The interfaces over InfiniBand that the profile names are up."""

from __future__ import annotations

from collections.abc import Iterator

from checks.declare import Skip, check, code, ok
from checks.host import Host
from checks.net.ethernet import interface_name, operstate
from checks.net.ports import number, optional
from checks.wire import Finding

ABSENT = code(
    "ipoib_absent",
    "warn",
    "config",
    "interface is not there",
    explain="The module ib_ipoib is not loaded, or it has another name since the last boot. Confirm: `ip -br link`, "
    "`lsmod | grep ipoib`. Do: load it, or correct the name.",
)
DOWN = code(
    "ipoib_down",
    "warn",
    "node",
    "interface is {state}",
    explain="Confirm: `ip -br link`, `ibstat`; the port below may be up all the same. Do: `ip link set <target> up`, "
    "look at the network's configuration.",
)
OTHER = code(
    "ipoib_setting",
    "warn",
    "config",
    "{setting} is {value}, expected {expected}",
    explain="Confirm: `ip link show <target>`, `cat /sys/class/net/<target>/mode`. Do: set it as on all other nodes.",
)
_INFINIBAND = 32


@check(lane="rdma", interval=60, timeout=2.0, codes=(ABSENT, DOWN, OTHER))
def ipoib(host: Host, *, interfaces: tuple[str, ...] = (), mtu: int = 0, mode: str = "") -> Iterator[Finding]:
    """State of ``interfaces`` (``ib0``), their ``mtu`` and ``mode`` (datagram or connected) where these are named.

    The RDMA port below is judged by ib_port. Confirm by hand: ``ip -br link``.
    """
    if not interfaces:
        raise Skip("no interface over InfiniBand is named")
    for name in map(interface_name, interfaces):
        base = f"/sys/class/net/{name}"
        if not host.path(base).exists():
            yield ABSENT(name)
            continue
        if (kind := number(host, f"{base}/type")) not in (_INFINIBAND, None):
            yield OTHER(name, setting="kind of interface", value=kind, expected=_INFINIBAND)
        state = operstate(host, name)
        if state not in ("up", "unknown"):
            yield DOWN(name, state=state)
            continue
        size, says = number(host, f"{base}/mtu"), optional(host, f"{base}/mode")
        if mtu and size is not None and size != mtu:
            yield OTHER(name, setting="MTU", value=size, expected=mtu)
        if mode and says is not None and says != mode:
            yield OTHER(name, setting="mode", value=says, expected=mode)
        yield ok(name, "up", mtu=size)
