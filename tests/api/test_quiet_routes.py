"""Pauses and silences go through the API with bounds, names and roles."""

from __future__ import annotations

import pytest
from starlette.testclient import TestClient

from tests.api.fakes import FakeController


def test_pause_and_ready(client: TestClient, operator: dict[str, str], controller: FakeController) -> None:
    asked = {"nodes": "n[1-2]", "seconds": 7200, "reason": "driver"}
    done = client.post("/api/v1/pauses", json=asked, headers=operator)
    assert [r["node"] for r in done.json()["items"]] == ["n1", "n2"]
    assert client.post("/api/v1/pauses/end", json={"nodes": "n1"}, headers=operator).status_code == 200
    assert [r[:-1] for r in controller.rests] == [("pause", "n[1-2]", 7200.0, "driver"), ("ready", "n1")]
    assert all(str(r[-1]).startswith("operator") for r in controller.rests)
    assert [p["node"] for p in client.get("/api/v1/pauses", headers=operator).json()["items"]] == ["n1"]


def test_silence_and_its_end(client: TestClient, operator: dict[str, str], controller: FakeController) -> None:
    asked = {"check": "gpu_count", "partition": "main", "seconds": 600, "reason": "known"}
    made = client.post("/api/v1/silences", json=asked, headers=operator).json()["items"]
    assert [s["id"] for s in made] == [7]
    assert client.delete("/api/v1/silences/7", headers=operator).status_code == 204
    assert client.delete("/api/v1/silences/8", headers=operator).status_code == 404
    assert controller.rests[0] == ("silence", "gpu_count", "", "main", 600.0, "known", controller.rests[0][-1])


@pytest.mark.parametrize(
    ("path", "asked"),
    [
        ("pauses", {"nodes": "n1", "seconds": 0, "reason": "x"}),
        ("pauses", {"nodes": "n1", "seconds": 1e9, "reason": "x"}),
        ("pauses", {"nodes": "n1", "seconds": 60, "reason": ""}),
        ("pauses", {"nodes": "n[1-", "seconds": 60, "reason": "x"}),
        ("pauses", {"nodes": "n[1-99999]", "seconds": 60, "reason": "x"}),
        ("silences", {"seconds": 60, "reason": "x"}),
        ("silences", {"check": "a b", "seconds": 60, "reason": "x"}),
        ("silences", {"check": "gpu_count", "forever": True, "seconds": 60, "reason": "x"}),
    ],
)
def test_what_is_out_of_bounds_is_refused(
    client: TestClient, operator: dict[str, str], controller: FakeController, path: str, asked: dict[str, object]
) -> None:
    assert client.post(f"/api/v1/{path}", json=asked, headers=operator).status_code in (400, 422)
    assert controller.rests == []
