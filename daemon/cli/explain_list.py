"""Every check as it is declared, and what the policy in force makes of each code it can give."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from daemon.cli.output import print_json, table

if TYPE_CHECKING:
    from checks import Check, Code
    from checks.judge.policy import Policy

FACTS = ("title", "scope", "cost", "lane", "interval", "timeout", "required", "per_job")


def show_all(known: Mapping[str, Check], policy: Policy, as_json: bool) -> None:
    """Print the whole catalogue, one check a line or one document."""
    if as_json:
        print_json([described(check, policy) for check in known.values()])
        return
    rows = [
        (c.name, subject(c), c.cost, c.lane, f"{c.interval:g}", _faults(c.codes, policy), c.title)
        for c in known.values()
    ]
    table(("CHECK", "SUBJECT", "COST", "LANE", "EVERY", "CAN DRAIN FOR", "QUESTION"), rows)


def described(check: Check, policy: Policy) -> dict[str, object]:
    """One check as plain values; ``action`` is what follows at a prolog and between jobs."""
    options = {name: None if p.default is p.empty else p.default for name, p in check.options.items()}
    return {
        "id": check.name,
        "subject": subject(check),
        **{name: getattr(check, name) for name in FACTS},
        "needs": list(check.needs),
        "parameters": options,
        "codes": [_code(code, policy) for code in check.codes],
    }


def subject(check: Check) -> str:
    """The folder that a check lies in; ``site`` for one of somebody else's."""
    parts = check.function.__module__.split(".")
    return parts[1] if parts[0] == "checks" and len(parts) > 1 else "site"


def _code(code: Code, policy: Policy) -> dict[str, object]:
    own = policy.codes.get(code.name)
    status, blame = (own and own.status) or code.status, (own and own.blame) or code.blame
    rule = policy.rule(code.name, status, blame)
    action = {"prolog": rule.prolog or "admit", "interval": rule.interval or "admit"}
    return {"code": code.name, "status": status, "blame": blame, "action": action, "shadow": bool(rule.shadow)}


def _faults(codes: Iterable[Code], policy: Policy) -> str:
    """How many of the codes can take a node out of service, of how many."""
    seen = [_code(code, policy) for code in codes]
    acting = [c for c in seen if c["status"] == "fail" and c["blame"] == "node" and not c["shadow"]]
    return f"{len(acting)} of {len(seen)}"
