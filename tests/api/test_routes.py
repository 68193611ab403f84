"""People get pages, details and problem documents, and hostile text stays text."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

import msgspec
import pytest
from starlette.testclient import TestClient

from api.ports import DrainView
from api.store.store import Store, utc_now
from checks.judge.policy import shipped
from checks.wire import CheckReport, JobAttempt
from slurm.state import NodeState, Reason
from tests.api.fakes import FakeController, batch, finding, good, report

HOSTILE = "<script>alert(1)</script>\"'; DROP TABLE nodes; -- $(reboot) {{7*7}} \u202e%s %n"


def walk(client: TestClient, path: str, headers: dict[str, str], **query: Any) -> list[dict[str, Any]]:
    """All rows of a paged answer, two at a time."""
    rows: list[dict[str, Any]] = []
    cursor: str | None = None
    for _ in range(50):
        params = {**query, "limit": 2, **({"cursor": cursor} if cursor else {})}
        page = client.get(f"/api/v1/{path}", params=params, headers=headers).json()
        rows += page["items"]
        cursor = page["next"]
        if cursor is None:
            return rows
    raise AssertionError("pages do not end")


def fill(store: Store, now: datetime | None = None) -> None:
    for number in range(1, 6):
        node = f"n{number}"
        found = finding() if number % 2 else good()
        job = JobAttempt(job_id=number)
        store.ingest(batch(report(1, found, node=node, occasion="prolog", job=job)), now)
        store.ingest(
            batch(report(2, good("disk"), finding("mount", "/s", "warn", "mount_slow", "shared"), node=node)), now
        )


@pytest.mark.parametrize(
    ("path", "key", "expected"),
    [
        ("nodes", "node", ["n1", "n2", "n3", "n4", "n5"]),
        ("findings?status=fail", "node", ["n1", "n3", "n5"]),
        ("findings?code=mount_slow", "node", ["n1", "n2", "n3", "n4", "n5"]),
        ("incidents", "node", ["n5", "n3", "n1"]),
        ("jobs", "job_id", [5, 4, 3, 2, 1]),
        ("nodes/c/n1/changes", "code", ["mount_slow", "gpu_lost"]),
    ],
)
def test_pages_give_every_row_once_and_in_order(
    client: TestClient, store: Store, viewer: dict[str, str], path: str, key: str, expected: list[object]
) -> None:
    fill(store)
    path, _, query = path.partition("?")
    rows = walk(client, path, viewer, **dict([query.split("=")] if query else []))
    assert [r[key] for r in rows] == expected


def test_tokens_and_audit_have_pages_too(client: TestClient, store: Store, admin: dict[str, str]) -> None:
    for number in range(5):
        store.audit("ann", "test", str(number))
    assert [r["subject"] for r in walk(client, "audit", admin)] == ["4", "3", "2", "1", "0"]
    assert [r["role"] for r in walk(client, "tokens", admin)] == ["admin"]


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("verdict=faulty", ["n1", "n3", "n5"]),
        ("verdict=degraded", ["n2", "n4"]),
        ("nodes=n[2-3]", ["n2", "n3"]),
        ("nodes=n[2-3]&verdict=faulty", ["n3"]),
        ("q=GPU_LOST", ["n1", "n3", "n5"]),
        ("q=n_", []),
        ("q=%25", []),
        ("cluster=other", []),
    ],
)
def test_nodes_are_filtered(
    client: TestClient, store: Store, viewer: dict[str, str], query: str, expected: list[str]
) -> None:
    fill(store)
    rows = client.get(f"/api/v1/nodes?{query}", headers=viewer).json()["items"]
    assert [r["node"] for r in rows] == expected


@pytest.mark.parametrize(
    "cursor", ["x", "!!!", "W10", "eyJhIjoxfQ", "LTE", "OTk5OTk5OTk5OTk5OTk5OTk5OTk5OTk5", "é", "W1tbW1tb" * 200]
)
def test_a_foreign_cursor_is_refused(client: TestClient, viewer: dict[str, str], cursor: str) -> None:
    for path in ("nodes", "findings", "incidents", "jobs", "nodes/c/n1/changes"):
        answer = client.get(f"/api/v1/{path}", params={"cursor": cursor}, headers=viewer)
        assert answer.status_code == 422
        assert answer.headers["content-type"] == "application/problem+json"


@pytest.mark.parametrize("nodes", ["gpu[1-100000]", "gpu[1-", "n1 n2", "$(reboot)", "a[1-9][1-9][1-9999]", ""])
def test_host_lists_that_cannot_be_meant_are_refused_politely(
    client: TestClient, operator: dict[str, str], controller: FakeController, nodes: str
) -> None:
    for path, body in (
        ("drains", {"nodes": nodes, "reason": "x"}),
        ("drains/preview", {"nodes": nodes}),
        ("drains/resume", {"nodes": nodes}),
    ):
        answer = client.post(f"/api/v1/{path}", json=body, headers=operator)
        assert answer.status_code == 422, path
        assert answer.json()["title"] and len(answer.json()["detail"]) <= 1000
    assert controller.drained == [] and controller.resumed == []
    if nodes == "gpu[1-100000]":
        assert answer.json()["detail"] == "host list names 100000 nodes, limit is 20000"
        assert client.get("/api/v1/nodes", params={"nodes": nodes}, headers=operator).status_code == 422


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("nodes?limit=0", 422),
        ("nodes?limit=1001", 422),
        ("nodes?verdict=fine", 422),
        ("nodes/c/absent", 404),
        ("jobs/c/99", 404),
        ("jobs/c/99999999999999999999", 422),
        ("jobs/c/x", 422),
        ("nodes/c/absent/check", 405),
        ("reports/99", 404),
        ("incidents/99", 404),
        ("nothing", 404),
    ],
)
def test_problems_are_documents(client: TestClient, viewer: dict[str, str], path: str, status: int) -> None:
    answer = client.get(f"/api/v1/{path}", headers=viewer)
    assert answer.status_code == status
    assert answer.headers["content-type"] == "application/problem+json"
    assert answer.json().keys() == {"type", "title", "status", "detail"}
    assert answer.json()["status"] == status


@pytest.mark.parametrize(
    ("path", "body", "status"),
    [
        ("drains", b'{"nodes":"n1"}', 422),
        ("drains", b'{"nodes":"n1","reason":""}', 422),
        ("drains", b'{"nodes":"n1","reason":"' + b"x" * 161 + b'"}', 422),
        ("drains", b'{"nodes":"n1","reason":"x","forse":true}', 422),
        ("drains", b"[1]", 422),
        ("drains", b"{" * 5000, 422),
        ("drains", b'{"nodes":"' + b"n1," * 30_000 + b'"}', 413),
        ("nodes/c/n1/check", b"{}", 404),
        ("nodes/c/n1/check", b'{"kind":"reboot"}', 422),
        ("nodes/c/n1/check", b'{"checks":["../x"]}', 422),
        ("incidents/1/ack", b'{"note":7}', 422),
    ],
)
def test_bodies_are_judged(client: TestClient, operator: dict[str, str], path: str, body: bytes, status: int) -> None:
    headers = {**operator, "Content-Type": "application/json"}
    answer = client.post(f"/api/v1/{path}", content=body, headers=headers)
    assert (answer.status_code, answer.headers["content-type"]) == (status, "application/problem+json")


def test_one_node_shows_everything(
    client: TestClient, store: Store, viewer: dict[str, str], controller: FakeController
) -> None:
    fill(store)
    reason = Reason("nodevet: gpu_lost GPU 3: gone [7f3a]")
    controller.states["n1"] = NodeState("n1", "IDLE", frozenset({"DRAIN"}), reason)
    controller.in_force = [DrainView(cluster="c", node="n1", owner="ours-automatic", exit="resume after verification")]
    shown = client.get("/api/v1/nodes/c/n1", headers=viewer)
    body = shown.json()
    assert (body["verdict"], body["slurm_state"], body["reason"]) == ("faulty", "IDLE+DRAIN", reason.text)
    assert [f["code"] for f in body["findings"]] == ["ok", "gpu_lost", "mount_slow"]
    assert body["drain"]["exit"] == "resume after verification"
    assert body["inventory"]["gpus"] == ["GPU-1", "GPU-2"]
    assert [r["job"]["job_id"] for r in body["reports"]] == [1]
    published = msgspec.json.decode(shown.content, type=CheckReport)
    assert (published.node, published.verdict, published.simulated) == ("n1", "faulty", True)


def test_a_node_that_is_powered_down_is_no_data_and_no_trouble(
    client: TestClient, store: Store, viewer: dict[str, str], controller: FakeController
) -> None:
    fill(store, utc_now() - timedelta(hours=1))
    controller.states["n1"] = NodeState("n1", "IDLE", frozenset({"POWERED_DOWN"}))
    controller.states["n9"] = NodeState("n9", "IDLE")
    rows = client.get("/api/v1/nodes", headers=viewer).json()["items"]
    assert [(r["data"], r["verdict"]) for r in rows[:2]] == [("none", "unknown"), ("stale", "unknown")]
    covered = client.get("/api/v1/coverage", headers=viewer).json()
    assert covered["no_data"] == ["n1"]
    assert covered["without_agent"] == ["n9"]
    assert covered["stale"] == ["n2", "n3", "n4", "n5"]
    assert (covered["nodes"], covered["fresh"]) == (6, 0)
    assert "nodevet_nodes_powered_down 1\n" in client.get("/metrics").text


def test_hostile_text_is_stored_and_answered_as_data(
    client: TestClient, agent: dict[str, str], viewer: dict[str, str], operator: dict[str, str], store: Store
) -> None:
    evil = finding(message=HOSTILE, target=HOSTILE[:100])
    content = msgspec.json.encode(batch(report(1, evil, occasion="prolog", job=JobAttempt(job_id=1))))
    client.post("/api/v1/ingest", content=content, headers={**agent, "Content-Type": "application/json"})
    client.post("/api/v1/incidents/1/ack", json={"note": HOSTILE}, headers=operator)
    expected = HOSTILE.replace("\u202e", "")
    for path in ("nodes", "nodes/c/n1", "findings", "incidents", "jobs/c/1"):
        answer = client.get(f"/api/v1/{path}", headers=viewer)
        assert answer.headers["content-type"] == "application/json"
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert "default-src 'none'" in answer.headers["content-security-policy"]
        assert "<script>alert(1)</script>" in answer.text and "\u202e" not in answer.text
    (incident,) = store.incidents()
    assert incident.message.replace(" ", "") == expected.replace(" ", "")
    assert client.get("/api/v1/nodes", params={"q": HOSTILE}, headers=viewer).json()["items"] == []


def test_metrics_tell_numbers_and_no_secret(
    client: TestClient, store: Store, agent: dict[str, str], controller: FakeController
) -> None:
    headers = {**agent, "Content-Type": "application/json"}
    client.post("/api/v1/ingest", content=msgspec.json.encode(batch(report(1, finding()))), headers=headers)
    text = client.get("/metrics").text
    lines = set(text.splitlines())
    assert 'nodevet_nodes{cluster="c",verdict="faulty"} 1' in lines
    assert 'nodevet_nodes{cluster="c",verdict="healthy"} 0' in lines
    assert {"nodevet_reports_total 1", "nodevet_open_incidents 1", "nodevet_permits_granted_total 2"} <= lines
    assert {"nodevet_guard_closed 0", "nodevet_ingest_seconds_count 1"} <= lines
    assert "nvt_" not in text


def test_the_policy_in_force_names_its_origin(client: TestClient, viewer: dict[str, str]) -> None:
    body = client.get("/api/v1/policy", headers=viewer).json()
    assert body["version"] == shipped().version
    assert body["origin"] == shipped().origin


def test_the_description_has_no_dangling_reference(client: TestClient) -> None:
    text = client.get("/api/v1/openapi.json").text
    document = msgspec.json.decode(text)
    known = document["components"]["schemas"]
    wanted = {part.partition('"')[0] for part in text.split("#/components/schemas/")[1:]}
    assert {"NodeDetail", "DrainRows", "Finding", "Batch", "PollAnswer"} <= wanted
    assert document["security"] == [{"token": []}]
    assert wanted <= known.keys()


def test_every_route_says_what_it_does_and_how_it_refuses(client: TestClient, viewer: dict[str, str]) -> None:
    document = client.get("/api/v1/openapi.json").json()
    operations = {(m, p): o for p, methods in document["paths"].items() for m, o in methods.items()}
    assert len(operations) > 50
    for (method, path), told in operations.items():
        assert " " in told["summary"] and told["description"].startswith(told["summary"][:20]), (method, path)
        refusals = told["responses"]
        assert "default" in refusals, (method, path)
        if not path.endswith(("/health", "/ready")):
            assert {"401", "403"} <= refusals.keys(), (method, path)
        if "requestBody" in told or told.get("parameters"):
            assert refusals["422"]["content"].keys() == {"application/problem+json"}, (method, path)
        if "{" in path:
            assert "404" in refusals, (method, path)


def test_a_refusal_has_the_shape_that_is_described(client: TestClient, viewer: dict[str, str]) -> None:
    document = client.get("/api/v1/openapi.json").json()
    told = document["paths"]["/api/v1/incidents/{number}"]["get"]["responses"]["404"]["content"]
    shape = document["components"]["schemas"][told["application/problem+json"]["schema"]["$ref"].rpartition("/")[2]]
    answer = client.get("/api/v1/incidents/4711", headers=viewer)
    assert (answer.status_code, answer.headers["content-type"]) == (404, "application/problem+json")
    assert answer.json().keys() == shape["properties"].keys() == set(shape["required"])
