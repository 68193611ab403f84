"""A policy is a versioned pack of rules per code, layered by the site, and every value knows its origin."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable, Mapping
from functools import cache
from pathlib import Path
from typing import TypeVar

import msgspec

from checks.judge.nearest import nearest
from checks.judge.rules import (
    TOLD,
    CounterRule,
    DcgmRule,
    KernelRule,
    LinkRule,
    NvlinkRule,
    Pack,
    PolicyStep,
    Rule,
    SxidRule,
    XidRule,
)
from checks.wire import Blame, Status

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

__all__ = [
    "CounterRule",
    "DcgmRule",
    "KernelRule",
    "LinkRule",
    "NvlinkRule",
    "Pack",
    "Policy",
    "PolicyError",
    "PolicyStep",
    "Rule",
    "SxidRule",
    "XidRule",
]
Layer = TypeVar("Layer", bound=msgspec.Struct)


class PolicyError(ValueError):
    """A policy file cannot be used; the text names file, key and the nearest known name."""


class Policy(msgspec.Struct, frozen=True, kw_only=True):
    """All layers merged; ``origin`` maps "codes.gpu_lost.prolog" to the file that set it."""

    version: str
    defaults: dict[str, Rule]
    codes: dict[str, Rule]
    xid: dict[str, XidRule]
    origin: dict[str, str]
    kernel: dict[str, KernelRule] = {}
    counter: dict[str, CounterRule] = {}
    sxid: dict[str, SxidRule] = {}
    nvlink5: dict[str, NvlinkRule] = {}
    dcgm: dict[str, DcgmRule] = {}
    nvlink: dict[str, LinkRule] = {}

    def rule(self, code: str, status: Status, blame: Blame | None) -> Rule:
        """The rule in force for a finding: the code's own values over the defaults of its status and blame."""
        default = self.defaults.get(f"{status}.{blame}", Rule())
        own = self.codes.get(code)
        return over(default, own) if own else default


TABLES: dict[str, type[msgspec.Struct]] = {
    "defaults": Rule,
    "codes": Rule,
    "xid": XidRule,
    "kernel": KernelRule,
    "counter": CounterRule,
    "sxid": SxidRule,
    "nvlink5": NvlinkRule,
    "dcgm": DcgmRule,
    "nvlink": LinkRule,
}
"""The tables of a pack."""


def over(base: Layer, layer: Layer) -> Layer:
    """The lower of two entries with what the upper one gives laid over it."""
    given = {n: getattr(layer, n) for n in layer.__struct_fields__ if getattr(layer, n) is not None}
    return msgspec.structs.replace(base, **given)


def read_pack(text: str, name: str) -> Pack:
    """Parse one TOML pack; raises PolicyError with file, key and the nearest known name."""
    try:
        raw = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise PolicyError(f"{name}: {error}") from error
    try:
        return msgspec.convert(raw, Pack)
    except msgspec.ValidationError as error:
        where = _where(raw)
        raise PolicyError(f"{name}{where}: {error}{_nearest(str(error), where)}") from error


def _where(raw: Mapping[str, object]) -> str:
    """The first rule that cannot be read, which msgspec does not name."""
    for part, kind in TABLES.items():
        rules = raw.get(part)
        for key, rule in rules.items() if isinstance(rules, dict) else ():
            try:
                msgspec.convert(rule, kind)
            except msgspec.ValidationError:
                return f" in {part}.{key}"
    return ""


def _nearest(text: str, where: str) -> str:
    """A hint after msgspec's "Object contains unknown field `x`"."""
    parts = text.split("`")
    if "unknown field" not in text or len(parts) < 2:
        return ""
    part = where.removeprefix(" in ").partition(".")[0]
    return nearest(parts[1], [*TABLES.get(part, Rule).__struct_fields__, *Pack.__struct_fields__])


def merge(packs: Iterable[tuple[str, Pack]]) -> Policy:
    """Lay packs over each other in order, later values win, each remembered with its file."""
    version = ""
    tables: dict[str, dict[str, msgspec.Struct]] = {part: {} for part in TABLES}
    origin: dict[str, str] = {}
    for name, pack in packs:
        version = f"{version}+{pack.version}" if version else pack.version
        for part, into in tables.items():
            _lay(into, getattr(pack, part), origin, (name, part))
    return msgspec.convert({"version": version, "origin": origin, **tables}, Policy)


def _lay(into: dict[str, Layer], layer: Mapping[str, Layer], origin: dict[str, str], where: tuple[str, str]) -> None:
    """Put one file's rules over those below and remember which file set each value."""
    name, part = where
    for key, rule in layer.items():
        into[key] = over(into[key], rule) if key in into else rule
        given = (f for f in rule.__struct_fields__ if f not in TOLD and getattr(rule, f) is not None)
        origin.update({f"{part}.{key}.{field}": name for field in given})


@cache
def shipped() -> Policy:
    """The policy that comes with Nodevet, without any site layer; read once and shared by who is forked later."""
    return merge(_packs())


@cache
def _packs() -> tuple[tuple[str, Pack], ...]:
    """The packs that come with Nodevet, in the order in which they are laid over each other."""
    return tuple(
        (f.name, read_pack(f.read_text(encoding="utf-8"), f.name))
        for f in sorted(Path(__file__).with_name("packs").glob("*.toml"))
    )


def load_packs(site: Path | None) -> tuple[tuple[str, Pack], ...]:
    """The shipped packs and, over them, ``site``/*.toml in alphabetical order, each with its file's name."""
    packs = []
    for path in sorted(site.glob("*.toml")) if site is not None and site.is_dir() else []:
        try:
            packs.append((str(path), read_pack(path.read_text(encoding="utf-8"), str(path))))
        except (OSError, UnicodeDecodeError) as error:
            raise PolicyError(f"{path}: cannot be read: {error}") from error
    return (*_packs(), *packs)


def load_policy(site: Path | None) -> Policy:
    """The policy of the shipped packs and the site's layers over them."""
    packs = load_packs(site)
    return merge(packs) if len(packs) > len(_packs()) else shipped()


Stamp = tuple[tuple[str, int, int], ...]
Made = TypeVar("Made")


def per_policy(make: Callable[[str], Made]) -> Callable[[str], Made]:
    """What is made of a policy's directory is made once, and anew when a file in it has changed."""
    kept: dict[str, tuple[Stamp, Made]] = {}

    def made(directory: str) -> Made:
        stamp = _stamp(directory)
        found = kept.get(directory)
        if found is None or found[0] != stamp:
            found = kept[directory] = stamp, make(directory)
        return found[1]

    return made


def _stamp(directory: str) -> Stamp:
    """Name, time and size of each file of the site's; an agent that was told to reload is not born anew for it."""
    try:
        with os.scandir(directory) as entries:
            files = [(e.name, e.stat()) for e in entries if e.name.endswith(".toml")]
        return tuple(sorted((name, stat.st_mtime_ns, stat.st_size) for name, stat in files))
    except OSError:
        return ()


_LAST: dict[str, Policy] = {}


@per_policy
def usable(directory: str) -> Policy:
    """The policy with the site's layers; of files that cannot be read the last that could be stays, else the shipped.

    The agent reports a broken file. What a site has softened is not sharpened because somebody mistypes.
    """
    try:
        _LAST[directory] = load_policy(Path(directory))
    except PolicyError:
        _LAST.setdefault(directory, shipped())
    return _LAST[directory]
