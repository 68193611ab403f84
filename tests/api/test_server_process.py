"""The real command: tokens made on the command line open a real server, which ends when told to."""

from __future__ import annotations

import json
import os
import re
import signal
import stat
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from api.store.database import Database
from api.store.store import Store
from checks.wire import Batch, PollRequest
from daemon.central import Central, NotAllowed, Unreachable
from tests.api.fakes import batch, finding, report

ROOT = Path(__file__).parents[2]
DEADLINE = 60.0


class Server:
    """One server process and its log."""

    def __init__(self, folder: Path, *flags: str) -> None:
        self.log = folder / "log"
        self.db = f"sqlite:///{folder}/db/server.db"
        argv = [sys.executable, "-m", "daemon", "server", "--db", self.db, "--cluster", "c", "--port", "0", *flags]
        with self.log.open("wb") as log:
            self.process = subprocess.Popen(argv, cwd=ROOT, stderr=log, stdout=log, env=environment(folder))

    def url(self) -> str:
        """Where it listens, once it does."""
        until = time.monotonic() + DEADLINE
        while time.monotonic() < until and self.process.poll() is None:
            if match := re.search(r"listening on (\S+)", self.log.read_text()):
                return match[1]
            time.sleep(0.05)
        raise AssertionError(f"server did not start: {self.log.read_text()}")

    def stop(self, number: int) -> int:
        """Signal it and wait; its exit code."""
        self.process.send_signal(number)
        return self.process.wait(DEADLINE)

    def end(self) -> None:
        """Make sure that it is gone."""
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()


def environment(folder: Path) -> dict[str, str]:
    # Without Slurm commands in reach the server must work, only without draining.
    return {"PATH": str(folder), "LC_ALL": "C.UTF-8", "SLURM_CONF": str(folder / "absent.conf")}


