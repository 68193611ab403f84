"""The same question unanswered on many nodes at once is one incident: a mistake of ours before one of the nodes."""

from __future__ import annotations

import asyncio

from api.controller.core import Core

PREFIX = "unanswered_"


async def look(core: Core) -> None:
    """Open, keep and close the incident of each check that more nodes leave unanswered than chance explains."""
    await asyncio.to_thread(_look, core)


def _look(core: Core) -> None:
    total = len(core.view.states)
    limit = core.guard.alike(total)
    holding = set()
    for check, nodes in core.store.unanswered(core.cluster).items():
        if nodes <= limit:
            continue
        key = ("", f"{PREFIX}{check}"[:64])
        holding.add(key)
        core.incident(
            *key,
            f"{check} is not answered on {nodes} of {total} nodes, at most {limit} can be the nodes' own: "
            "look at what was rolled out, at the configuration and at the tool it needs",
        )
    core.notices.keep(lambda key, _: key[0] == "" and key[1].startswith(PREFIX), holding, "answered again")
