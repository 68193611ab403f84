"""How the tests of this folder ask a check by name and move a host's clock."""

from __future__ import annotations

from checks import Finding, Host
from checks.catalog import load
from checks.runner import run_check

KNOWN = load()
Tree = dict[str, str | bytes]
INFO = "/proc/self/mountinfo"


def bad(host: Host, name: str, **options: object) -> list[Finding]:
    """What one check says that is neither ok nor skipped."""
    return [f for f in run_check(KNOWN[name], host, options).findings if f.status not in ("ok", "skipped")]


def codes(host: Host, name: str, **options: object) -> list[str]:
    """The same by its codes."""
    return [f.code for f in bad(host, name, **options)]


class Clock:
    """The time of a host, which a test moves."""

    def __init__(self, host: Host) -> None:
        self.now = 1000.0
        host.clock = lambda: self.now
