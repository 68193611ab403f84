"""Whatever an agent sends is answered without an error of ours, and what was stored of it can be read by everybody."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient

from api.app import create_app
from api.settings import ServerSettings
from tests.api.conftest import MakeToken
from tests.api.controller.fake_slurm import Bench, bench

JSON = {"Content-Type": "application/json"}
BIG: dict[str, str] = {
    "int64": "9223372036854775807",
    "int65": "18446744073709551616",
    "long": "1" + "0" * 400,
    "float": "1e308",
    "infinite": "1e400",
    "negative": "-1",
    "zero": "-0.0",
    "null": "null",
    "true": "true",
    "list": "[]",
    "object": "{}",
    "deep": "[" * 3000 + "]" * 3000,
    "nul": '"a\\u0000b"',
    "surrogate": '"\\ud800"',
    "pair": '"\\ud83d\\ude00"',
    "lines": '"a\\r\\nb\\u2028c\\u202e"',
    "markup": '"<script>alert(1)</script>\' OR 1=1 --"',
    "empty": '""',
    "large": '"' + "x" * 30_000 + '"',
    "date": '"2026-12-01T09:00:00"',
    "early": '"0001-01-01T00:00:00Z"',
    "late": '"9999-12-31T23:59:59-23:59"',
    "name": '"../../etc/passwd"',
}
FINDING = (
    '{"check":@check@,"target":@target@,"status":"fail","code":@code@,"blame":"node","message":@message@,'
    '"evidence":{"v":@evidence@},"observed_at":@observed@,"since":@since@,"seen":@seen@}'
)
JOB = (
    '{"job_id":@job@,"restart_count":@restart@,"uid":@uid@,"partition":@partition@,"nodes":@nodes@,'
    '"nodelist":@nodelist@,"gpu_minors":[@minor@]}'
)
DECISION = '{"verdict":"faulty","wanted":"refuse","allowed":"refuse","codes":[@codes@],"reason":@reason@,"why":@why@}'
BODIES = {
    "ingest": '{"cluster":"sim","node":"n2","incarnation":@incarnation@,"reports":[{"cluster":"sim","node":"n2",'
    '"incarnation":@incarnation@,"sequence":@sequence@,"occasion":"prolog","started_at":@started@,"seconds":@seconds@,'
    f'"findings":[{FINDING}],"decision":{DECISION},"job":{JOB},"boot_id":@boot@,"facts":{{"gpus":[@gpu@]}},'
    '"notes":[@note@]}]}',
    "permits": f'{{"cluster":"sim","node":"n2","incarnation":@incarnation@,"job":{JOB},"decision":{DECISION},'
    f'"findings":[{FINDING}],"lease":@lease@,"wait":@wait@}}',
    "gate": f'{{"cluster":"sim","node":"n2","job":{JOB},"members":[@member@],"answer":"refuse","hold":@hold@,'
    '"wait":@wait@}',
    "poll": '{"cluster":"sim","node":"n2","incarnation":@incarnation@,"boot_id":@boot@,"done_orders":[@done@],'
    '"wedged_lanes":[@lane@],"outbox_waiting":@waiting@,"wait":@wait@}',
}
GOOD = {
    "check": '"gpu_health"', "target": '"GPU 3"', "code": '"gpu_lost"', "message": '"gone"', "evidence": "1",
    "observed": '"@now@"', "since": '"@now@"', "seen": "1", "job": "7", "restart": "0", "uid": "1", "minor": "0",
    "partition": '"main"', "nodes": "1", "nodelist": '"n2"', "codes": '"gpu_lost"', "reason": '"gone"', "why": '""',
    "incarnation": '"a"', "sequence": "1", "started": '"@now@"', "seconds": "0.1", "boot": '"b"', "gpu": '"GPU-1"',
    "note": '"n"', "lease": "null", "wait": "0.0", "member": '"n1"', "hold": "false", "done": '"o"', "lane": '"l"',
    "waiting": "0",
}  # fmt: skip
PAGES = (
    "nodes", "nodes/sim/n2", "nodes/sim/n2/findings", "nodes/sim/n2/reports", "nodes/sim/n2/changes", "findings",
    "jobs", "reports/1", "incidents", "drains", "audit", "coverage", "policy", "tokens",
)  # fmt: skip


def body(b: Bench, kind: str, field: str, value: str) -> str:
    text = BODIES[kind]
    for name, good in GOOD.items():
        text = text.replace(f"@{name}@", value if name == field else good)
    return text.replace("@now@", b.now().isoformat())


def fields(kind: str) -> list[str]:
    return [name for name in GOOD if f"@{name}@" in BODIES[kind]]


@pytest.fixture
def real(tmp_path: Path) -> Iterator[Bench]:
    with bench(tmp_path) as made:
        yield made


@pytest.fixture
def app(real: Bench) -> Iterator[TestClient]:
    settings = ServerSettings(cluster="sim")
    with TestClient(
        create_app(real.store, real.control, settings), base_url="http://localhost", raise_server_exceptions=False
    ) as made:
        yield made


def header(real: Bench, role: str) -> dict[str, str]:
    from api.auth.grants import Grant, token_of

    bound = {"cluster": "sim", "node": "n2"} if role == "agent" else {}
    grant = Grant(role=role, **bound)  # type: ignore[arg-type]
    return {"Authorization": f"Bearer {real.store.create_token(token_of(grant, 'test'))[1]}"}


@pytest.mark.parametrize("kind", BODIES)
def test_any_value_in_any_field_is_answered_and_readable(real: Bench, app: TestClient, kind: str) -> None:
    agent, admin = header(real, "agent"), header(real, "admin")
    assert app.post(f"/api/v1/{kind}", content=body(real, kind, "", ""), headers={**agent, **JSON}).status_code == 200
    for field in fields(kind):
        for name, value in BIG.items():
            if field in ("wait", "hold") and name in ("float", "int64", "int65", "true", "long"):
                continue
            content = body(real, kind, field, value).encode()
            answer = app.post(f"/api/v1/{kind}", content=content, headers={**agent, **JSON})
            assert answer.status_code in (200, 422), (field, name, answer.text[:300])
    for page in PAGES:
        found = app.get(f"/api/v1/{page}", headers=admin)
        assert found.status_code in (200, 404), (page, found.text[:300])
        json.loads(found.content)
    assert app.get("/metrics", headers=admin).status_code == 200


def test_a_controller_over_a_poisoned_store_goes_on(real: Bench, app: TestClient) -> None:
    agent = header(real, "agent")
    for number, field in enumerate(fields("ingest")):
        for place, value in enumerate(BIG.values()):
            text = body(real, "ingest", field, value)
            text = text if field == "sequence" else text.replace('"sequence":1,', f'"sequence":{number * 100 + place},')
            app.post("/api/v1/ingest", content=text.encode(), headers={**agent, **JSON})
    real.report("n3", real.lost(code="ecc_old"))
    app.portal.call(real.tick)  # type: ignore[union-attr]
    assert ("", "controller_error") not in real.incidents()
    assert real.slurm.table["n3"].out_of_service


SECRET = "nvt_" + "0123abcd" + "S" * 43


@pytest.mark.parametrize(
    "header_value",
    [
        f"Bearer {SECRET}",
        SECRET,
        f"Basic {SECRET}",
        f"bearer  {SECRET}  ",
        f"Bearer {SECRET}\u00e9",
        "Bearer " + "S" * 9000,
    ],
)
def test_a_secret_reaches_neither_log_nor_audit(
    real: Bench, app: TestClient, header_value: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    answer = app.get("/api/v1/nodes", headers={b"Authorization": header_value.encode("latin-1")})
    assert answer.status_code in (401, 429)
    kept = caplog.text + answer.text + str([a.detail + a.subject + a.actor for a in real.store.audit_log()])
    assert SECRET not in kept and "S" * 20 not in kept


def test_another_nodes_orders_and_leases_stay_its_own(real: Bench, app: TestClient, token: MakeToken) -> None:
    agent = header(real, "agent")
    for kind in BODIES:
        foreign = body(real, kind, "", "").replace('"node":"n2"', '"node":"n3"')
        answer: Any = app.post(f"/api/v1/{kind}", content=foreign, headers={**agent, **JSON})
        assert answer.status_code == 403, kind
    assert real.slurm.writes == []
