"""Bodies of agents are bounded and judged one report at a time; polls end when anybody leaves."""

from __future__ import annotations

import asyncio
import gzip
import json
from collections.abc import Callable, MutableMapping
from typing import Any

import msgspec
import pytest
from starlette.testclient import TestClient

from api.app import create_app
from api.auth.grants import Grant
from api.settings import ServerSettings
from api.store.store import Store
from checks.wire import Batch, GateAnswer, GateRequest, JobAttempt, Order, PollAnswer, PollRequest
from tests.api.conftest import MakeToken
from tests.api.fakes import FakeController, batch, finding, good, report

JSON = {"Content-Type": "application/json"}
GZIP = {**JSON, "Content-Encoding": "gzip"}
Send = Callable[..., Any]


@pytest.fixture
def ingest(client: TestClient, agent: dict[str, str]) -> Send:
    def send(content: bytes, headers: dict[str, str] = JSON) -> Any:
        return client.post("/api/v1/ingest", content=content, headers={**agent, **headers})

    return send


def raw(*reports: object) -> bytes:
    return msgspec.json.encode({"cluster": "c", "node": "n1", "incarnation": "boot-a", "reports": reports})


def plain(sequence: int, **changed: object) -> dict[str, object]:
    made: dict[str, object] = msgspec.to_builtins(report(sequence, finding()))
    return {**made, **changed}


def with_finding(sequence: int, **changed: object) -> dict[str, object]:
    return plain(sequence, findings=[{**msgspec.to_builtins(finding()), **changed}])


def test_a_batch_is_stored_and_wakes_the_controller(ingest: Send, store: Store, controller: FakeController) -> None:
    answer = ingest(msgspec.json.encode(batch(report(1, finding()), report(2, finding()))))
    assert (answer.status_code, answer.json()) == (200, {"accepted": 2, "refused": []})
    assert controller.reported == [("c", "n1")]
    ingest(msgspec.json.encode(batch(report(2, finding()))))
    assert controller.reported == [("c", "n1")]


def test_gzip_is_understood(ingest: Send, store: Store) -> None:
    assert ingest(gzip.compress(raw(plain(1))), GZIP).json()["accepted"] == 1
    assert [r.node for r in store.node_rows()] == ["n1"]


@pytest.mark.parametrize(
    "bad",
    [
        plain(2, started_at="2026-12-01T09:00:00"),
        plain(2, started_at="yesterday"),
        plain(2, occasion="whenever"),
        plain(2, seconds=-1),
        plain(2, seconds=1e300),
        plain(2, node="n2"),
        plain(2, cluster="d"),
        plain(2, incarnation="boot-z"),
        plain(2, findings=[[]]),
        plain(2, findings=None),
        plain(2, job={"job_id": 2**70}),
        plain(2, job={"job_id": -1}),
        plain(2, job={"job_id": 1, "restart_count": 10**40}),
        plain(2, findings=[msgspec.to_builtins(finding())] * 5001),
        with_finding(2, status="broken"),
        with_finding(2, blame="admin"),
        with_finding(2, seen=2**64),
        with_finding(2, code=""),
        with_finding(2, evidence={"deep": {"er": 1}}),
        with_finding(2, observed_at="0001-01-01T00:00:00+14:00"),
        {"sequence": 2},
    ],
)
def test_a_malformed_report_is_kept_out_and_named(
    client: TestClient, agent: dict[str, str], store: Store, bad: object
) -> None:
    content = gzip.compress(raw(plain(1), bad, plain(3)))
    answer = client.post("/api/v1/ingest", content=content, headers={**agent, **GZIP})
    assert (answer.status_code, answer.json()) == (200, {"accepted": 3, "refused": [2]})
    assert store.open_incidents() == 1


@pytest.mark.parametrize(
    "bad", [{"sequence": "two"}, {}, [], 7, None, {**plain(1), "sequence": 2**63}, {**plain(1), "sequence": -1}]
)
def test_one_whose_sequence_cannot_be_read_does_not_stop_the_others(ingest: Send, bad: object) -> None:
    assert ingest(raw(plain(1), bad, plain(3))).json() == {"accepted": 3, "refused": []}


