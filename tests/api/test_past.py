"""A node is found by what happened to it, and its past is one list in the order of time."""

from __future__ import annotations

import asyncio
from datetime import datetime, timedelta
from pathlib import Path

import pytest
from starlette.testclient import TestClient

from api.store.past_views import PastFilter
from api.store.store import Store
from api.store.views import NodeFilter
from checks.wire import Batch, Finding, NodeFacts, Report
from tests.api.controller.fake_slurm import bench
from tests.api.fakes import T0


def tell(
    store: Store,
    node: str,
    sequence: int,
    *findings: Finding,
    at: datetime = T0,
    boot: str = "b1",
    facts: NodeFacts | None = None,
) -> None:
    report = Report(
        cluster="c", node=node, incarnation="i", sequence=sequence, occasion="interval", started_at=at, seconds=0.1,
        findings=findings, boot_id=boot, facts=facts,
    )  # fmt: skip
    store.ingest(Batch(cluster="c", node=node, incarnation="i", reports=(report,)), at)


def bad(code: str, at: datetime = T0) -> Finding:
    return Finding(
        check="gpu_health", target="GPU 3", status="fail", code=code, blame="node", message="x", observed_at=at
    )


def well(at: datetime = T0) -> Finding:
    return Finding(check="gpu_health", target="node", status="ok", code="ok", observed_at=at)


def found(store: Store, **wanted: object) -> list[str]:
    past = PastFilter(**wanted)  # type: ignore[arg-type]
    return [v.node for v in store.nodes(NodeFilter(past=past), now=T0 + timedelta(days=40))]


@pytest.fixture
def old(store: Store) -> Store:
    """n1 had two codes long ago, n2 one lately, n3 has one since long ago, n4 nothing."""
    day = timedelta(days=1)
    tell(store, "n1", 1, bad("gpu_lost"), facts=NodeFacts(gpus=("GPU-aaaa1111", "GPU-bbbb2222"), driver="550.1"))
    tell(store, "n1", 2, bad("ecc_old", T0 + day), at=T0 + day)
    tell(store, "n1", 3, well(T0 + 2 * day), at=T0 + 2 * day, boot="b2")
    tell(store, "n2", 1, bad("gpu_lost", T0 + 39 * day), at=T0 + 39 * day, facts=NodeFacts(gpus=("GPU-cccc3333",)))
    tell(store, "n2", 2, well(T0 + 39 * day), at=T0 + 39 * day + timedelta(hours=1))
    tell(store, "n3", 1, bad("gpu_lost"), boot="b1")
    tell(store, "n4", 1, well())
    return store


def test_nodes_are_found_by_a_code_they_had_or_still_have(old: Store) -> None:
    assert found(old, had="gpu_lost") == ["n1", "n2", "n3"]
    assert found(old, had="gpu_lost", since=T0 + timedelta(days=10)) == ["n2", "n3"]
    assert found(old, had="ecc_old") == ["n1"] and found(old, had="gpu") == []


def test_nodes_are_found_by_a_part_that_was_ever_in_them(old: Store) -> None:
    """The card that was n1's is in n2 now, so both know it; half a name is only taken where it is long enough."""
    day = timedelta(days=39, hours=3)
    tell(old, "n2", 3, well(T0 + day), at=T0 + day, facts=NodeFacts(gpus=("GPU-aaaa1111",)))
    assert found(old, part="GPU-aaaa1111") == ["n1", "n2"] == found(old, part="GPU-aaaa")
    assert found(old, part="GPU-") == [] and found(old, part="%") == []
    swaps = [(i.what, i.detail) for i in old.timeline("c", "n2") if i.kind == "part"]
    assert ("GPU-aaaa1111 came", "in place of GPU-cccc3333") in swaps
    assert ("GPU-cccc3333 went", "replaced by GPU-aaaa1111") in swaps


def test_a_gpu_that_does_not_answer_is_no_part_that_went(old: Store) -> None:
    at = T0 + timedelta(days=3)
    tell(old, "n1", 4, at=at, boot="b2", facts=NodeFacts(gpus=("GPU-aaaa1111",), driver="550.1"))
    assert [i for i in old.timeline("c", "n1") if i.kind == "part"] == []


