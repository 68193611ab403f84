"""The site's own executables in checks.d find nothing wrong."""

from __future__ import annotations

import subprocess  # noqa: TID251 - for a type only
from collections.abc import Iterator
from pathlib import Path

from checks.declare import Skip, check, code
from checks.host import Host
from checks.site.answer import FAIL, UNKNOWN, WARN, Garbled, understood
from checks.site.run import OUTPUT_LIMIT, Account, account, run
from checks.site.trust import NotTrusted, executable, sidecar
from checks.wire import Finding

REFUSED = code(
    "site_executable_refused",
    "unknown",
    "self",
    "site executable {name} is not run: {why}",
    explain="Only what belongs to root and can be written by nobody else is run, the whole path included. "
    "Confirm: `namei -l` on the path. Do: mend owner and mode, or take the file out of checks.d.",
)
GARBLED = code(
    "site_executable_garbled",
    "unknown",
    "self",
    "site executable {name} gave no answer: {why}",
    explain="Expected is one JSON document on standard output, or a line of text with exit status 0 to 3. What cannot "
    "be understood is never a pass. Confirm: run it by hand, as its user."
    " Do: mend what it prints.",
)
SLOW = code(
    "site_executable_slow",
    "unknown",
    "self",
    "site executable {name} did not end within {limit:g} s{more}",
    explain="It was ended. Confirm: run it by hand, as its user. Do: give it more time by `timeout` in its sidecar.",
)


@check(
    lane="site",
    cost="active",
    interval=300,
    timeout=5.0,
    codes=(WARN, FAIL, UNKNOWN, REFUSED, GARBLED, SLOW),
    each="names",
)
def site_executable(
    host: Host,
    *,
    names: tuple[str, ...] = (),
    directory: str = "/etc/nodevet/checks.d",
    limit: float = 5.0,
    user: str = "nodevet",
) -> Iterator[Finding]:
    """Executables of root in ``directory``, each in a lane of its own, run as ``user`` unless declared root.

    One JSON document on standard output (a finding, or ``{"findings": [...]}``) or the exit status and one line of
    text of a Nagios plugin. A sidecar NAME.toml may hold ``user = "root"``, ``interval``, ``timeout``, and ``blame``,
    which is ``config`` if it says nothing. ``limit`` in seconds. Confirm by hand: run it as its user.

    ``names``: those to ask, by the agent found in the directory.
    """
    if not names:
        raise Skip(f"no executables in {directory}")
    if host.redirected:
        raise Skip("executables look at the machine they run on, not at a captured or simulated tree")
    for name in names:
        yield from _asked(host, Path(directory), name, limit, user)


def _asked(host: Host, directory: Path, name: str, limit: float, user: str) -> Iterator[Finding]:
    left = host.kept(f"site_executable {directory} {name}", _Left)
    if left.child is not None and left.child.poll() is None:
        yield SLOW(name, name=name, limit=limit, more=", and does not end on KILL: not started again")
        return
    left.child = None
    try:
        path, beside = executable(directory, name), sidecar(directory, name)
        who = _account(host, beside.user, user)
    except NotTrusted as error:
        yield REFUSED(name, name=name, why=str(error))
        return
    except FileNotFoundError as error:
        yield REFUSED(name, name=name, why=f"{error.filename or name}: no such file")
        return
    try:
        ran = run(path, who, limit)
    except OSError as error:
        yield REFUSED(name, name=name, why=f"it cannot be started: {error.strerror or error}")
        return
    left.child = ran.left
    if ran.status is None or ran.why == "slow":
        yield SLOW(name, name=name, limit=limit, more="" if ran.left is None else ", and not on KILL either")
    elif ran.why == "flood":
        yield GARBLED(name, name=name, why=f"more than {OUTPUT_LIMIT} bytes of output")
    else:
        try:
            yield from understood(name, ran.status, ran.output, beside.blame)
        except Garbled as error:
            yield GARBLED(name, name=name, why=str(error))


class _Left:
    """A child that did not end, so that no second one is started beside it."""

    child: subprocess.Popen[bytes] | None = None


def _account(host: Host, wanted: str, user: str) -> Account | None:
    """Whom to become, None = stay who we are; raises NotTrusted rather than run as somebody mightier."""
    if wanted == "root":
        if not host.privileged:
            raise PermissionError(1, "needs root")
        return None
    if not host.privileged:
        return None
    found = account(user)
    if found is None:
        raise NotTrusted(f"there is no local user {user} to run it as")
    return found