def test_long_and_dirty_texts_are_trimmed(ingest: Send, store: Store) -> None:
    dirty = "a\x00b\nc\u202ed" + "x" * 5000
    named = {"message": dirty, "target": dirty, "check": "k" * 300, "code": "c" * 300, "evidence": {dirty: dirty}}
    ingest(raw(with_finding(1, **named)))
    (found,) = store.current_findings("c", "n1")
    assert found.message.startswith("a b c d") and len(found.message) <= 512
    assert (len(found.target), len(found.check), len(found.code)) == (128, 64, 64)
    assert all(len(k) <= 64 and len(str(v)) <= 512 for k, v in found.evidence.items())


@pytest.mark.parametrize(
    ("content", "headers", "status"),
    [
        (b"", JSON, 422),
        (b"not json", JSON, 422),
        (b"\xff\xfe", JSON, 422),
        (b"[" * 100_000, JSON, 422),
        (b'{"cluster":"c"}', JSON, 422),
        (raw()[:-1], JSON, 422),
        (b'{"cluster":"c","node":"n1","incarnation":"i","protocol":2,"reports":[]}', JSON, 422),
        (b'{"cluster":"c","node":"n1","incarnation":"","reports":[]}', JSON, 422),
        (b'{"cluster":"c","node":"n1","incarnation":"a\\nb","reports":[]}', JSON, 422),
        (json.dumps({"cluster": "c", "node": "n1", "incarnation": "i", "reports": [1] * 10_001}).encode(), JSON, 422),
        (b"{}", {"Content-Type": "text/plain"}, 415),
        (b"{}", {}, 415),
        (b"{}", {**JSON, "Content-Encoding": "br"}, 415),
        (b"{}", GZIP, 422),
        (gzip.compress(raw())[:-9], GZIP, 422),
        (gzip.compress(raw()) + b"tail", GZIP, 422),
        (b" " * (256 * 1024 + 1), JSON, 413),
        (gzip.compress(b" " * (1024 * 1024 + 1)), GZIP, 413),
    ],
    ids=range(18),
)
def test_bodies_that_cannot_be_taken(
    ingest: Send, store: Store, content: bytes, headers: dict[str, str], status: int
) -> None:
    answer = ingest(content, headers)
    assert answer.status_code == status
    assert answer.headers["content-type"] == "application/problem+json"
    assert answer.json()["status"] == status and answer.json()["detail"]
    assert store.node_rows() == []


def test_a_gzip_bomb_is_not_inflated(ingest: Send) -> None:
    bomb = gzip.compress(b"\0" * 50 * 1024 * 1024)
    assert len(bomb) < 256 * 1024
    assert ingest(bomb, GZIP).json()["detail"] == "body inflates to more than 1048576 bytes"


def test_a_body_that_lies_about_its_length_is_counted(client: TestClient, agent: dict[str, str]) -> None:
    def pieces() -> Any:
        for _ in range(300):
            yield b" " * 1024

    answer = client.post("/api/v1/ingest", content=pieces(), headers={**agent, **JSON})
    assert answer.status_code == 413


def poll(client: TestClient, agent: dict[str, str], **given: Any) -> PollAnswer:
    request = PollRequest(cluster="c", node="n1", incarnation="boot-a", **given)
    answer = client.post("/api/v1/poll", content=msgspec.json.encode(request), headers={**agent, **JSON})
    assert answer.status_code == 200
    return msgspec.json.decode(answer.content, type=PollAnswer)


def test_a_poll_brings_orders_limits_and_leases(
    client: TestClient, agent: dict[str, str], operator: dict[str, str], controller: FakeController, store: Store
) -> None:
    ordered = client.post("/api/v1/nodes/c/n1/check", json={"checks": ["gpu_count"]}, headers=operator)
    assert ordered.status_code == 202
    answer = poll(client, agent, done_orders=("o9",), outbox_waiting=7)
    assert answer.orders == (msgspec.json.decode(ordered.content, type=Order),)
    assert answer.limits is not None and answer.limits.budget == 8.0
    assert [lease.permit for lease in answer.leases] == ["l1"]
    assert controller.forgotten == ["o9"]
    assert store.nodes()[0].outbox_waiting == 7


@pytest.mark.parametrize("wait", [-5.0, 0.0, 0.01])
def test_a_poll_waits_only_as_long_as_it_asks(client: TestClient, agent: dict[str, str], wait: float) -> None:
    assert poll(client, agent, wait=wait).orders == ()


