"""Overruling the guard goes through the API with bounds, names and roles, and is what the command shows."""

from __future__ import annotations

import pytest
from starlette.testclient import TestClient

from api.store.store import Store
from tests.api.fakes import T0, FakeController, batch, good, report


def test_the_guard_is_shown(client: TestClient, viewer: dict[str, str]) -> None:
    seen = client.get("/api/v1/guard", headers=viewer).json()
    assert (seen["headroom"], seen["out_limit"], seen["closed"], seen["overrides"]) == (2, 2, False, [])
    assert [r["code"] for r in client.get("/api/v1/risks", headers=viewer).json()["items"]] == ["gpu_lost"]


def test_an_override_and_its_end(client: TestClient, admin: dict[str, str], controller: FakeController) -> None:
    asked = {"code": "gpu_lost", "seconds": 3600, "reason": "rack 7 lost cooling"}
    assert client.post("/api/v1/guard/override", json=asked, headers=admin).json()["code"] == "gpu_lost"
    assert client.delete("/api/v1/guard/override", headers=admin).status_code == 204
    assert controller.desk.said[0][:-1] == ("override", "gpu_lost", 3600.0, "rack 7 lost cooling")
    assert all(str(word[-1]).startswith("admin") for word in controller.desk.said)


def test_a_risk_and_a_contest(client: TestClient, operator: dict[str, str], controller: FakeController) -> None:
    asked = {"nodes": "n[1-2]", "seconds": 14400, "reason": "CPU jobs only"}
    done = client.post("/api/v1/risks", json=asked, headers=operator)
    assert [r["node"] for r in done.json()["items"]] == ["n1", "n2"]
    cleared = client.post("/api/v1/guard/clear", json={"nodes": "n1", "reason": "mended"}, headers=operator)
    assert cleared.status_code == 200
    assert [w[:-1] for w in controller.desk.said] == [
        ("accept", "n[1-2]", 14400.0, "CPU jobs only"),
        ("clear", "n1", "mended"),
    ]


def test_an_accepted_risk_stands_with_its_node(
    client: TestClient, viewer: dict[str, str], store: Store, controller: FakeController
) -> None:
    store.ingest(batch(report(1, good())), T0)
    controller.desk.risky["n1"] = "risk accepted by ann until 2026-12-01 12:00 UTC: CPU jobs only"
    for path in ("nodes/c/n1", "nodes"):
        seen = client.get(f"/api/v1/{path}", headers=viewer).json()
        assert "accepted by ann" in (seen["items"][0] if "items" in seen else seen)["risk"]


@pytest.mark.parametrize(
    ("path", "asked"),
    [
        ("risks", {"nodes": "n1", "seconds": 0, "reason": "x"}),
        ("risks", {"nodes": "n1", "seconds": 8 * 86400, "reason": "x"}),
        ("risks", {"nodes": "n1", "seconds": 60, "reason": ""}),
        ("risks", {"nodes": "n[1-99999]", "seconds": 60, "reason": "x"}),
        ("guard/clear", {"nodes": "n1"}),
        ("guard/override", {"seconds": 2 * 86400, "reason": "x"}),
        ("guard/override", {"code": "GPU LOST", "seconds": 60, "reason": "x"}),
        ("guard/override", {"seconds": 60}),
    ],
)
def test_what_is_out_of_bounds_is_refused(
    client: TestClient, admin: dict[str, str], controller: FakeController, path: str, asked: dict[str, object]
) -> None:
    assert client.post(f"/api/v1/{path}", json=asked, headers=admin).status_code in (400, 422)
    assert controller.desk.said == []
