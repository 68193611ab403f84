"""The packages that the site requires are installed in the version it wants, and none that it forbids."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from fnmatch import fnmatchcase

from checks.declare import Skip, check, code, ok
from checks.host import Host
from checks.wire import Finding

CONFIRM = "Confirm: `dpkg -l <package>` or `rpm -q <package>`. "
ABSENT = code(
    "package_absent",
    "warn",
    "config",
    "package {package} is not installed",
    explain=CONFIRM + "Do: install it, or take it off the list.",
)
VERSION = code(
    "package_version_wrong",
    "warn",
    "config",
    "package {package} has version {version}, expected {expected}",
    explain="An update reached a part of the nodes. " + CONFIRM + "Do: bring the node to the image of its fleet.",
)
FORBIDDEN = code(
    "package_forbidden",
    "warn",
    "config",
    "package {package} is installed ({version}), expected absent",
    explain=CONFIRM + "Do: remove it, or take it off the list.",
)
HALF = code(
    "package_half_installed",
    "warn",
    "config",
    "package {package} is {state}",
    explain="An installation was cut short. Confirm: `dpkg --audit`. Do: `dpkg --configure -a`, `apt-get -f install`.",
)
UNASKED = code(
    "packages_unasked",
    "unknown",
    "self",
    "packages could not be asked about: {error}",
    explain="It says nothing about the node. Confirm: `dpkg -l` or `rpm -qa`. Do: mend the package database.",
)
DPKG = "/var/lib/dpkg/status"
RPM = ("/var/lib/rpm", "/usr/lib/sysimage/rpm")
_DPKG_LIMIT = 64 * 1024 * 1024
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9+._-]{0,127}")
_FORMAT = "%{NAME} %{VERSION}-%{RELEASE}\\n"
_INSTALLED = "install ok installed"
# Who set a package aside, and one whose settings alone are left, is as good as not there.
_ABSENT = ("not-installed", "config-files")


@check(
    lane="packages",
    cost="active",
    interval=3600,
    timeout=15.0,
    only_with=("required", "forbidden"),
    codes=(ABSENT, VERSION, FORBIDDEN, HALF, UNASKED),
)
def packages(host: Host, *, required: tuple[str, ...] = (), forbidden: tuple[str, ...] = ()) -> Iterator[Finding]:
    """Each of ``required`` (``name``, ``name=version``, ``name=580.*``) and of ``forbidden``, by dpkg's or rpm's list.

    Versions are compared as they are written, ``*`` stands for anything. An epoch counts on Debian only when it is
    named. Confirm by hand: ``dpkg -l <package>``, ``rpm -q <package>``.
    """
    if not required and not forbidden:
        raise Skip("no package is named")
    wanted = [_parts(text) for text in required]
    unwanted = [_parts(text)[0] for text in forbidden]
    try:
        found = _installed(host, [*(name for name, _ in wanted), *unwanted])
    except OSError as error:  # TimeoutError is one
        yield UNASKED("node", error=str(error)[:160])
        return
    bad = [f for name, version in wanted if (f := _judge(name, version, found.get(name))) is not None]
    bad += [FORBIDDEN(n, package=n, version=found[n][0]) for n in unwanted if n in found]
    yield from bad
    if not bad:
        yield ok("node", f"{len(wanted)} packages as expected", packages=len(wanted))


def _parts(text: str) -> tuple[str, str]:
    name, _, version = (part.strip() for part in text.partition("="))
    if not _NAME.fullmatch(name):
        raise ValueError(f"no package: {text!r}, expected a name or name=version")
    return name, version


def _judge(name: str, expected: str, found: tuple[str, str] | None) -> Finding | None:
    if found is None:
        return ABSENT(name, package=name)
    version, state = found
    if state != _INSTALLED:
        return HALF(name, package=name, state=state, version=version)
    shown = {version, version.partition(":")[2] or version}
    if expected and not any(fnmatchcase(v, expected) for v in shown):
        return VERSION(name, package=name, version=version, expected=expected)
    return None


def _installed(host: Host, names: list[str]) -> Mapping[str, tuple[str, str]]:
    """Version and state of those that are installed, by name."""
    if host.path(DPKG).is_file():
        return _debian(host.read_bytes(DPKG, _DPKG_LIMIT), set(names))
    if not any(host.path(path).is_dir() for path in RPM):
        raise Skip("neither dpkg nor rpm keeps a list here")
    # Those that are not installed are told on the same output, in a sentence.
    text = host.run(["rpm", "-q", "--qf", _FORMAT, *names], timeout=10.0)
    rows = (line.split() for line in text.splitlines())
    return {row[0]: (row[1], _INSTALLED) for row in rows if len(row) == 2}


def _debian(text: bytes, names: set[str]) -> dict[str, tuple[str, str]]:
    """dpkg's own list; only the paragraphs that are asked for are looked into."""
    found: dict[str, tuple[str, str]] = {}
    for name in names:
        for start in re.finditer(rb"^Package: " + re.escape(name.encode()) + rb"$", text, re.MULTILINE):
            end = text.find(b"\n\n", start.end())
            fields = dict(_fields(text[start.start() : end if end >= 0 else len(text)]))
            state = fields.get("Status", "unknown")
            # The same package of several architectures: one that is whole will do.
            if not state.endswith(_ABSENT) and found.get(name, ("", ""))[1] != _INSTALLED:
                found[name] = (fields.get("Version", "?"), state.replace("hold ok", "install ok"))
    return found


def _fields(paragraph: bytes) -> Iterator[tuple[str, str]]:
    for line in paragraph.decode("utf-8", "replace").splitlines():
        if not line.startswith((" ", "\t")):
            name, _, value = line.partition(":")
            yield name, value.strip()
