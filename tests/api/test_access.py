"""Every route against every role: who may, who may not, and what is said about it."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import msgspec
import pytest
from fastapi.routing import APIRoute
from starlette.applications import Starlette
from starlette.routing import Route
from starlette.testclient import TestClient

from api.auth.grants import Grant
from api.auth.principal import Role
from api.store.store import Store, utc_now
from checks.wire import GateRequest, JobAttempt, PollRequest
from tests.api.conftest import MakeToken
from tests.api.fakes import T0, batch, good, report

NOBODY, VIEWER, OPERATOR, ADMIN, AGENT = range(5)
READ = (401, 200, 200, 200, 403)
OPERATE = (401, 403, 200, 200, 403)
ADMINISTER = (401, 403, 403, 200, 403)
PEOPLE_NEVER = (401, 403, 403, 403, 200)
OPEN = (200, 200, 200, 200, 200)
POLL = PollRequest(cluster="c", node="n1", incarnation="boot-a", wait=0.0)
GATE = GateRequest(cluster="c", node="n1", job=JobAttempt(job_id=1))
NODES = {"nodes": "n[1-2]"}

MATRIX: list[tuple[str, str, object, tuple[int, ...]]] = [
    ("GET", "/api/v1/nodes", None, READ),
    ("GET", "/api/v1/nodes/{cluster}/{node}", None, READ),
    ("GET", "/api/v1/nodes/{cluster}/{node}/findings", None, READ),
    ("GET", "/api/v1/nodes/{cluster}/{node}/reports", None, READ),
    ("GET", "/api/v1/nodes/{cluster}/{node}/changes", None, READ),
    ("GET", "/api/v1/nodes/{cluster}/{node}/timeline", None, READ),
    ("POST", "/api/v1/nodes/{cluster}/{node}/check", {}, OPERATE),
    ("GET", "/api/v1/findings", None, READ),
    ("GET", "/api/v1/jobs", None, READ),
    ("GET", "/api/v1/jobs/{cluster}/{job_id}", None, READ),
    ("GET", "/api/v1/jobs/{cluster}/{job_id}/explain", None, READ),
    ("GET", "/api/v1/jobs/{cluster}/{job_id}/facts", None, READ),
    ("GET", "/api/v1/words/jobs/{job_id}", None, READ),
    ("GET", "/api/v1/reports/{number}", None, READ),
    ("GET", "/api/v1/incidents", None, READ),
    ("GET", "/api/v1/incidents/{number}", None, READ),
    ("POST", "/api/v1/incidents/{number}/ack", {}, OPERATE),
    ("GET", "/api/v1/drains", None, READ),
    ("POST", "/api/v1/drains/preview", NODES, OPERATE),
    ("POST", "/api/v1/drains", {**NODES, "reason": "cable"}, OPERATE),
    ("POST", "/api/v1/drains/resume", NODES, OPERATE),
    ("GET", "/api/v1/operations", None, READ),
    ("GET", "/api/v1/operations/{number}", None, READ),
    ("POST", "/api/v1/operations/undo", {}, OPERATE),
    *(("GET", f"/api/v1/nodes/{{cluster}}/{{node}}/{what}", None, READ) for what in ("service", "moves", "parts")),
    *(("GET", f"/api/v1/{what}", None, READ) for what in ("probation", "looks", "swaps", "repairs", "firmware")),
    ("POST", "/api/v1/repairs", {**NODES, "ticket": "4711", "reason": "swap"}, OPERATE),
    ("GET", "/api/v1/pauses", None, READ),
    ("POST", "/api/v1/pauses", {**NODES, "seconds": 60, "reason": "work"}, OPERATE),
    ("POST", "/api/v1/pauses/end", NODES, OPERATE),
    ("GET", "/api/v1/silences", None, READ),
    ("POST", "/api/v1/silences", {"check": "gpu_count", "seconds": 60, "reason": "known"}, OPERATE),
    ("DELETE", "/api/v1/silences/{number}", None, OPERATE),
    ("GET", "/api/v1/guard", None, READ),
    ("POST", "/api/v1/guard/override", {"seconds": 60, "reason": "known"}, ADMINISTER),
    ("DELETE", "/api/v1/guard/override", None, ADMINISTER),
    ("POST", "/api/v1/guard/clear", {**NODES, "reason": "mended"}, OPERATE),
    ("GET", "/api/v1/remedies", None, READ),
    ("POST", "/api/v1/remedies", {"node": "n1", "action": "reboot"}, OPERATE),
    ("DELETE", "/api/v1/remedies/{number}", None, OPERATE),
    ("GET", "/api/v1/risks", None, READ),
    ("POST", "/api/v1/risks", {**NODES, "seconds": 60, "reason": "known"}, OPERATE),
    ("GET", "/api/v1/audit", None, ADMINISTER),
    ("GET", "/api/v1/tokens", None, ADMINISTER),
    ("POST", "/api/v1/tokens", {"role": "viewer"}, ADMINISTER),
    ("DELETE", "/api/v1/tokens/{number}", None, ADMINISTER),
    ("GET", "/api/v1/policy", None, READ),
    ("GET", "/api/v1/coverage", None, READ),
    ("GET", "/api/v1/lemons", None, READ),
    ("GET", "/api/v1/health", None, OPEN),
    ("GET", "/api/v1/ready", None, OPEN),
    ("GET", "/metrics", None, OPEN),
    ("GET", "/api/v1/openapi.json", None, OPEN),
    ("POST", "/api/v1/ingest", batch(report(1, good())), PEOPLE_NEVER),
    ("POST", "/api/v1/poll", POLL, PEOPLE_NEVER),
    ("POST", "/api/v1/gate", GATE, PEOPLE_NEVER),
    (
        "POST",
        "/api/v1/permits",
        {
            "cluster": "c",
            "node": "n1",
            "incarnation": "boot-a",
            "job": {"job_id": 1},
            "decision": {"verdict": "faulty", "wanted": "refuse"},
            "findings": [],
        },
        PEOPLE_NEVER,
    ),
]
HOT = [(path, body) for _, path, body, expected in MATRIX if expected is PEOPLE_NEVER]


def served(app: Starlette) -> set[tuple[str, str]]:
    """Method and path of everything the application answers, by what it says of itself and by its raw routes."""
    described = app.openapi()["paths"]  # type: ignore[attr-defined]
    found = {(method.upper(), path) for path, methods in described.items() for method in methods}
    for route in app.router.routes:
        if isinstance(route, Route) and not isinstance(route, APIRoute):
            found |= {(m, route.path) for m in route.methods or () if m != "HEAD"}
    return found


def ask(client: TestClient, method: str, path: str, body: object, headers: dict[str, str]) -> int:
    full = path.format(cluster="c", node="n1", job_id=1, number=1)
    sent = {**headers, "Content-Type": "application/json"} if body is not None else headers
    content = msgspec.json.encode(body) if body is not None else None
    return client.request(method, full, content=content, headers=sent).status_code


def test_every_route_is_in_the_matrix(client: TestClient) -> None:
    listed = {(method, path) for method, path, _, _ in MATRIX}
    found = served(client.app)  # type: ignore[arg-type]
    assert found <= listed
    assert {("POST", path) for path, _ in HOT} | {("GET", "/api/v1/nodes"), ("GET", "/metrics")} <= found


@pytest.mark.parametrize(("method", "path", "body", "expected"), MATRIX, ids=lambda v: v if isinstance(v, str) else "")
def test_roles(
    client: TestClient,
    store: Store,
    token: MakeToken,
    method: str,
    path: str,
    body: object,
    expected: tuple[int, ...],
) -> None:
    store.ingest(batch(report(0, good(), occasion="prolog", job=JobAttempt(job_id=1))), T0)
    store.open_incident("c", "n1", "x", "node", "trouble", "test")
    token(Grant(role="viewer", label="number 1, which is revoked"))
    people: tuple[Role, ...] = ("viewer", "operator", "admin")
    secrets = [None, *(token(Grant(role=role)) for role in people)]
    secrets.append(token(Grant(role="agent", cluster="c", node="n1")))
    for who, secret in enumerate(secrets):
        headers = {"Authorization": f"Bearer {secret}"} if secret else {}
        status = ask(client, method, path, body, headers)
        assert (status if status >= 300 else 200) == expected[who], f"role {who}"


@pytest.mark.parametrize(("path", "body"), HOT, ids=lambda v: v if isinstance(v, str) else "")
def test_an_agent_speaks_for_its_own_node_only(
    client: TestClient, store: Store, token: MakeToken, path: str, body: object
) -> None:
    for cluster, node in (("c", "n2"), ("d", "n1")):
        other = {"Authorization": f"Bearer {token(Grant(role='agent', cluster=cluster, node=node))}"}
        assert ask(client, "POST", path, body, other) == 403
    lines = store.audit_log()
    assert [(a.action, a.subject) for a in lines] == [("refused", f"POST {path}")] * 2
    assert "token is for node n1 of d, request speaks for n1 of c" in lines[0].detail
    assert store.node_rows() == []


def test_a_batch_cannot_carry_another_nodes_report(client: TestClient, agent: dict[str, str], store: Store) -> None:
    mixed = (report(1, good(), node="n2"), report(2, good()))
    foreign = msgspec.structs.replace(batch(report(1, good())), reports=mixed)
    answer = client.post(
        "/api/v1/ingest", content=msgspec.json.encode(foreign), headers={**agent, "Content-Type": "application/json"}
    )
    assert answer.json() == {"accepted": 2, "refused": [1]}
    assert [r.node for r in store.node_rows()] == ["n1"]


def test_scopes_narrow_a_role(client: TestClient, token: MakeToken) -> None:
    narrow = {"Authorization": f"Bearer {token(Grant(role='operator', scopes=('read', 'ack')))}"}
    assert client.get("/api/v1/nodes", headers=narrow).status_code == 200
    answer = client.post("/api/v1/drains", json={"nodes": "n1", "reason": "x"}, headers=narrow)
    assert (answer.status_code, answer.json()["detail"]) == (403, "token's scopes are ack, read, expected drain")


def test_revoked_and_expired_tokens_are_refused(
    client: TestClient, store: Store, token: MakeToken, admin: dict[str, str]
) -> None:
    secret = token(Grant(role="viewer"))
    bearer = {"Authorization": f"Bearer {secret}"}
    assert client.get("/api/v1/nodes", headers=bearer).status_code == 200
    number = next(t.id for t in store.tokens() if secret.startswith(t.prefix))
    assert client.delete(f"/api/v1/tokens/{number}", headers=admin).status_code == 204
    assert client.get("/api/v1/nodes", headers=bearer).status_code == 401
    assert client.delete(f"/api/v1/tokens/{number}", headers=admin).status_code == 404
    short = token(Grant(role="viewer", expires_at=utc_now() + timedelta(hours=1)))
    assert store.find_token(short) is not None
    assert store.find_token(short, utc_now() + timedelta(hours=2)) is None


def test_a_revocation_by_another_process_counts_soon(
    client: TestClient, store: Store, token: MakeToken, monkeypatch: pytest.MonkeyPatch
) -> None:
    bearer = {"Authorization": f"Bearer {token(Grant(role='viewer'))}"}
    assert client.get("/api/v1/nodes", headers=bearer).status_code == 200
    store.revoke_token(store.tokens()[-1].id)
    monkeypatch.setattr("api.auth.gate.BELIEVE_SECONDS", 0.0)
    assert client.get("/api/v1/nodes", headers=bearer).status_code == 401


def test_writes_and_refusals_are_audited(
    client: TestClient, store: Store, operator: dict[str, str], viewer: dict[str, str]
) -> None:
    client.post("/api/v1/drains", json={"nodes": "n[1-2]", "reason": "cable"}, headers=operator)
    client.post("/api/v1/drains/resume", json={"nodes": "n1", "force": True}, headers=operator)
    client.post("/api/v1/drains", json={"nodes": "n1", "reason": "cable"}, headers=viewer)
    client.get("/api/v1/nodes")
    seen = [(a.actor.partition(" ")[0], a.action, a.subject) for a in reversed(store.audit_log())]
    assert seen == [
        ("operator", "drain asked", "n[1-2]"),
        ("operator", "resume asked", "n1"),
        ("viewer", "refused", "POST /api/v1/drains"),
        ("nobody", "refused", "GET /api/v1/nodes"),
    ]
    assert store.audit_log()[2].detail == "verify=True force=True"


def test_guessing_is_slowed_and_bounded(
    client: TestClient, store: Store, viewer: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("api.auth.gate.SLOW_DOWN", 0.001)
    guesses = [client.get("/api/v1/nodes", headers={"Authorization": f"Bearer nvt_{n:051d}"}) for n in range(80)]
    assert {g.status_code for g in guesses[:10]} == {401}
    assert {g.status_code for g in guesses[10:]} == {429}
    assert int(guesses[-1].headers["retry-after"]) >= 1
    assert len(store.audit_log(limit=1000)) == 60
    assert client.get("/api/v1/nodes", headers=viewer).status_code == 200


@pytest.mark.parametrize(
    "header", ["Basic YTpi", "Bearer", "Bearer x", "nvt_1", "Bearer " + "é" * 55, "Bearer " + "a" * 9000]
)
def test_a_malformed_authorization_is_a_refusal(client: TestClient, header: str) -> None:
    answer = client.get("/api/v1/nodes", headers={b"Authorization": header.encode()})
    assert answer.status_code == 401
    assert answer.headers["www-authenticate"] == "Bearer"


def test_secrets_are_not_kept(client: TestClient, admin: dict[str, str], store: Store) -> None:
    made = client.post("/api/v1/tokens", json={"role": "agent", "cluster": "c", "node": "n7"}, headers=admin)
    secret = made.json()["secret"]
    store.database.close()
    folder = Path(str(store.database.engine.url.database)).parent
    kept = b"".join(p.read_bytes() for p in folder.iterdir())
    assert made.json()["prefix"].encode() in kept
    assert secret.encode() not in kept and secret[12:].encode() not in kept
    assert "secret" not in client.get("/api/v1/tokens", headers=admin).text


@pytest.mark.parametrize(
    "body",
    [
        {"role": "agent"},
        {"role": "agent", "cluster": "c"},
        {"role": "viewer", "cluster": "c", "node": "n1"},
        {"role": "root"},
        {"role": "agent", "cluster": "c", "node": "n1;reboot"},
        {"role": "viewer", "expires_at": "2001-01-01T00:00:00Z"},
        {"role": "viewer", "expires_at": "2101-01-01T00:00:00"},
        {"role": "viewer", "scops": ["read"]},
    ],
)
def test_tokens_that_do_not_fit_together_are_refused(
    client: TestClient, admin: dict[str, str], body: dict[str, object]
) -> None:
    answer = client.post("/api/v1/tokens", json=body, headers=admin)
    assert answer.status_code == 422
    assert answer.headers["content-type"] == "application/problem+json"
