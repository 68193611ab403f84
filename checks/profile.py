"""A profile says what a node of one kind must have: the settings of checks, never what is seen now."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from functools import cache
from pathlib import Path

import msgspec

from checks.catalog import broken, load, option_types
from checks.host import Host
from checks.judge.nearest import nearest
from checks.pci import functions

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

_PROFILES = Path(__file__).with_name("profiles")
FIRST_PROCESSOR = 8192
"""Bytes of /proc/cpuinfo in which the flags of the first processor end, whatever there is of them."""
Settings = dict[str, dict[str, object]]


class ProfileError(ValueError):
    """A profile or a check's settings cannot be used; the text names the nearest known name."""


class Match(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """PCI ids ``vendor:device`` and how many a complete node has.

    Half of them tell the kind, in a virtual machine more than half.
    """

    pci: dict[str, int] = {}
    features: tuple[str, ...] = ()


class Profile(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One node shape: its name, what tells it, and the settings of its checks."""

    name: str
    title: str = ""
    match: Match = Match()
    checks: Settings = {}
    skip: tuple[str, ...] = ()


GENERIC = Profile(name="generic", title="unknown hardware: only what every Linux node must satisfy")


def read_profile(text: str, name: str) -> Profile:
    """Parse one TOML profile and prove its settings against the declared checks."""
    try:
        profile = msgspec.convert(tomllib.loads(text), Profile)
    except (tomllib.TOMLDecodeError, msgspec.ValidationError) as error:
        raise ProfileError(f"{name}: {error}") from error
    for check, settings in profile.checks.items():
        typed_options(check, settings, where=name)
    return profile


def typed_options(check: str, settings: Mapping[str, object], *, where: str) -> dict[str, object]:
    """Settings of one check converted to its declared types; unknown check or option = ProfileError."""
    known = load()
    if check not in known and broken():
        return dict(settings)  # of a site check that cannot be used: told as a finding, and not asked
    if check not in known:
        raise ProfileError(f"{where}: no check {check!r}{nearest(check, known)}")
    types = option_types(known[check])
    made: dict[str, object] = {}
    for name, value in settings.items():
        if name not in types:
            raise ProfileError(f"{where}: check {check} has no setting {name!r}{nearest(name, types)}")
        try:
            made[name] = msgspec.convert(value, types[name])
        except msgspec.ValidationError as error:
            raise ProfileError(f"{where}: check {check}, setting {name}: {error}") from error
    return made


def profiles(site: Path | None = None) -> dict[str, Profile]:
    """Shipped profiles and over them those of ``site``, by name."""
    found = dict(_shipped())
    for path in sorted(site.glob("*.toml")) if site and site.is_dir() else []:
        profile = read_profile(path.read_text(encoding="utf-8"), str(path))
        found[profile.name] = profile
    return found


@cache
def _shipped() -> dict[str, Profile]:
    """The profiles that come with Nodevet; read once and shared by who is forked later."""
    found = {GENERIC.name: GENERIC}
    for item in sorted(_PROFILES.glob("*.toml")):
        profile = read_profile(item.read_text(encoding="utf-8"), item.name)
        found[profile.name] = profile
    return found


def pci_ids(host: Host) -> dict[str, int]:
    """How many PCI functions of each ``vendor:device`` the node has; unreadable ones do not count."""
    counts: dict[str, int] = {}
    for found in functions(host):
        key = f"{found.vendor}:{found.device}"
        counts[key] = counts.get(key, 0) + 1
    return counts


def is_guest(host: Host) -> bool:
    """Whether the node is a virtual machine, by the flag that every hypervisor shows to its guests on x86."""
    try:
        flags = host.read_bytes("/proc/cpuinfo", FIRST_PROCESSOR)
    except OSError:
        return False
    return b" hypervisor" in flags


def match_profile(host: Host, known: Mapping[str, Profile]) -> Profile:
    """The profile of whose PCI devices at least half are present; the most demanding wins, none = generic.

    Half, not all: a node that lost a GPU is still a node of its kind, one with a single adapter for storage is not.
    A virtual machine that is given half of a board is no such node, so there it takes more than half.
    """
    present, more = pci_ids(host), int(is_guest(host))
    fitting = [
        p
        for p in known.values()
        if p.match.pci and all(2 * present.get(i, 0) >= max(n, 1) + more for i, n in p.match.pci.items())
    ]
    return max(fitting, key=lambda p: (len(p.match.pci), sum(p.match.pci.values()), p.name), default=GENERIC)
