"""A person who gives a node back is believed for a while; against one who does it again there is no duel."""

from __future__ import annotations

from datetime import timedelta

from api.controller.core import Core
from checks.wire import Decision

# Even a fault that breaks every job is drained again only so often against a person's hand.
AGAIN = 1


def believed(core: Core, node: str, decision: Decision) -> str:
    """Why the node is left to the person who gave it back, empty when it is not; reads the database.

    A fault that breaks every job drains again at once, the first time; others wait for ``belief`` seconds.
    """
    now = core.clock()
    since = now - timedelta(seconds=core.settings.belief)
    ended = core.records.ended_since(core.cluster, node, since - timedelta(days=30))
    alike = [r for r in ended if set(r.codes) & set(decision.codes)]
    given = [r.closed_at for r in alike if r.state in ("resumed_outside", "resumed_unverified") and r.closed_at]
    back = core.view.back.get(node)
    if back is not None and alike and alike[0].state == "taken_over":
        # A person made the drain theirs, and it has ended since.
        given.append(back)
    lately = [at for at in given if at >= since]
    breaks = any((rule := core.policy.codes.get(code)) and rule.breaks_every_job for code in decision.codes)
    if not lately or (breaks and len(lately) <= AGAIN):
        return ""
    age = max(0.0, (now - max(lately)).total_seconds())
    text = f"resumed {age:.0f} s ago by a person, {decision.reason} persists"
    core.incident(node, "resumed_while_faulty", text)
    return text
