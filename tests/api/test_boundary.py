"""What reaches the application at all, and what it says when it is in trouble itself."""

from __future__ import annotations

import pytest
from starlette.testclient import TestClient

from api.app import create_app
from api.ports import DrainView
from api.settings import ServerSettings
from api.store.store import Store
from tests.api.fakes import FakeController


def test_our_own_trouble_is_said_without_its_inside(
    store: Store, viewer: dict[str, str], settings: ServerSettings, caplog: pytest.LogCaptureFixture
) -> None:
    class Broken(FakeController):
        def drains(self) -> list[DrainView]:
            raise RuntimeError("password is hunter2")

    with TestClient(create_app(store, Broken(), settings), base_url="http://localhost") as client:
        answer = client.get("/api/v1/drains", headers=viewer)
    assert (answer.status_code, answer.headers["content-type"]) == (500, "application/problem+json")
    assert "hunter2" not in answer.text
    assert "hunter2" in caplog.text


def test_a_controller_that_ended_is_not_ready(
    store: Store, settings: ServerSettings, caplog: pytest.LogCaptureFixture
) -> None:
    class Ending(FakeController):
        async def run(self) -> None:
            raise RuntimeError("no more")

    with TestClient(create_app(store, Ending(), settings), base_url="http://localhost") as client:
        answer = client.get("/api/v1/ready")
    assert (answer.status_code, answer.json()["controller"]) == (503, "stopped")
    assert "controller ended by itself" in caplog.text


@pytest.mark.parametrize(
    ("host", "status"),
    [
        ("localhost", 200),
        ("127.0.0.1:7440", 200),
        ("[::1]:7440", 200),
        ("LOCALHOST.", 200),
        ("nodevet.example.org", 421),
        ("localhost.evil.example", 421),
        ("", 421),
    ],
)
def test_only_our_own_name_reaches_a_loopback_server(client: TestClient, host: str, status: int) -> None:
    assert client.get("/api/v1/health", headers={"Host": host}).status_code == status


def test_reads_on_loopback_may_be_opened_and_writes_never(store: Store, controller: FakeController) -> None:
    opened = ServerSettings(cluster="c", open_reads_on_loopback=True)
    with TestClient(create_app(store, controller, opened), base_url="http://localhost") as client:
        assert client.get("/api/v1/nodes").status_code == 200
        assert client.get("/api/v1/audit").status_code == 403
        assert client.post("/api/v1/drains", json={"nodes": "n1", "reason": "x"}).status_code == 403
        assert client.post("/api/v1/poll", json={}).status_code == 403
    assert controller.drained == []


def test_beyond_loopback_metrics_need_a_token(store: Store, controller: FakeController, viewer: dict[str, str]) -> None:
    outside = ServerSettings(cluster="c", host="0.0.0.0", behind_proxy=True)
    with TestClient(create_app(store, controller, outside), base_url="http://nodevet.example") as client:
        assert client.get("/metrics").status_code == 401
        assert client.get("/metrics", headers=viewer).status_code == 200
