"""The Ethernet interfaces that the profile names are up, steady and at their speed, and every bond has its members."""

from __future__ import annotations

import re
from collections.abc import Iterator

from checks.declare import Skip, check, code, ok
from checks.growth import Counters, counters
from checks.host import Host
from checks.judge.policy import CounterRule, per_policy, usable
from checks.net.bond import Bond, apart, read_bond, without_partner
from checks.net.limits import HOUR, beyond
from checks.net.ports import number, optional
from checks.wire import Finding

NET, BONDS = "/sys/class/net", "/proc/net/bonding"
ABSENT = code(
    "ethernet_absent",
    "warn",
    "node",
    "interface is not there",
    explain="The adapter was not found, or it has another name since the last boot. Confirm: `ip -br link`, `lspci`."
    " Do: reseat the adapter, or correct the name in the profile.",
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
HALF = code(
    "ethernet_half_duplex",
    "warn",
    "config",
    "runs at half duplex",
    explain="One end negotiates and the other does not. Confirm: `ethtool <target>`. Do: set both to negotiate.",
)
SIZE = code(
    "ethernet_mtu",
    "warn",
    "config",
    "MTU is {mtu}, expected {expected}",
    explain="Large packets are lost or cut. Confirm: `ip link show <target>`. Do: set it as on all other nodes.",
)
FLAPPING = code(
    "ethernet_flapping",
    "warn",
    "fabric",
    "lost its carrier {growth} times in {seconds:.0f} s, limit {limit}",
    explain="Confirm: `cat /sys/class/net/<target>/carrier_changes` (two for each loss). Do: look at cable and "
    "switch port. It ends by itself when the link has been steady for as long.",
)
ERRORS = code(
    "ethernet_errors",
    "warn",
    "fabric",
    "{means} ({growth} within {seconds:.0f} s, limit {limit} in {within:.0f} s)",
    explain="Confirm: `ip -s -s link show <target>` twice, `ethtool -S <target>`. Do: look at cable and transceiver; "
    "which end is bad a counter does not say.",
)
BOND = code(
    "bond_degraded",
    "warn",
    "fabric",
    "{up} of {members} members are up, down: {down}",
    explain="The rest carries all; the next one down cuts the node off. Confirm: `cat /proc/net/bonding/<target>`."
    " Do: cable, transceiver, switch port of the member that is down.",
)
ALONE = code(
    "bond_no_partner",
    "warn",
    "fabric",
    "members {members} have no partner: the switch speaks no LACP with them",
    explain="They carry nothing, or each for itself. Confirm: `cat /proc/net/bonding/<target>` shows zeros. "
    "Do: look at the switch's side of the group.",
)
APART = code(
    "bond_split",
    "warn",
    "fabric",
    "members {members} joined another group and carry nothing",
    explain="They are wired to another switch or another group of it. Confirm: the lines Aggregator ID of `cat "
    "/proc/net/bonding/<target>`. Do: look at the wiring.",
)
# The stricter of two published limits, 2 and 3 losses (NVSentinel, cyclecloud-healthagent), would tell of a switch that
# is updated; carrier_changes counts each loss and each return.
LOSSES, WINDOW = 3, 3600.0
_NO_SPEED = (0xFFFF, 0xFFFFFFFF)
# RFC 2863, as the kernel writes them.
_STATES = ("unknown", "notpresent", "down", "lowerlayerdown", "testing", "dormant", "up")
_NAME = re.compile(r"[\w.:@-]{1,15}")


@check(
    lane="system",
    interval=60,
    timeout=2.0,
    codes=(ABSENT, DOWN, SLOW, HALF, SIZE, FLAPPING, ERRORS, BOND, ALONE, APART),
)
def ethernet(
    host: Host,
    *,
    interfaces: tuple[str, ...] = (),
    min_mbps: int = 0,
    mtu: int = 0,
    bond_members: int = 0,
    policy_dir: str = "/etc/nodevet/policy.d",
) -> Iterator[Finding]:
    """State, speed, ``mtu``, losses of carrier and errors of ``interfaces``, and the members of every bond there is.

    An interface that nobody named and that is in no bond is not judged: many are unused. A member that was taken out
    of its bond is missed by ``bond_members`` only. Counters are judged by growth, as the policy's table ``counter``
    says (paths ``statistics/``). Confirm by hand: ``ip -br link``, ``ethtool``, ``cat /proc/net/bonding/*``.

    ``min_mbps``: the least speed, 0 asks for none. ``policy_dir``: where the site's tables lie; the agent's own
    unless set.
    """
    bonds = host.glob(f"{BONDS}/*")
    if not interfaces and not bonds:
        raise Skip("no interface is named and there is no bond")
    watched = counters(host, "ethernet")
    for name in map(interface_name, interfaces):
        yield from _judge(host, name, min_mbps, mtu)
        yield from _counted(host, name, watched, policy_dir)
    for path in bonds:
        bond = read_bond(host.read(path))
        yield from _bond(path.name, bond, bond_members)
        for member in bond.members:
            if member.name not in interfaces and _NAME.fullmatch(member.name):
                yield from _counted(host, member.name, watched, policy_dir)
    host.keep("counters", watched.plain())


def interface_name(name: str) -> str:
    """The name, or a refusal of what is none."""
    if not _NAME.fullmatch(name) or name in (".", ".."):
        raise ValueError(f"no interface name: {name[:40]!r}")
    return name


def operstate(host: Host, name: str) -> str:
    """The state of an interface in the kernel's words; ValueError for any other."""
    state = host.read(f"{NET}/{name}/operstate").strip()
    if state not in _STATES:
        raise ValueError(f"interface {name} has a state nobody knows: {state[:32]!r}")
    return state


def _judge(host: Host, name: str, min_mbps: int, mtu: int) -> Iterator[Finding]:
    base = f"{NET}/{name}"
    if not host.path(base).exists():
        yield ABSENT(name)
        return
    state = operstate(host, name)
    if state not in ("up", "unknown"):
        yield DOWN(name, state=state)
        return
    # 0 or -1 where the driver does not say (a virtual device, or one that is just training), in any of its widths.
    speed = number(host, f"{base}/speed") or 0
    speed = 0 if speed in _NO_SPEED else speed
    if 0 < speed < min_mbps:
        yield SLOW(name, speed=speed, expected=min_mbps)
    else:
        yield ok(name, f"up, {speed} Mb/s" if speed > 0 else "up", speed=speed)
    if (optional(host, f"{base}/duplex") or "").lower() == "half":
        yield HALF(name)
    size = number(host, f"{base}/mtu")
    if mtu and size is not None and size != mtu:
        yield SIZE(name, mtu=size, expected=mtu)


def _counted(host: Host, name: str, watched: Counters, policy_dir: str) -> Iterator[Finding]:
    now, base = host.clock(), f"{NET}/{name}"
    changes = number(host, f"{base}/carrier_changes")
    if changes is not None:
        grown = watched.of(f"{name} carrier").over(now, changes, WINDOW)
        if grown.beyond(2 * LOSSES, WINDOW):
            yield FLAPPING(name, growth=grown.count // 2, seconds=max(WINDOW, grown.seconds), limit=LOSSES)
    for key, rule in _rules(policy_dir).items():
        if (value := number(host, f"{base}/{rule.path}")) is None:
            continue
        grown = watched.of(f"{name} {key}").over(now, value, rule.within or HOUR, wraps=True)
        if (found := beyond(ERRORS, name, key, rule, grown)) is not None:
            yield found


def _bond(name: str, bond: Bond, expected: int) -> Iterator[Finding]:
    members = max(expected, len(bond.members))
    down = [m.name for m in bond.members if not m.up]
    up = len(bond.members) - len(down)
    if up < members:
        gone = ", ".join(down[:8]) or f"{members - len(bond.members)} that are not in it"
        yield BOND(name, up=up, members=members, down=gone)
    if lonely := without_partner(bond):
        yield ALONE(name, members=", ".join(lonely[:8]))
    elif bond.alone and up:
        yield ALONE(name, members=", ".join(m.name for m in bond.members if m.up))
    elif split := apart(bond):
        yield APART(name, members=", ".join(split[:8]))
    elif up >= members:
        yield ok(name, f"{members} members up", members=members)


@per_policy
def _rules(directory: str) -> dict[str, CounterRule]:
    table = usable(directory).counter.items()
    return {n: r for n, r in table if r.path and r.path.startswith("statistics/") and not r.off}
