"""Where nodes stand goes through the API with filter, bounds and roles."""

from __future__ import annotations

import pytest
from starlette.testclient import TestClient

from api.store.store import Store
from tests.api.fakes import FakeController, batch, report


def test_nodes_are_filtered_by_where_they_stand(
    client: TestClient, viewer: dict[str, str], store: Store, controller: FakeController
) -> None:
    for node in ("n1", "n2", "n3"):
        store.ingest(batch(report(1, node=node)))
    controller.service.known = {"n1": "probation", "n2": "drained", "n3": "drained"}

    def names(query: str) -> list[tuple[str, str]]:
        items = client.get(f"/api/v1/nodes?{query}", headers=viewer).json()["items"]
        return [(i["node"], i["service"]) for i in items]

    assert names("service=drained") == [("n2", "drained"), ("n3", "drained")]
    assert names("service=drained&nodes=n[1-2]") == [("n2", "drained")]
    assert names("service=held") == []
    assert client.get("/api/v1/nodes?service=gone", headers=viewer).status_code == 422


def test_one_node_shows_it_with_moves(client: TestClient, viewer: dict[str, str], store: Store) -> None:
    store.ingest(batch(report(1)))
    found = client.get("/api/v1/nodes/c/n1", headers=viewer).json()["standing"]
    assert (found["state"], found["way"][:10]) == ("probation", "in service")
    assert client.get("/api/v1/nodes/c/n1/service", headers=viewer).json() == found
    assert client.get("/api/v1/nodes/c/zz/service", headers=viewer).status_code == 404
    moves = client.get("/api/v1/nodes/c/n1/moves", headers=viewer).json()["items"]
    assert [(m["old"], m["new"]) for m in moves] == [("verifying", "probation")]


def test_probation_and_looks(client: TestClient, viewer: dict[str, str]) -> None:
    [found] = client.get("/api/v1/probation", headers=viewer).json()["items"]
    assert found["strikes"] == [{"what": "gpu_lost", "drains": 1, "score": 0.5, "limit": 2.2}]
    looks = client.get("/api/v1/looks?nodes=n2", headers=viewer).json()["items"]
    assert [(v["node"], v["state"]) for v in looks] == [("n2", "bad")]


def test_parts_and_swaps(client: TestClient, viewer: dict[str, str]) -> None:
    assert [p["serial"] for p in client.get("/api/v1/nodes/c/n1/parts", headers=viewer).json()["items"]] == ["2"]
    [swap] = client.get("/api/v1/swaps?since=86400", headers=viewer).json()["items"]
    assert (swap["drain"], swap["verified"], swap["new"]["slot"]) == ("gpu_lost", "verified", "0000:19:00.0")
    assert client.get("/api/v1/swaps?nodes=n2", headers=viewer).json()["items"] == []
    assert client.get("/api/v1/swaps?since=-1", headers=viewer).status_code == 422


def test_a_repair_is_begun_by_an_operator_under_a_ticket(
    client: TestClient, viewer: dict[str, str], operator: dict[str, str], controller: FakeController
) -> None:
    asked = {"nodes": "n[1-2]", "ticket": "4711", "reason": "swap"}
    assert client.post("/api/v1/repairs", json=asked, headers=viewer).status_code == 403
    assert client.post("/api/v1/repairs", json=asked, headers=operator).status_code == 200
    [(nodes, ticket, reason, actor)] = controller.service.repairs
    assert (nodes, ticket, reason) == ("n[1-2]", "4711", "swap") and actor.startswith("operator")
    assert client.get("/api/v1/repairs", headers=viewer).json()["items"] == []


@pytest.mark.parametrize(
    "asked",
    [
        {"nodes": "n1", "reason": "x"},
        {"nodes": "n1", "ticket": "", "reason": "x"},
        {"nodes": "n[1-", "ticket": "1", "reason": "x"},
        {"nodes": "n1", "ticket": "1" * 65, "reason": "x"},
    ],
)
def test_a_repair_that_says_too_little_is_refused(
    client: TestClient, operator: dict[str, str], asked: dict[str, str]
) -> None:
    assert client.post("/api/v1/repairs", json=asked, headers=operator).status_code in (400, 422)