def test_nodes_are_found_by_driver_and_reboots_and_all_that_is_said_holds_together(old: Store) -> None:
    at = T0 + timedelta(days=38)
    tell(old, "n1", 4, at=at, boot="b3", facts=NodeFacts(gpus=("GPU-aaaa1111", "GPU-bbbb2222"), driver="560.2"))
    assert found(old, driver="560.2") == ["n1"] and found(old, driver="550.1") == []
    assert found(old, rebooted=2) == ["n1"] and found(old, rebooted=2, since=at - timedelta(days=1)) == []
    assert found(old, rebooted=1, had="ecc_old") == ["n1"] and found(old, rebooted=1, had="x") == []


def test_the_timeline_is_in_the_order_of_time_and_pages(old: Store) -> None:
    items = old.timeline("c", "n1")
    assert [(i.kind, i.what) for i in items] == [
        ("finding", "ecc_old -> ok"),
        ("reboot", "came up anew"),
        ("finding", "gpu_lost -> ecc_old"),
        ("finding", "ok -> gpu_lost"),
    ]
    assert old.timeline("c", "n1", until=items[1].at, limit=1) == items[2:3]
    assert old.timeline("c", "n1", since=items[2].at + timedelta(hours=1)) == items[:2]
    assert old.timeline("c", "n9") == []


def test_every_question_is_answered_by_an_index(old: Store) -> None:
    from sqlalchemy import text

    asked = {
        "SELECT DISTINCT cluster, node FROM changes WHERE code = 'x' AND at >= '2026-01-01'": "ix_changes_code_at",
        "SELECT DISTINCT cluster, node FROM node_parts WHERE part = 'x'": "ix_node_parts_part",
        "SELECT cluster, node FROM node_events WHERE kind = 'slurm' AND value = 'out' AND at > '2'": "ix_node_events",
        "SELECT * FROM node_events WHERE cluster = 'c' AND node = 'n' ORDER BY at DESC": "ix_node_events_node",
    }
    with old.database.read() as connection:
        for statement, index in asked.items():
            plan = " ".join(str(row) for row in connection.execute(text(f"EXPLAIN QUERY PLAN {statement}")))
            assert index in plan, plan


def test_the_routes_take_the_same_words(old: Store, client: TestClient, viewer: dict[str, str]) -> None:
    names = [r["node"] for r in client.get("/api/v1/nodes?had=gpu_lost", headers=viewer).json()["items"]]
    assert names == ["n1", "n2", "n3"]
    assert client.get("/api/v1/nodes?drained=0", headers=viewer).status_code == 422
    first = client.get("/api/v1/nodes/c/n1/timeline?limit=3", headers=viewer).json()
    assert len(first["items"]) == 3 and first["next"]
    rest = client.get(f"/api/v1/nodes/c/n1/timeline?limit=3&cursor={first['next']}", headers=viewer).json()
    assert [i["what"] for i in rest["items"]] == ["ok -> gpu_lost"] and rest["next"] is None


def test_each_time_out_of_service_is_counted_once_whoever_did_it(tmp_path: Path) -> None:
    """An edited reason is no other drain, and a server that starts anew writes nothing again."""
    with bench(tmp_path) as b:
        b.report("n1", b.fine())
        b.report("n2", b.fine())
        asyncio.run(b.tick())
        b.slurm.set("n1", "drain", "cable (bob)")
        asyncio.run(b.tick())
        b.slurm.set("n1", "reason", "cable ordered (bob)")
        asyncio.run(b.tick())
        b.control.lookouts.journal._known = None
        asyncio.run(b.tick())
        b.slurm.resume("n1")
        asyncio.run(b.tick())
        wanted = [PastFilter(drained=n) for n in (1, 2)]
        names = [[v.node for v in b.store.nodes(NodeFilter(past=w))] for w in wanted]
        assert names == [["n1"], []]
        told = [(i.what, i.detail) for i in b.store.timeline("sim", "n1") if i.kind == "slurm"]
        assert told == [("in", ""), ("reason", "cable ordered (bob) [slurm]"), ("out", "cable (bob) [slurm]")]
        b.slurm.set("n1", "drain", "again")
        asyncio.run(b.tick())
        assert [v.node for v in b.store.nodes(NodeFilter(past=PastFilter(drained=2)))] == ["n1"]
