"""A user who may read nothing else is told what became of a job, and learns nothing about anybody's."""

from __future__ import annotations

from starlette.testclient import TestClient

from api.auth.grants import Grant
from api.store.store import Store
from checks.wire import Decision, JobAttempt
from tests.api.conftest import MakeToken
from tests.api.fakes import T0, batch, finding, report

REFUSED = Decision(verdict="faulty", wanted="refuse", allowed="refuse", codes=("gpu_lost",), reason="gpu_lost GPU 3")
JOB = JobAttempt(job_id=42, restart_count=0, uid=1001, nodes=1)


def bearer(token: MakeToken, *scopes: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {token(Grant(role='viewer', scopes=scopes))}"}  # type: ignore[arg-type]


def test_the_users_words_name_neither_code_nor_user(client: TestClient, store: Store, token: MakeToken) -> None:
    store.ingest(batch(report(0, finding(), occasion="prolog", job=JOB, decision=REFUSED)), T0)
    answer = client.get("/api/v1/words/jobs/42", headers=bearer(token, "jobs"))
    assert answer.status_code == 200
    (only,) = answer.json()["attempts"]
    assert only["text"].startswith("not started: node n1 was found faulty before the job began")
    assert "gpu_lost" not in answer.text and "1001" not in answer.text


def test_a_token_of_that_scope_reads_nothing_else(client: TestClient, store: Store, token: MakeToken) -> None:
    store.ingest(batch(report(0, finding(), occasion="prolog", job=JOB, decision=REFUSED)), T0)
    mine = bearer(token, "jobs")
    for path in (
        "jobs",
        "jobs/c/42",
        "jobs/c/42/explain",
        "jobs/c/42/facts",
        "nodes",
        "drains",
        "lemons",
        "operations",
    ):
        assert client.get(f"/api/v1/{path}", headers=mine).status_code == 403, path
    assert client.get("/api/v1/words/jobs/42", headers=bearer(token, "ack")).status_code == 403
    assert client.get("/api/v1/words/jobs/42", headers=bearer(token, "read")).status_code == 200


def test_a_job_nobody_heard_of_is_said_so(client: TestClient, token: MakeToken) -> None:
    answer = client.get("/api/v1/words/jobs/7", headers=bearer(token, "jobs"))
    assert answer.status_code == 404 and "nothing is known of job 7" in answer.json()["detail"]