def nodevet(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    argv = [sys.executable, "-m", "daemon", *arguments]
    return subprocess.run(
        argv, cwd=ROOT, capture_output=True, text=True, env=environment(folder), timeout=DEADLINE, check=False
    )


def get(url: str, token: str = "") -> Any:
    request = urllib.request.Request(url, headers={"Authorization": f"Bearer {token}"} if token else {})
    with urllib.request.urlopen(request, timeout=DEADLINE) as answer:
        return json.load(answer)


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    made = Server(tmp_path)
    yield made
    made.end()


def make_token(server: Server, folder: Path, *arguments: str) -> str:
    done = nodevet(folder, "token", "create", "--db", server.db, *arguments)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_it_serves_and_ends_cleanly_with_a_poll_open(server: Server, tmp_path: Path, number: int) -> None:
    url = server.url()
    admin = make_token(server, tmp_path, "--role", "admin")
    agent = make_token(server, tmp_path, "--role", "agent", "--cluster", "c", "--node", "n1")
    central = Central(url, agent)
    assert central.ingest(batch(report(1, finding()))).accepted == 1
    assert central.poll(PollRequest(cluster="c", node="n1", incarnation="boot-a", wait=0.0)).limits is not None
    with pytest.raises(NotAllowed, match="speaks for n2"):
        central.ingest(Batch(cluster="c", node="n2", incarnation="x", reports=()))
    central.close()
    assert [n["node"] for n in get(f"{url}/api/v1/nodes", admin)["items"]] == ["n1"]
    assert get(f"{url}/api/v1/ready")["status"] == "ok"
    waiting = subprocess.Popen([sys.executable, "-c", _POLL, url, agent], cwd=ROOT)
    await_incarnation(server.db, "polling")
    began = time.monotonic()
    assert server.stop(number) == 0
    assert time.monotonic() - began < 30
    assert waiting.wait(DEADLINE) == 0
    log = server.log.read_text()
    assert "stopped" in log and "Traceback" not in log


_POLL = """
import sys
from checks.wire import PollRequest
from daemon.central import Central
answer = Central(sys.argv[1], sys.argv[2]).poll(PollRequest(cluster="c", node="n1", incarnation="polling", wait=60.0))
sys.exit(0 if answer.orders == () else 1)
"""


def await_incarnation(url: str, name: str) -> None:
    """Return once the node's poll has come in."""
    store, until = Store(Database(url)), time.monotonic() + DEADLINE
    try:
        while [r.incarnation for r in store.node_rows()] != [name]:
            assert time.monotonic() < until, "poll did not come in"
            time.sleep(0.05)
    finally:
        store.database.close()


def test_a_second_server_on_one_database_is_refused(server: Server, tmp_path: Path) -> None:
    server.url()
    second = nodevet(tmp_path, "server", "--db", server.db, "--cluster", "c", "--port", "0")
    assert second.returncode == 1
    assert "in use by another server" in second.stderr


def test_files_are_for_the_owner_only(server: Server, tmp_path: Path) -> None:
    server.url()
    secret = tmp_path / "secret"
    done = nodevet(tmp_path, "token", "create", "--db", server.db, "--role", "viewer", "--out", str(secret))
    assert done.returncode == 0 and done.stdout == ""
    again = nodevet(tmp_path, "token", "create", "--db", server.db, "--role", "viewer", "--out", str(secret))
    assert again.returncode == 64 and "File exists" in again.stderr
    files = [secret, *(tmp_path / "db").iterdir()]
    assert {stat.S_IMODE(os.stat(f).st_mode) for f in files} == {0o600}
    assert stat.S_IMODE(os.stat(tmp_path / "db").st_mode) == 0o700


def test_tokens_are_listed_and_revoked_by_prefix(server: Server, tmp_path: Path) -> None:
    url = server.url()
    secret = make_token(server, tmp_path, "--role", "viewer", "--label", "wall screen", "--expires", "90d")
    assert get(f"{url}/api/v1/nodes", secret) == {"items": [], "next": None}
    listed = nodevet(tmp_path, "token", "list", "--db", server.db)
    assert "wall screen" in listed.stdout and secret[:12] in listed.stdout and secret not in listed.stdout
    assert nodevet(tmp_path, "token", "revoke", "--db", server.db, secret[:12]).returncode == 0
    assert nodevet(tmp_path, "token", "revoke", "--db", server.db, secret[:12]).returncode == 1
    assert "revoked" in nodevet(tmp_path, "token", "list", "--db", server.db).stdout
    until = time.monotonic() + DEADLINE
    with pytest.raises(urllib.error.HTTPError, match="401"):
        while time.monotonic() < until:
            get(f"{url}/api/v1/nodes", secret)
            time.sleep(0.2)
    audit = Store(Database(server.db))
    assert [a.action for a in audit.audit_log()][-2:] == ["token revoked", "token created"]
    audit.database.close()


def test_a_certificate_that_is_not_there_is_said_so(tmp_path: Path) -> None:
    certificate = ("--tls-cert", "/absent", "--tls-key", "/absent")
    done = nodevet(
        tmp_path, "server", "--cluster", "c", "--db", f"sqlite:///{tmp_path}/x.db", "--port", "0", *certificate
    )
    assert (done.returncode, "certificate /absent" in done.stderr) == (1, True), done.stderr


def test_agents_prove_the_servers_certificate(tmp_path: Path) -> None:
    certificate, key = ROOT / "tests/api/data/test-cert.pem", ROOT / "tests/api/data/test-key.pem"
    server = Server(tmp_path, "--tls-cert", str(certificate), "--tls-key", str(key))
    try:
        url = server.url()
        agent = make_token(server, tmp_path, "--role", "agent", "--cluster", "c", "--node", "n1")
        proven = Central(url, agent, str(certificate))
        assert proven.ingest(batch(report(1, finding()))).accepted == 1
        proven.close()
        with pytest.raises(Unreachable, match="certificate"):
            Central(url, agent).ingest(batch(report(2, finding())))
        assert server.stop(signal.SIGTERM) == 0
    finally:
        server.end()
