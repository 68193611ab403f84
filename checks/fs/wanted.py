"""A mount's type, source and options are what the site has named, or a finding says which differs."""

from __future__ import annotations

from collections.abc import Iterator
from fnmatch import fnmatchcase

from checks.declare import code
from checks.fs.mounts import Mount
from checks.wire import Finding

TYPE = code(
    "mount_type_wrong",
    "warn",
    "config",
    "mounted as {kind}, expected {expected}",
    explain="Another file system lies here than the site has named. Confirm: `findmnt <path>`, /etc/fstab."
    " Do: mount the right one, or correct ``types``.",
)
SOURCE = code(
    "mount_source_wrong",
    "warn",
    "config",
    "mounted from {source}, expected {expected}",
    explain="Confirm: `findmnt -o SOURCE <path>`, `grep <path> /etc/fstab`."
    " Do: mount the right one, or correct ``sources``.",
)
OPTION = code(
    "mount_option_wrong",
    "warn",
    "config",
    "{problem}, expected {expected}",
    explain="Confirm: `findmnt -o OPTIONS <path>`. Do: `mount -o remount`, and put it into /etc/fstab.",
)
READ_ONLY = code(
    "mount_read_only",
    "fail",
    "config",
    "mounted read-only from {source}, expected rw",
    explain="Jobs cannot write where the site says that they can. Confirm: `findmnt -o OPTIONS <path>`. Do: find out "
    "whether somebody did it (`journalctl -b`), else remount; it drains no node.",
)
CODES = (TYPE, SOURCE, OPTION, READ_ONLY)
# An option that is known by the absence of another.
_BY_ABSENCE = {"exec": "noexec", "suid": "nosuid", "dev": "nodev", "atime": "noatime", "async": "sync"}


def judge(
    path: str, mounted: Mount, *, types: tuple[str, ...], sources: tuple[str, ...], options: tuple[str, ...]
) -> Iterator[Finding]:
    """What differs from what was named for ``path``."""
    for expected in _named(path, types):
        if not any(fnmatchcase(mounted.kind, one) for one in expected.split("|")):
            yield TYPE(path, kind=mounted.kind, expected=expected)
    seen = mounted.source if mounted.root == "/" else f"{mounted.source}[{mounted.root}]"
    for expected in _named(path, sources):
        if expected not in (seen, mounted.source) and not fnmatchcase(seen, expected):
            yield SOURCE(path, source=seen, expected=expected)
    for wanted in (one for named in _named(path, options) for one in named.split(",") if one):
        yield from _option(path, mounted, wanted)


def _option(path: str, mounted: Mount, wanted: str) -> Iterator[Finding]:
    if wanted == "rw":
        if mounted.read_only:
            yield READ_ONLY(path, source=mounted.source)
    elif (other := _BY_ABSENCE.get(wanted)) is not None:
        if other in mounted.options:
            yield OPTION(path, problem=f"mounted with {other}", expected=wanted)
    elif not any(fnmatchcase(option, wanted) for option in mounted.options):
        name = wanted.partition("=")[0]
        instead = sorted(o for o in mounted.options if o.partition("=")[0] == name)
        problem = f"mounted with {instead[0]}" if instead else f"mounted without {name}"
        yield OPTION(path, problem=problem, expected=wanted)


def _named(path: str, entries: tuple[str, ...]) -> Iterator[str]:
    """What is named for this path; an entry without = is no entry."""
    for entry in entries:
        name, equals, value = entry.partition("=")
        if not equals or not name.startswith("/"):
            raise ValueError(f"{entry!r}: expected /path=value")
        if name.rstrip("/") == path.rstrip("/"):
            yield value
