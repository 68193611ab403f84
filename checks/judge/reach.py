"""Which values of a policy entry can never act, or say two things at once."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal

import msgspec

from checks.judge.rules import TOLD, KernelRule, Rule

Word = tuple[str, Literal["error", "warning"], str]
# An expression that begins so rests on a text of any kind, and a user chooses what stands there.
_LOOSE = re.compile(r"(?:\(\?[:P][^)]{0,40}>?)?\(?(?:\.[*+?{]|\\S[*+{]|\[\^)")
_ACTIONS = ("prolog", "interval")


@dataclass(frozen=True, slots=True)
class Effect:
    """What an entry leads to: status, blame, the rule in force, and whom the code itself blames."""

    status: str | None
    blame: str | None
    rule: Rule
    declared: str | None = None

    @property
    def of_node(self) -> bool:
        """Whether it may take a node away at all."""
        return self.status == "fail" and self.blame == "node"

    def action(self, occasion: str) -> str:
        """What follows on this occasion: admit, wait, refuse or drain."""
        wanted = str(getattr(self.rule, occasion) or "admit")
        if self.rule.shadow or self.status != "fail":
            return "admit"
        if not self.of_node:
            return "wait" if occasion == "prolog" and wanted == "wait" else "admit"
        return "drain" if occasion == "interval" and wanted == "refuse" else wanted


def judged(part: str, key: str, given: Mapping[str, Any], merged: msgspec.Struct, effect: Effect) -> Iterator[Word]:
    """What is wrong with the values that one entry gives, by the value's name."""
    if part in ("codes", "defaults"):
        yield from _rule(given, effect)
    else:
        yield from _entry(part, given, merged, effect)
    if given.get("off") is True and len(set(given) - {"off", *TOLD}) > 0:
        yield "off", "warning", "switched off, so that its other values have no effect"


def _rule(given: Mapping[str, Any], effect: Effect) -> Iterator[Word]:
    if effect.declared == "self" and set(given) - {*TOLD}:
        yield "", "warning", "never acts: it is our own trouble, which is judged by nobody"
        return
    if given.get("blame") == "self" and effect.status != "unknown":
        yield "blame", "error", f"blame self goes with unknown only, not with {effect.status}"
    for name in ("confirm", "refuse_up_to_nodes"):
        if isinstance(value := given.get(name), int) and value < 1:
            yield name, "error", f"{name} {value}: expected 1 or more"
    if given.get("interval") == "wait":
        yield "interval", "error", "interval wait: between jobs nobody waits, a prolog does"
    yield from _never(given, effect)
    yield from _idle(given, effect)


def _idle(given: Mapping[str, Any], effect: Effect) -> Iterator[Word]:
    """Values that only matter together with an action that is not taken."""
    rule = effect.rule
    refuses = effect.of_node and rule.prolog == "refuse"
    for name in ("lease", "device_lost", "refuse_up_to_nodes"):
        if given.get(name) and not refuses:
            yield name, "warning", f"{name} has no effect: no prolog is refused for it"
    if given.get("lease") and rule.shadow:
        yield "lease", "warning", "lease has no effect: the rule is in shadow"
    nothing = {effect.action(o) for o in _ACTIONS} == {"admit"} and not rule.shadow
    for name in ("confirm", "remedy", "breaks_every_job"):
        if given.get(name) and nothing:
            yield name, "warning", f"{name} has no effect: nothing follows from it"
    if refuses and (rule.interval or "admit") == "admit" and (at := next((o for o in _ACTIONS if o in given), "")):
        yield at, "warning", "contradiction: jobs are refused, which drains the node, and an idle node is left in"


def _never(given: Mapping[str, Any], effect: Effect) -> Iterator[Word]:
    """An action that the status or the blame keeps from ever happening."""
    for name in _ACTIONS:
        wanted = given.get(name)
        if wanted in ("refuse", "drain") and effect.status and not effect.of_node:
            is_ = f"{effect.status}, {effect.blame}"
            yield name, "warning", f"{name} {wanted} is never reached: it is {is_}, and only fail of the node can drain"
        elif wanted == "wait" and effect.status and effect.status != "fail":
            yield name, "warning", f"{name} wait is never reached: it is {effect.status}, and only a fail is waited for"


def _entry(part: str, given: Mapping[str, Any], merged: msgspec.Struct, effect: Effect) -> Iterator[Word]:
    if effect.declared == "self" and (named := next((n for n in ("status", "blame") if n in given), "")):
        yield (
            named,
            "error",
            f"code {getattr(merged, 'code', '')} is our own trouble: status and blame stay as they are",
        )
    if given.get("status") == "fail" and effect.blame in ("job", "shared", "config"):
        yield "status", "warning", f"a fail that blames {effect.blame} takes no node away"
    for name in ("at_least", "limit"):
        least = 0 if name == "limit" else 1
        if isinstance(value := given.get(name), int) and value < least:
            yield name, "error", f"{name} {value}: expected {least} or more"
    needed = {"kernel": "match", "counter": "path", "nvlink": "field"}.get(part)
    if needed and not getattr(merged, needed) and not getattr(merged, "off", None):
        yield "", "warning", f"never reached: it has no {needed}"
    if part == "nvlink5" and not 144 <= (getattr(merged, "xid", None) or 0) <= 150:
        yield "xid", "warning", "never reached: NVLink5 errors are the Xids 144 to 150"
    if isinstance(merged, KernelRule):
        yield from _kernel(given, merged)


def _kernel(given: Mapping[str, Any], merged: KernelRule) -> Iterator[Word]:
    if given.get("within") is not None and (merged.at_least or 1) == 1:
        yield "within", "warning", "within has no effect: one line is enough"
    for name in ("match", "clear"):
        text = given.get(name)
        if isinstance(text, str) and (not text or _LOOSE.match(text)):
            yield name, "error", f"{name} may not begin with a text of any kind: its user could write it"
    if merged.match and merged.clear and ("(?P<target>" in merged.match) != ("(?P<target>" in merged.clear):
        yield "clear", "warning", "contradiction: match and clear name different targets, so that it never ends"
