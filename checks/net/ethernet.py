"""The Ethernet interfaces that the profile names are up at their speed, and every bond has all its members."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from checks.declare import Skip, check, code, ok
from checks.host import Host
from checks.wire import Finding

NET, BONDS = "/sys/class/net", "/proc/net/bonding"
ABSENT = code(
    "ethernet_absent",
    "warn",
    "node",
    "interface is not there",
    explain="The adapter was not found, or it has another name since the last boot. Confirm: `ip -br link`, `lspci`.",
)
DOWN = code(
    "ethernet_down",
    "warn",
    "fabric",
    "interface is {state}",
    explain="Confirm: `ip -br link`, `ethtool <target>`. Do: look at cable and switch port.",
)
SLOW = code(
    "ethernet_slow",
    "warn",
    "node",
    "runs at {speed} Mb/s, expected {expected}",
    explain="Confirm: `ethtool <target>`. Do: look at cable and transceiver; see what the switch port allows.",
)
BOND = code(
    "bond_degraded",
    "warn",
    "fabric",
    "{up} of {members} members are up, down: {down}",
    explain="The rest carries all; the next one down cuts the node off. Confirm: `cat /proc/net/bonding/<target>`.",
)
_NAME = re.compile(r"[\w.:@-]{1,15}")
_MEMBER = re.compile(r"^(?:Slave|Port) Interface: (\S{1,15})\n(?:.*\n)??MII Status: (\w{1,16})$", re.MULTILINE)


@check(lane="system", interval=60, timeout=2.0, codes=(ABSENT, DOWN, SLOW, BOND))
def ethernet(host: Host, *, interfaces: tuple[str, ...] = (), min_mbps: int = 0) -> Iterator[Finding]:
    """State and speed of ``interfaces``, and the members of every bond there is.

    An interface that nobody named is not judged: many are unused. Confirm by hand: ``ip -br link``, ``ethtool``.
    """
    bonds = host.glob(f"{BONDS}/*")
    if not interfaces and not bonds:
        raise Skip("no interface is named and there is no bond")
    for name in interfaces:
        if not _NAME.fullmatch(name):
            raise ValueError(f"no interface name: {name[:40]!r}")
        yield _judge(host, name, min_mbps)
    for path in bonds:
        yield _bond(host, path)


def _judge(host: Host, name: str, min_mbps: int) -> Finding:
    base = f"{NET}/{name}"
    if not host.path(base).exists():
        return ABSENT(name)
    state = host.read(f"{base}/operstate").strip()
    if state not in ("up", "unknown"):
        return DOWN(name, state=state)
    speed = _speed(host, base)
    if 0 < speed < min_mbps:
        return SLOW(name, speed=speed, expected=min_mbps)
    return ok(name, f"up, {speed} Mb/s" if speed > 0 else "up", speed=speed)


def _speed(host: Host, base: str) -> int:
    """Mb/s, 0 where the driver does not say: a virtual device, or one that is just training."""
    try:
        return max(0, int(host.read(f"{base}/speed")))
    except (OSError, ValueError):
        return 0


def _bond(host: Host, path: Path) -> Finding:
    members = _MEMBER.findall(host.read(path))
    down = [name for name, state in members if state != "up"]
    if down:
        return BOND(path.name, up=len(members) - len(down), members=len(members), down=", ".join(down[:8]))
    return ok(path.name, f"{len(members)} members up", members=len(members))
