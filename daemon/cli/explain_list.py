"""Every check as it is declared, and what the policy in force makes of each code it can give."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
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
    from checks.catalog import option_types

    options = {name: None if p.default is p.empty else p.default for name, p in check.options.items()}
    types = {name: _type(kind) for name, kind in option_types(check).items()}
    return {
        "id": check.name,
        "subject": subject(check),
        **{name: getattr(check, name) for name in FACTS},
        "needs": list(check.needs),
        "parameters": options,
        "parameter_types": types,
        "explain": check.explain,
        "codes": [_code(code, policy) for code in check.codes],
    }


def _type(kind: object) -> str:
    return kind.__name__ if isinstance(kind, type) else str(kind)


def subject(check: Check) -> str:
    """The folder that a check lies in; ``site`` for one of somebody else's."""
    parts = check.function.__module__.split(".")
    return parts[1] if parts[0] == "checks" and len(parts) > 1 else "site"


def _code(code: Code, policy: Policy) -> dict[str, object]:
    """What the policy makes of one code; ``declared`` is what the check itself says."""
    from checks.judge.differ import outcome

    found = outcome(policy, code.name, code.status, code.blame)
    action = {occasion: found[occasion] for occasion in ("prolog", "interval")}
    declared = {"status": code.status, "blame": code.blame}
    judged = {"status": found["status"], "blame": found["blame"]} if code.blame != "self" else declared
    more = {name: found.get(name) for name in ("confirm", "resume")}
    words = {"message": code.template, "explain": code.explain}
    return {"code": code.name, **judged, "action": action, "shadow": bool(found.get("shadow")), **more,
            "declared": declared, **words}  # fmt: skip


def _faults(codes: Sequence[Code], policy: Policy) -> str:
    """How many of the codes can take a node out of service, of how many."""
    from checks.judge.differ import outcome

    found = [outcome(policy, code.name, code.status, code.blame) for code in codes]
    acting = [f for f in found if {f["prolog"], f["interval"]} & {"refuse", "drain"}]
    return f"{len(acting)} of {len(found)}"
