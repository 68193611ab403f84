"""The REST client ends every exchange in time, with an answer or with one of four errors."""

from __future__ import annotations

import socket
import ssl
import threading
import time
from collections.abc import Iterator
from datetime import datetime, timezone

import pytest

from checks.wire import Batch, GateRequest, JobAttempt, PollRequest, Report
from daemon.central import BadAnswer, Central, CentralError, NotAllowed, Refused, Unreachable, part, tls_context
from tests.daemon.agent.central_server import Mode, Service

NOW = datetime(2026, 12, 1, tzinfo=timezone.utc)


@pytest.fixture
def service() -> Iterator[Service]:
    made = Service()
    yield made
    made.close()


def batch(count: int = 3) -> Batch:
    reports = tuple(
        Report(
            cluster="c", node="n1", incarnation="i", sequence=n + 1, occasion="interval", started_at=NOW, seconds=0.1
        )
        for n in range(count)
    )
    return Batch(cluster="c", node="n1", incarnation="i", reports=reports)


def test_a_batch_travels_packed_and_is_acknowledged(service: Service) -> None:
    central = Central(service.url, "tok")
    assert central.ingest(batch()).accepted == 3
    assert central.ingest(batch(5)).accepted == 5
    assert len(service.reports) == 8
    assert service.tokens == ["Bearer tok", "Bearer tok"]
    central.close()


def test_poll_and_gate_speak_the_wire(service: Service) -> None:
    central = Central(service.url, "tok")
    assert central.poll(PollRequest(cluster="c", node="n1", incarnation="i", wait=0.1)).orders == ()
    job = JobAttempt(job_id=7, restart_count=0)
    assert central.gate(GateRequest(cluster="c", node="n1", job=job)).complete
    central.close()


@pytest.mark.parametrize(
    ("mode", "kind"),
    [
        ("500", Unreachable),
        ("garbage", BadAnswer),
        ("hang", Unreachable),
        ("drip", Unreachable),
        ("forbidden", NotAllowed),
        ("close", Unreachable),
    ],
)
def test_trouble_has_a_name_and_an_end(service: Service, mode: Mode, kind: type[CentralError]) -> None:
    service.mode = mode
    central = Central(service.url, "tok", timeout=1.0)
    started = time.monotonic()
    with pytest.raises(kind):
        central.ingest(batch())
    assert time.monotonic() - started < 5
    central.close()


def test_a_kept_connection_that_the_server_closed_is_opened_again(service: Service) -> None:
    central = Central(service.url, "tok", timeout=3.0)
    central.ingest(batch())
    assert central._connection._sock is not None
    central._connection._sock.shutdown(socket.SHUT_RDWR)
    assert central.ingest(batch()).accepted == 3
    central.close()


def test_nobody_there_is_unreachable() -> None:
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        port = sock.getsockname()[1]
    with pytest.raises(Unreachable, match="refused"):
        Central(f"http://127.0.0.1:{port}", timeout=2.0).get("health", object)


@pytest.mark.parametrize("url", ["", "127.0.0.1:80", "ftp://x", "http://", "file:///etc/passwd"])
def test_an_address_must_be_one(url: str) -> None:
    with pytest.raises(Unreachable, match="http"):
        Central(url)


@pytest.mark.parametrize("host", ["central.example", "10.0.0.1", "[2001:db8::1]"])
def test_a_token_never_leaves_the_machine_unencrypted(host: str) -> None:
    with pytest.raises(NotAllowed, match="not encrypted"):
        Central(f"http://{host}:8080", "tok")
    Central(f"http://{host}:8080", "tok", plain=True)
    Central("http://[::1]:1", "tok")
    Central("http://localhost:1", "tok")


def test_certificates_and_names_are_proven(tmp_path: object) -> None:
    context = tls_context()
    assert context.verify_mode == ssl.CERT_REQUIRED
    assert context.check_hostname
    with pytest.raises(Unreachable, match="certificates"):
        tls_context("/no/such/file")


def test_a_service_that_is_no_tls_is_unreachable(service: Service) -> None:
    with pytest.raises(Unreachable):
        Central(service.url.replace("http:", "https:"), "tok", timeout=3.0).get("nodes", object)


def test_a_problem_document_becomes_the_refusal() -> None:
    body = b'{"type":"about:blank","title":"guard closed","status":409,"detail":"3 of 3 nodes are drained","x":1}'
    reply = b"HTTP/1.1 409 Conflict\r\nContent-Type: application/problem+json\r\nContent-Length: %d\r\n\r\n" % len(body)
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()

        def serve() -> None:
            sock, _ = listener.accept()
            with sock:
                sock.recv(65536)
                sock.sendall(reply + body)

        thread = threading.Thread(target=serve)
        thread.start()
        central = Central(f"http://127.0.0.1:{listener.getsockname()[1]}", timeout=5.0)
        with pytest.raises(Refused, match="3 of 3 nodes are drained") as caught:
            central.post("drains", {"node": "n1"}, object)
        thread.join()
        central.close()
    assert caught.value.problem.status == 409


def test_a_part_of_a_path_is_quoted() -> None:
    assert part("a/b c?d") == "a%2Fb%20c%3Fd"
