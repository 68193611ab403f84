"""What the kernel says of one bond of Ethernet interfaces: its members, and who answers at the other end."""

from __future__ import annotations

import re
from dataclasses import dataclass

_MEMBER = re.compile(r"^(?:Slave|Port) Interface:\s*(\S{1,15})\s*$", re.MULTILINE)
_STATUS = re.compile(r"^MII Status:\s*(\w{1,16})", re.MULTILINE)
_AGGREGATOR = re.compile(r"^Aggregator ID:\s*(\d{1,9})\s*$", re.MULTILINE)
_PARTNER = re.compile(
    r"^details partner lacp pdu:[ \t]*$(?:\n[ \t]+.*)*?\n[ \t]+system mac address:[ \t]*([0-9a-fA-F:]{17})",
    re.MULTILINE,
)
_MODE = re.compile(r"^Bonding Mode:\s*(.{1,80})$", re.MULTILINE)
_ACTIVE = re.compile(r"^\s*Partner Mac Address:\s*([0-9a-fA-F:]{17})\s*$", re.MULTILINE)
_NOBODY = "00:00:00:00:00:00"


@dataclass(frozen=True, slots=True)
class Member:
    """One interface of a bond; aggregator and partner are empty where the mode has none or they are not told."""

    name: str
    up: bool
    aggregator: str
    partner: str


@dataclass(frozen=True, slots=True)
class Bond:
    """A bond; ``lacp``: mode 802.3ad. ``alone``: it has joined its links, and nobody answers at the other end."""

    lacp: bool
    alone: bool
    members: tuple[Member, ...]


def read_bond(text: str) -> Bond:
    """Parse a file of /proc/net/bonding; what is not told (it needs privileges) accuses nobody."""
    head, *parts = _split(text)
    mode = _MODE.search(head)
    lacp = bool(mode and "802.3ad" in mode.group(1))
    partner = _ACTIVE.search(head)
    return Bond(lacp, bool(lacp and partner and partner.group(1) == _NOBODY), tuple(map(_member, parts)))


def _split(text: str) -> list[str]:
    starts = [m.start() for m in _MEMBER.finditer(text)]
    return [text[a:b] for a, b in zip([0, *starts], [*starts, len(text)], strict=True)]


def _member(part: str) -> Member:
    name, status = _MEMBER.search(part), _STATUS.search(part)
    group, partner = _AGGREGATOR.search(part), _PARTNER.search(part)
    return Member(
        name.group(1) if name else "?",
        bool(status and status.group(1) == "up"),
        group.group(1) if group else "",
        partner.group(1) if partner else "",
    )


def without_partner(bond: Bond) -> list[str]:
    """Members that are up and whose other end speaks no LACP."""
    return [m.name for m in bond.members if bond.lacp and m.up and (m.partner == _NOBODY)]


def apart(bond: Bond) -> list[str]:
    """Members that are up and carry nothing, because they joined another group than most."""
    groups = [m.aggregator for m in bond.members if m.up and m.aggregator]
    if not bond.lacp or len(set(groups)) < 2:
        return []
    main = max(groups, key=lambda g: (groups.count(g), -groups.index(g)))
    return [m.name for m in bond.members if m.up and m.aggregator not in ("", main)]
