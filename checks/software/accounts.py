"""The directory of users answers, and knows those that the site names."""

from __future__ import annotations

import re
from collections.abc import Iterator

from checks.declare import Skip, check, code, ok
from checks.host import Host
from checks.wire import Finding

CONFIRM = "Confirm: `getent passwd <user>`, `sssctl domain-status <domain>`, `systemctl status sssd nslcd`. "
UNKNOWN = code(
    "account_unknown",
    "warn",
    "shared",
    "user {user} is not known here",
    explain="Jobs of users that a node does not know cannot start on it. "
    + CONFIRM
    + "Do: where other nodes know the user restart sssd here, else look at the directory server.",
)
SILENT = code(
    "accounts_silent",
    "warn",
    "shared",
    "user {user} was not found within {seconds:g} s",
    explain="Every look-up of a user waits as long: logins, job starts, ls -l. "
    + CONFIRM
    + "Do: look at the directory server and the way to it.",
)
OFFLINE = code(
    "directory_offline",
    "warn",
    "shared",
    "sssd has no server for domain {domain} and answers from what it kept",
    explain="Users that were never here before are unknown, and changes of groups do not arrive. "
    + CONFIRM
    + "Do: look at the server; `sssctl domain-status` names it.",
)
UNASKED = code(
    "accounts_unasked",
    "unknown",
    "self",
    "{what} could not be asked about: {error}",
    explain="It says nothing about the node. Do: see that `getent` and, with ``domains``, `sssctl` are there and run.",
)
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.@+\\-]{0,254}")
_STATE = re.compile(r"^Online status:\s*(\w{1,20})", re.MULTILINE)
_NOT_FOUND = 2
"""How getent ends when there is none of that name."""

_COLONS = 6
"""In a line of passwd."""


@check(
    lane="names",
    scope="shared",
    interval=300,
    timeout=5.0,
    only_with=("users", "domains"),
    codes=(UNKNOWN, SILENT, OFFLINE, UNASKED),
)
def accounts(
    host: Host, *, users: tuple[str, ...] = (), domains: tuple[str, ...] = (), seconds: float = 2.0
) -> Iterator[Finding]:
    """Each of ``users`` is looked up as programs do it (nsswitch.conf), each of sssd's ``domains`` must be online.

    Name a user that only the directory knows. The first that does not answer ends the round: the others would wait
    as long. Confirm by hand: ``getent passwd <user>``, ``sssctl domain-status <domain>``.

    ``seconds``: how long one look-up may take.
    """
    if not users and not domains:
        raise Skip("no user is named")
    bad = []
    for user in users:
        found = _user(host, _named(user), seconds)
        if found is not None:
            bad.append(found)
        if found is not None and found.code == SILENT.name:
            break
    bad += [found for domain in domains if (found := _domain(host, _named(domain), seconds)) is not None]
    yield from bad
    if not bad:
        yield ok("node", f"{len(users)} users known", users=len(users))


def _named(name: str) -> str:
    """What a command is given must not look like one of its options."""
    if not _NAME.fullmatch(name):
        raise ValueError(f"no name of a user or domain: {name!r}")
    return name


def _user(host: Host, user: str, seconds: float) -> Finding | None:
    try:
        ended = host.outcome(["getent", "passwd", user], timeout=seconds)
    except TimeoutError:
        return SILENT(user, user=user, seconds=seconds)
    except OSError as error:
        return UNASKED(user, what=f"user {user}", error=str(error)[:160])
    if ended.status == _NOT_FOUND:
        return UNKNOWN(user, user=user)
    if ended.status or ended.output.count(":") < _COLONS:
        return UNASKED(user, what=f"user {user}", error=f"getent ended with {ended.status}")
    return None


def _domain(host: Host, domain: str, seconds: float) -> Finding | None:
    try:
        text = host.run(["sssctl", "domain-status", domain, "--online"], timeout=seconds)
    except OSError as error:  # TimeoutError is one
        return UNASKED(domain, what=f"domain {domain}", error=str(error)[:160])
    state = _STATE.search(text)
    if state is None:
        return UNASKED(domain, what=f"domain {domain}", error="sssctl gave no online status")
    return OFFLINE(domain, domain=domain) if state[1].lower() == "offline" else None
