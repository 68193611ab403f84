"""Two policies are compared by what follows, code by code and entry by entry of every table."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import msgspec

from checks.judge.policy import TABLES, Policy, over
from checks.judge.reach import Effect
from checks.judge.rules import TOLD, Rule
from checks.wire import Blame, Status

Values = dict[str, object]
Declared = Mapping[str, tuple[Status, Blame | None]]
# The table whose code is not a value of its entries.
_GIVES = {"counter": "rdma_errors", "nvlink": "gpu_nvlink_errors"}


@dataclass(frozen=True, slots=True)
class Difference:
    """One value that differs; None where a policy says nothing."""

    table: str
    key: str
    value: str
    a: object
    b: object


def outcome(policy: Policy, code: str, status: str | None, blame: str | None) -> Values:
    """What follows from a finding with this code: how it is judged, and the action on each occasion."""
    own = policy.codes.get(code, Rule())
    status, blame = own.status or status, own.blame or blame
    rule = over(policy.defaults.get(f"{status}.{blame}", Rule()), own)
    effect = Effect(status, blame, rule)
    hidden = {*TOLD, "status", "blame", "prolog", "interval"}
    more = {n: getattr(rule, n) for n in rule.__struct_fields__ if n not in hidden}
    actions = {occasion: effect.action(occasion) for occasion in ("prolog", "interval")}
    return {"status": status, "blame": blame, **actions, **{n: v for n, v in more.items() if v is not None}}


def outcomes(policy: Policy, declared: Declared) -> dict[tuple[str, str], Values]:
    """Every code and every entry of every table with what follows from it."""
    found: dict[tuple[str, str], Values] = {}
    for code in sorted({*declared, *policy.codes}):
        found["codes", code] = outcome(policy, code, *declared.get(code, (None, None)))
    for part in TABLES:
        if part in ("codes", "defaults"):
            continue
        for key, entry in getattr(policy, part).items():
            found[part, key] = _entry(policy, part, entry, declared)
    return found


def _entry(policy: Policy, part: str, entry: msgspec.Struct, declared: Declared) -> Values:
    given = {n: getattr(entry, n) for n in entry.__struct_fields__ if n not in TOLD and getattr(entry, n) is not None}
    code = "gpu_nvlink_ber" if "ber" in given else str(given.get("code") or _GIVES.get(part, ""))
    if code not in declared:
        return given
    status, blame = declared[code]
    effect = outcome(policy, code, str(given.get("status") or status), str(given.get("blame") or blame))
    return {**given, **{n: effect[n] for n in ("status", "blame", "prolog", "interval")}}


def differences(a: Policy, b: Policy, declared: Declared) -> Iterator[Difference]:
    """Each value that the one has and the other has not, or has otherwise."""
    left, right = outcomes(a, declared), outcomes(b, declared)
    for table, key in dict.fromkeys([*left, *right]):
        one, other = left.get((table, key), {}), right.get((table, key), {})
        for value in dict.fromkeys([*one, *other]):
            if one.get(value) != other.get(value):
                yield Difference(table, key, value, one.get(value), other.get(value))
