"""Bodies of agents are bounded and judged one report at a time; polls end when anybody leaves."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from typing import Any

import msgspec
import pytest
from starlette.testclient import TestClient

from api.store.store import Store
from checks.wire import Batch, Order, PollAnswer, PollRequest
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


def test_the_words_of_a_decision_are_trimmed_too(ingest: Send, store: Store) -> None:
    dirty = "a\x00b" + "x" * 25_000
    codes = ["c" * 100] * 99
    decision = {"verdict": "healthy", "wanted": "admit", "reason": dirty, "why": dirty, "codes": codes}
    job = {"job_id": 1, "nodelist": dirty, "partition": dirty}
    ingest(raw(plain(1, occasion="prolog", decision=decision, job=job, notes=["n" * 600] * 99)))
    (kept,) = store.recent_reports("c", "n1")
    assert kept.decision is not None and kept.job is not None
    assert (len(kept.decision.reason), len(kept.decision.codes), len(kept.decision.codes[0])) == (512, 64, 64)
    assert (kept.decision.why, kept.job.partition) == (kept.decision.reason, "a b" + "x" * 122 + "...")
    assert (len(kept.job.nodelist), len(kept.notes), len(kept.notes[0])) == (20_000, 64, 512)
    assert "\x00" not in kept.job.nodelist + kept.decision.reason


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
    poll(client, agent, wait=0.0)
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


def test_what_travels_is_what_the_wire_says() -> None:
    assert msgspec.json.decode(raw(plain(1)), type=Batch) == batch(report(1, finding()))
    assert good().status == "ok"
