"""How checks that never take a node out of service are asked in tests."""

from __future__ import annotations

from checks import Finding, Host
from checks.catalog import load
from checks.runner import run_check

Tree = dict[str, str | bytes]


def found(host: Host, check: str, **options: object) -> list[Finding]:
    """All findings of one check, none of them a fail."""
    seen = list(run_check(load()[check], host, options).findings)
    assert "fail" not in {f.status for f in seen}, "none of these takes a node out of service"
    return seen


def codes(seen: list[Finding]) -> list[str]:
    """Their codes."""
    return [f.code for f in seen]
