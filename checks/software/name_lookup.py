"""The names of hosts that the site depends on can be looked up, and lead where they should."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterator

from checks.declare import Skip, check, code, ok
from checks.host import Host
from checks.wire import Finding

CONFIRM = "Confirm: `getent ahosts <name>`, `cat /etc/resolv.conf`, `resolvectl status`. "
UNKNOWN = code(
    "name_unknown",
    "warn",
    "shared",
    "name {name} has no address here",
    explain=CONFIRM + "Do: look at the name server; where other nodes find it, at this node's resolv.conf.",
)
SILENT = code(
    "names_silent",
    "warn",
    "shared",
    "name {name} was not found within {seconds:g} s",
    explain="Whatever looks up a name waits as long: mounts, logins, the start of MPI. "
    + CONFIRM
    + "Do: look at the name server and the way to it.",
)
OTHER = code(
    "name_address_wrong",
    "warn",
    "config",
    "name {name} leads to {found}, expected {expected}",
    explain=CONFIRM + "Do: correct /etc/hosts or the name server's entry.",
)
UNASKED = code(
    "names_unasked",
    "unknown",
    "self",
    "name {name} could not be looked up: {error}",
    explain="It says nothing about the node. Confirm: `getent ahosts <name>`. Do: see that getent is there and runs.",
)
_NAME = re.compile(r"[A-Za-z0-9_](?:[A-Za-z0-9_.\-]{0,252}[A-Za-z0-9_.])?")
_NOT_FOUND = 2
_ADDRESSES = 16


@check(
    lane="names",
    scope="shared",
    interval=300,
    timeout=5.0,
    only_with=("names",),
    codes=(UNKNOWN, SILENT, OTHER, UNASKED),
)
def name_lookup(host: Host, *, names: tuple[str, ...] = (), seconds: float = 2.0) -> Iterator[Finding]:
    """Each of ``names`` is looked up as programs do it (nsswitch.conf); ``name=address`` must lead there, too.

    The first that does not answer ends the round: the others would wait as long.
    Confirm by hand: ``getent ahosts <name>``.

    ``seconds``: how long one look-up may take.
    """
    if not names:
        raise Skip("no name is named")
    bad = []
    for text in names:
        name, _, expected = (part.strip() for part in text.partition("="))
        if not _NAME.fullmatch(name):
            raise ValueError(f"no name of a host: {name!r}")
        found = _look(host, name, expected, seconds)
        if found is not None:
            bad.append(found)
        if found is not None and found.code == SILENT.name:
            break
    yield from bad
    if not bad:
        yield ok("node", f"{len(names)} names found", names=len(names))


def _look(host: Host, name: str, expected: str, seconds: float) -> Finding | None:
    try:
        ended = host.outcome(["getent", "ahosts", name], timeout=seconds)
    except TimeoutError:
        return SILENT(name, name=name, seconds=seconds)
    except OSError as error:
        return UNASKED(name, name=name, error=str(error)[:160])
    if ended.status == _NOT_FOUND:
        return UNKNOWN(name, name=name)
    lines = (line.split() for line in ended.output.splitlines())
    addresses = list(dict.fromkeys(words[0] for words in lines if words))[:_ADDRESSES]
    if ended.status or not addresses:
        return UNASKED(name, name=name, error=f"getent ended with {ended.status}")
    if expected and ipaddress.ip_address(expected) not in {_address(a) for a in addresses}:
        return OTHER(name, name=name, found=", ".join(addresses[:4]), expected=expected)
    return None


def _address(text: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        return ipaddress.ip_address(text.partition("%")[0])
    except ValueError:
        return None
