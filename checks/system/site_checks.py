"""Every check that this site has installed can be used."""

from __future__ import annotations

from collections.abc import Iterator

from checks.catalog import broken
from checks.declare import check, code
from checks.host import Host
from checks.wire import Finding

SITE_CHECK_BROKEN = code(
    "site_check_broken",
    "unknown",
    "self",
    "site check {entry} cannot be used: {error}",
    explain="What it would have asked is not asked; all other checks are. It says nothing about the node. "
    "Confirm: load the entry point of group `nodevet.checks` by hand with the agent's own Python. "
    "Do: mend or remove the distribution that installs it, then restart the agent.",
)


@check(lane="system", interval=300, timeout=1.0, codes=(SITE_CHECK_BROKEN,))
def site_checks(host: Host) -> Iterator[Finding]:
    """Checks that the site installed as entry points ``nodevet.checks`` were imported when the agent started.

    A broken one is left out and told here. Confirm by hand:
    ``python -c "from checks.catalog import broken; print(broken())"`` with the agent's own Python.
    """
    for entry, error in broken().items():
        yield SITE_CHECK_BROKEN(entry, entry=entry, error=error)
