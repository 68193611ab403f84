"""ingest, poll, permits and gate: each reads one body, checks whom it speaks for, and answers one body."""

from __future__ import annotations

import asyncio
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Coroutine
from concurrent.futures import Executor
from functools import partial
from typing import Any, TypeVar

import msgspec
from starlette.datastructures import Headers
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from api.auth.principal import Principal
from api.hot.batch import open_batch, read_reports
from api.hot.body import check_kind, inflate, read
from api.metrics import Meters
from api.ports import ControllerPort
from api.settings import ServerSettings
from api.store.store import Store
from api.store.views import Stored
from checks.wire import BatchAnswer, GateAnswer, GateRequest, PermitRequest, PollAnswer, PollRequest

T = TypeVar("T")
LONGEST_WAIT = 60.0
LONGEST_GATE = 90.0
LONGEST_PERMIT = 10.0
LEAST_WAIT = 0.0


class Shared(msgspec.Struct, frozen=True):
    """What all hot routes hold; ``closing`` is set when the server stops, so that no poll delays it."""

    store: Store
    controller: ControllerPort
    settings: ServerSettings
    meters: Meters
    closing: asyncio.Event
    writers: Executor

    async def write(self, work: Callable[[], T]) -> T:
        """Write in the few threads kept for it: permits never queue behind reports, nor reports behind Slurm."""
        return await asyncio.get_running_loop().run_in_executor(self.writers, work)


class Hot(ABC):
    """One raw ASGI endpoint."""

    def __init__(self, shared: Shared) -> None:
        self.shared = shared

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Read, answer; refusals are raised and become problems outside."""
        principal: Principal = scope["state"]["principal"]
        zipped = check_kind(Headers(scope=scope))
        # Only an agent's body is worth reading; whether it speaks for itself is seen when it is.
        principal.need_any_agent()
        body = await read(receive)
        if zipped:
            body = await self.shared.write(partial(inflate, body, self.shared.settings.inflated_limit))
        answer = await self.answer(principal, body, receive)
        if answer is not None:
            reply = Response(msgspec.json.encode(answer), media_type="application/json")
            await reply(scope, receive, send)

    @abstractmethod
    async def answer(self, principal: Principal, body: bytes, receive: Receive) -> msgspec.Struct | None:
        """The answer, or None when nobody is there any more to hear it."""


class Ingest(Hot):
    """POST ingest."""

    async def answer(self, principal: Principal, body: bytes, receive: Receive) -> BatchAnswer:
        """Store a batch and wake the controller."""
        began = time.monotonic()
        stored, refused = await self.shared.write(partial(self._take, principal, body))
        self.shared.meters.ingested(len(stored.stored), stored.repeated, len(refused), time.monotonic() - began)
        if stored.stored:
            self.shared.controller.on_report(stored.stored[0].cluster, stored.stored[0].node)
        return BatchAnswer(accepted=stored.accepted, refused=refused)

    def _take(self, principal: Principal, body: bytes) -> tuple[Stored, tuple[int, ...]]:
        empty, raw = open_batch(body)
        principal.need_agent(empty.cluster, empty.node)
        batch, refused = read_reports(empty, raw)
        return self.shared.store.ingest(batch), refused


class Poll(Hot):
    """POST poll."""

    async def answer(self, principal: Principal, body: bytes, receive: Receive) -> PollAnswer | None:
        """Note the heartbeat and wait for orders, as long as the agent and the server are there."""
        request = msgspec.json.decode(body, type=PollRequest)
        principal.need_agent(request.cluster, request.node)
        controller, cluster, node = self.shared.controller, request.cluster, request.node
        await self.shared.write(partial(self.shared.store.touch, request))
        controller.done(request.done_orders)
        controller.remedy.heard(request)
        if request.leases is not None and cluster == self.shared.settings.cluster:
            controller.holds(node, request.leases)
        wait = _clamped(request.wait, LONGEST_WAIT)
        orders = await self._while_there(controller.orders(cluster, node, wait), receive)
        if orders is None and not self.shared.closing.is_set():
            return None
        return PollAnswer(
            orders=orders or (),
            limits=controller.limits(),
            leases=controller.leases_for(cluster, node),
            quiet=controller.quiet(cluster, node),
        )

    async def _while_there(self, work: Coroutine[Any, Any, T], receive: Receive) -> T | None:
        """The work's result; None when the agent left or the server stops before it is done."""
        waiting = asyncio.ensure_future(work)
        ends = [asyncio.ensure_future(_gone(receive)), asyncio.ensure_future(self.shared.closing.wait())]
        try:
            await asyncio.wait([waiting, *ends], return_when=asyncio.FIRST_COMPLETED)
            return waiting.result() if waiting.done() else None
        finally:
            for task in (waiting, *ends):
                task.cancel()


class Permits(Hot):
    """POST permits."""

    async def answer(self, principal: Principal, body: bytes, receive: Receive) -> msgspec.Struct:
        """Ask the controller; a permit under way is not given up when the agent leaves."""
        request = msgspec.json.decode(body, type=PermitRequest)
        principal.need_agent(request.cluster, request.node)
        request = msgspec.structs.replace(request, wait=_clamped(request.wait, LONGEST_PERMIT))
        answer = await self.shared.controller.permit(request)
        self.shared.meters.permit(granted=answer.granted)
        return answer


class GateRoute(Hot):
    """POST gate."""

    async def answer(self, principal: Principal, body: bytes, receive: Receive) -> GateAnswer:
        """Hand in one member's answer and give what the gate knows."""
        request = msgspec.json.decode(body, type=GateRequest)
        principal.need_agent(request.cluster, request.node)
        request = msgspec.structs.replace(request, wait=_clamped(request.wait, LONGEST_GATE))
        asked = asyncio.ensure_future(self.shared.controller.gate(request))
        closing = asyncio.ensure_future(self.shared.closing.wait())
        try:
            await asyncio.wait([asked, closing], return_when=asyncio.FIRST_COMPLETED)
            return asked.result() if asked.done() else GateAnswer(complete=False, why="server is stopping")
        finally:
            closing.cancel()
            asked.cancel()


KINDS: dict[str, type[Hot]] = {"ingest": Ingest, "poll": Poll, "permits": Permits, "gate": GateRoute}


def hot_routes(shared: Shared) -> list[Route]:
    """The raw routes, for the application's router."""
    return [Route(f"/api/v1/{name}", kind(shared), methods=["POST"]) for name, kind in KINDS.items()]


async def _gone(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        continue


def _clamped(wait: float, most: float) -> float:
    # A wait that is no number compares false and becomes none.
    return min(wait, most) if wait > LEAST_WAIT else LEAST_WAIT
