"""What waits at the server ends when either side leaves."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import MutableMapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import msgspec
import pytest

from api.app import create_app
from api.auth.grants import Grant
from api.settings import ServerSettings
from api.store.store import Store
from checks.wire import GateAnswer, GateRequest, JobAttempt, PollRequest
from tests.api.conftest import MakeToken
from tests.api.fakes import FakeController

# An ASGI exchange by hand, since the client cannot leave in the middle of one.


POLL = PollRequest(cluster="c", node="n1", incarnation="boot-a", wait=0.0)
OTHER = msgspec.structs.replace(POLL, node="n2")


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


@pytest.mark.parametrize(("body", "status"), [(POLL, 200), (OTHER, 403)])
def test_agents_are_answered_while_a_slow_slurm_holds_all_other_threads(
    store: Store, token: MakeToken, body: PollRequest, status: int
) -> None:
    secret = token(Grant(role="agent", cluster="c", node="n1"))

    async def crowded() -> Wire:
        freed = threading.Event()
        loop = asyncio.get_running_loop()
        loop.set_default_executor(ThreadPoolExecutor(1))
        held = loop.run_in_executor(None, freed.wait, 60)
        wire = Wire("/api/v1/poll", secret, msgspec.json.encode(body))
        app = create_app(store, FakeController(), ServerSettings(cluster="c"))
        try:
            await asyncio.wait_for(app(wire.scope, wire.receive, wire.send), 20)
            assert not held.done()
        finally:
            freed.set()
            await held
        return wire

    assert asyncio.run(crowded()).sent[0]["status"] == status
