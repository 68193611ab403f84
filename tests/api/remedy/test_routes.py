"""Remedies go through the API with bounds, names and roles."""

from __future__ import annotations

import pytest
from starlette.testclient import TestClient

from tests.api.fakes import FakeController

GPU = "0000:5d:00.0"


def test_what_was_done_and_what_waits_is_shown(client: TestClient, viewer: dict[str, str]) -> None:
    seen = client.get("/api/v1/remedies", params={"node": "n2"}, headers=viewer).json()
    assert seen["waiting"][0]["why"] == "reboot is switched off"
    assert seen["modes"] == [{"action": "reboot", "mode": "off"}]


def test_a_person_asks_and_takes_back(client: TestClient, operator: dict[str, str], controller: FakeController) -> None:
    asked = {"node": "n1", "action": "reset-gpu", "gpus": [GPU], "dry_run": True}
    assert client.post("/api/v1/remedies", json=asked, headers=operator).json()["outcome"] == "would"
    assert client.delete("/api/v1/remedies/4", headers=operator).status_code == 204
    assert client.delete("/api/v1/remedies/9", headers=operator).status_code == 404
    ask = controller.remedy.asked[0]
    assert (ask[:3], ask[4]) == (("n1", "reset-gpu", (GPU,)), True)


@pytest.mark.parametrize(
    "asked",
    [
        {"node": "n[1-4]", "action": "reboot"},
        {"node": "n1", "action": "shutdown"},
        {"node": "n1", "action": "run:../../bin/sh"},
        {"node": "n1", "action": "run:a b"},
        {"node": "n1", "action": "reset-gpu", "gpus": ["0; reboot"]},
        {"node": "n1", "action": "reset-gpu", "gpus": [GPU], "force": True},
        {"node": "-n1", "action": "reboot"},
    ],
)
def test_what_cannot_be_meant_is_refused(
    client: TestClient, operator: dict[str, str], controller: FakeController, asked: dict[str, object]
) -> None:
    assert client.post("/api/v1/remedies", json=asked, headers=operator).status_code in (400, 422)
    assert controller.remedy.asked == []


def test_a_viewer_asks_for_nothing(
    client: TestClient, viewer: dict[str, str], agent: dict[str, str], controller: FakeController
) -> None:
    for who in (viewer, agent):
        answer = client.post("/api/v1/remedies", json={"node": "n1", "action": "reboot"}, headers=who)
        assert answer.status_code == 403
    assert controller.remedy.asked == []