def test_permits_go_to_the_controller(client: TestClient, agent: dict[str, str], controller: FakeController) -> None:
    body = {
        "cluster": "c",
        "node": "n1",
        "incarnation": "boot-a",
        "job": {"job_id": 1},
        "decision": {"verdict": "faulty", "wanted": "refuse", "codes": ["gpu_lost"]},
        "findings": [msgspec.to_builtins(finding())],
        "wait": 1e9,
    }
    answer = client.post("/api/v1/permits", json=body, headers=agent)
    assert answer.json() == {"granted": True, "permit": "p1", "drained": True, "why": ""}
    assert controller.permits[0].wait == 10.0
    assert "nodevet_permit_answers_granted_total 1\n" in client.get("/metrics").text


# An ASGI exchange by hand, since the client cannot leave in the middle of one.


class Wire:
    """One request whose client can leave."""

    def __init__(self, path: str, secret: str, body: bytes) -> None:
        headers = [(b"host", b"localhost"), (b"authorization", f"Bearer {secret}".encode())]
        self.scope: MutableMapping[str, Any] = {
            "type": "http",
            "asgi": {"version": "3.0"},
            "http_version": "1.1",
            "method": "POST",
            "scheme": "http",
            "path": path,
            "raw_path": path.encode(),
            "query_string": b"",
            "root_path": "",
            "headers": [*headers, (b"content-type", b"application/json")],
            "client": ("127.0.0.1", 1),
            "server": ("127.0.0.1", 7440),
        }
        self.left = asyncio.Event()
        self.sent: list[MutableMapping[str, Any]] = []
        self._body: bytes | None = body

    async def receive(self) -> MutableMapping[str, Any]:
        if self._body is not None:
            body, self._body = self._body, None
            return {"type": "http.request", "body": body, "more_body": False}
        await self.left.wait()
        return {"type": "http.disconnect"}

    async def send(self, message: MutableMapping[str, Any]) -> None:
        self.sent.append(message)


async def _poll_until(store: Store, secret: str, *, closing: bool) -> tuple[Wire, FakeController]:
    controller = FakeController()
    app = create_app(store, controller, ServerSettings(cluster="c"))
    request = PollRequest(cluster="c", node="n1", incarnation="boot-a", wait=60.0)
    wire = Wire("/api/v1/poll", secret, msgspec.json.encode(request))
    running = asyncio.create_task(app(wire.scope, wire.receive, wire.send))
    await asyncio.wait_for(controller.polled.wait(), 20)
    (app.state.shared.closing if closing else wire.left).set()
    await asyncio.wait_for(running, 20)
    return wire, controller


@pytest.mark.parametrize("closing", [False, True])
def test_a_poll_ends_when_the_agent_or_the_server_leaves(store: Store, token: MakeToken, closing: bool) -> None:
    secret = token(Grant(role="agent", cluster="c", node="n1"))
    wire, controller = asyncio.run(_poll_until(store, secret, closing=closing))
    assert controller.abandoned == 1
    assert [m["type"] for m in wire.sent] == (["http.response.start", "http.response.body"] if closing else [])


def test_a_gate_opens_when_the_server_stops(store: Store, token: MakeToken) -> None:
    secret = token(Grant(role="agent", cluster="c", node="n1"))
    request = GateRequest(cluster="c", node="n1", job=JobAttempt(job_id=1), hold=True, wait=60.0)

    class Waiting(FakeController):
        async def gate(self, request: GateRequest) -> GateAnswer:
            self.polled.set()
            await asyncio.Event().wait()
            raise AssertionError

    async def until() -> Wire:
        controller = Waiting()
        app = create_app(store, controller, ServerSettings(cluster="c"))
        wire = Wire("/api/v1/gate", secret, msgspec.json.encode(request))
        running = asyncio.create_task(app(wire.scope, wire.receive, wire.send))
        await asyncio.wait_for(controller.polled.wait(), 20)
        app.state.shared.closing.set()
        await asyncio.wait_for(running, 20)
        return wire

    wire = asyncio.run(until())
    answer = msgspec.json.decode(wire.sent[1]["body"], type=GateAnswer)
    assert (answer.complete, answer.why) == (False, "server is stopping")


def test_what_travels_is_what_the_wire_says() -> None:
    assert msgspec.json.decode(raw(plain(1)), type=Batch) == batch(report(1, finding()))
    assert good().status == "ok"
