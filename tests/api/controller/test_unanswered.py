"""The same question unanswered on many nodes is one incident about us, and never touches a node."""

from __future__ import annotations

import asyncio
from pathlib import Path

from checks.wire import Decision
from tests.api.controller.fake_slurm import Bench, bench

BLIND = Decision(verdict="unknown", wanted="admit")


def blind(b: Bench, *nodes: str) -> None:
    finding = b.lost(target="node", check="site_dcgm", code="check_error", status="unknown", blame="self")
    for node in nodes:
        b.report(node, finding, decision=BLIND)


def test_unknown_on_every_node_at_once_is_our_mistake(tmp_path: Path) -> None:
    """E126: a tool that ends with 255 and no JSON everywhere says nothing about any node."""
    with bench(tmp_path, count=60) as b:
        blind(b, *(f"n{i}" for i in range(1, 61)))
        asyncio.run(b.tick())
        assert b.slurm.writes == []
        (said,) = (i for i in b.store.incidents(True, limit=1000) if i.node == "")
        assert said.code == "unanswered_site_dcgm" and said.message.startswith("site_dcgm is not answered on 60 of 60")
        asyncio.run(b.tick())
        assert ("", "unanswered_site_dcgm") in b.incidents()
        for i in range(1, 58):
            b.report(f"n{i}", b.fine("site_dcgm"))
        asyncio.run(b.tick())
        assert {key for key in b.incidents() if key[0] == ""} == set()


def test_a_few_blind_nodes_are_their_own_and_a_restart_ends_what_is_over(tmp_path: Path) -> None:
    with bench(tmp_path, count=60) as b:
        blind(b, "n1", "n2", "n3")
        asyncio.run(b.tick())
        assert {node for node, _ in b.incidents()} == {"n1", "n2", "n3"}
        b.store.open_incident("sim", "", "unanswered_gpu_count", "controller", "said before the restart", "controller")
        b.control._begun = False
        asyncio.run(b.tick())
        assert ("", "unanswered_gpu_count") not in b.incidents()
