"""The agent's view of the central service: reports go out, orders come in, and nobody waits longer than it says."""

from __future__ import annotations

import asyncio
import logging
import random
import time
from collections.abc import Awaitable, Callable
from typing import TypeVar

import msgspec

from checks.wire import (
    PROTOCOL,
    BatchAnswer,
    GateAnswer,
    GateRequest,
    PermitAnswer,
    PermitRequest,
    PollAnswer,
    PollRequest,
)
from daemon.agent.channel import Channel, ChannelClosed
from daemon.agent.frames import Frame
from daemon.agent.identity import Identity
from daemon.agent.loose import Loose
from daemon.agent.nursery import Nursery
from daemon.outbox.outbox import Batch, Outbox
from daemon.uplink.worker import Address

log = logging.getLogger(__name__)
T = TypeVar("T")
INGEST_WITHIN = 20.0
GRACE = 1.0  # beyond a question's own limit: who then has not answered hangs
LONGEST_PAUSE = 60.0
REPLACE_AFTER = 10.0


class UplinkError(Exception):
    """The central service gave no answer to this; ``kind`` says whose word it was."""

    def __init__(self, kind: str, text: str) -> None:
        super().__init__(text)
        self.kind = kind


class Uplink:
    """Asks through a worker process and replaces one that hangs; two tasks of its own send reports and poll."""

    def __init__(
        self,
        nursery: Nursery,
        address: Address,
        identity: Identity,
        outbox: Outbox,
        heartbeat: Callable[[], PollRequest],
        on_poll: Callable[[PollAnswer], Awaitable[None]],
    ) -> None:
        self.state = "not configured" if not address.url else "starting"
        self.since = time.monotonic()
        self.last_error = ""
        self.replaced = 0
        self._nursery, self._address, self._identity, self._outbox = nursery, address, identity, outbox
        self._heartbeat, self._on_poll = heartbeat, on_poll
        self._channel: Channel | None = None
        self._pid = 0
        self._start_at = 0.0
        self._starting = asyncio.Lock()
        self._tasks: list[asyncio.Task[None]] = []
        self._loose = Loose()

    def start(self) -> None:
        """Begin to send and to poll; without an address nothing is ever asked."""
        if self._address.url and not self._tasks:
            self._tasks = [asyncio.ensure_future(self._send_reports()), asyncio.ensure_future(self._poll())]

    async def stop(self, flush: float = 1.0) -> None:
        """Send what waits, for at most ``flush`` seconds, and end the worker."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        if self._address.url and self.connected:
            try:
                await asyncio.wait_for(self._send_all(), flush)
            except (UplinkError, asyncio.TimeoutError):
                log.info("event=reports_left waiting=%d", self._outbox.waiting)
        if self._channel is not None:
            self._channel.close()

    @property
    def connected(self) -> bool:
        """Whether the last exchange succeeded."""
        return self.state == "connected"

    async def permit(self, request: PermitRequest, timeout: float) -> PermitAnswer:
        """Ask for the right to refuse once, within ``timeout`` seconds; raises UplinkError."""
        return await self.ask("permit", request, PermitAnswer, timeout)

    async def gate(self, request: GateRequest, timeout: float) -> GateAnswer:
        """Tell the job's gate our answer and, as its holder, wait for the others; raises UplinkError."""
        return await self.ask("gate", request, GateAnswer, timeout)

    async def ask(self, op: str, body: object, answer: type[T], timeout: float) -> T:
        """One question with a whole deadline; raises UplinkError."""
        if not self._address.url:
            raise UplinkError("not_configured", "no central service is configured")
        started = time.monotonic()
        try:
            channel = await asyncio.wait_for(self._worker(), timeout)
        except (OSError, asyncio.TimeoutError) as error:
            raise self._noted(UplinkError("unreachable", f"uplink worker: {error or 'did not start'}")) from error
        left = max(0.01, timeout - (time.monotonic() - started))
        encoded = body if isinstance(body, bytes) else msgspec.json.encode(body)
        request = channel.request(op, number=left, body=encoded)
        done, _ = await asyncio.wait({request}, timeout=left)
        if not done:
            self._loose.spawn(self._watch(channel, request))
            raise self._noted(UplinkError("unreachable", f"{op} was not answered within {timeout:.3g} s"))
        return self._taken(request, answer)

    def _taken(self, request: asyncio.Future[Frame], answer: type[T]) -> T:
        """What came back as a value, or the error it stands for."""
        try:
            frame = request.result()
            if frame.op != "ok":
                raise self._noted(UplinkError(frame.op, frame.text))
            value = msgspec.json.decode(frame.body, type=answer)
        except ChannelClosed as error:
            raise self._noted(UplinkError("unreachable", str(error))) from error
        except msgspec.MsgspecError as error:
            raise self._noted(UplinkError("bad_answer", str(error))) from error
        if not self.connected:
            log.warning("event=central_reached url=%s", self._address.url)
            self.state, self.since, self.last_error = "connected", time.monotonic(), ""
        return value

    def _noted(self, error: UplinkError) -> UplinkError:
        if self.state != error.kind:
            log.error("event=central_away kind=%s error=%r", error.kind, str(error))
            self.state, self.since = error.kind, time.monotonic()
        self.last_error = str(error)
        return error

    async def _watch(self, channel: Channel, request: asyncio.Future[Frame]) -> None:
        """A worker that does not even say that the time is over hangs: another one in its place."""
        done, _ = await asyncio.wait({request}, timeout=GRACE)
        if done:
            request.exception()
        elif channel is self._channel:
            await self._replace("worker hangs")

    async def _replace(self, why: str) -> None:
        if self._channel is not None:
            log.error("event=uplink_replaced pid=%d why=%r", self._pid, why)
            self._channel.close()
            self._nursery.kill(self._pid)
            self._channel = None
            self.replaced += 1

    async def _worker(self) -> Channel:
        """The worker's channel; a new worker at most every REPLACE_AFTER seconds."""
        async with self._starting:
            if self._channel is not None and self._channel.open:
                return self._channel
            if time.monotonic() < self._start_at:
                raise ChannelClosed("worker ended and is not started again yet")
            self._start_at = time.monotonic() + REPLACE_AFTER
            self._pid, sock = self._nursery.spawn("uplink")
            channel = await Channel.over(sock)
            answer = await channel.call("configure", body=msgspec.msgpack.encode(self._address), timeout=5.0)
            if answer.op != "ok":
                channel.close()
                raise ChannelClosed(answer.text)
            self._channel = channel
            return channel

    async def _send_reports(self) -> None:
        pause = Pause()
        while True:
            try:
                await self._send_all()
                pause.reset()
                await self._outbox.changed.wait()
            except UplinkError as error:
                if error.kind == "not_allowed":
                    await self._replace("token is read again")
                await pause.wait()

    async def _send_all(self) -> None:
        """Hand in batches until nothing waits."""
        while (batch := await self._outbox.next_batch()) is not None:
            await self._send(batch)

    async def _send(self, batch: Batch) -> None:
        me = self._identity
        body = msgspec.json.encode(
            RawBatch(me.cluster, me.node, batch.incarnation, tuple(msgspec.Raw(raw) for _, raw in batch.reports))
        )
        try:
            answer = await self.ask("ingest", body, BatchAnswer, INGEST_WITHIN)
        except UplinkError as error:
            if error.kind != "refused":
                raise
            # Not to be repeated: the service has understood it and will never take it.
            log.error("event=batch_refused incarnation=%s upto=%d error=%r", batch.incarnation, batch.last, str(error))
            answer = BatchAnswer(accepted=batch.last)
        if answer.refused:
            log.error("event=reports_refused sequences=%s", ",".join(map(str, answer.refused[:20])))
        upto = max([answer.accepted, *answer.refused])
        if upto < batch.reports[0][0]:
            raise self._noted(UplinkError("bad_answer", f"ingest accepted up to {upto} of {batch.reports[0][0]}"))
        self._outbox.acknowledge(batch, upto)

    async def _poll(self) -> None:
        pause = Pause()
        while True:
            request = self._heartbeat()
            started = time.monotonic()
            try:
                answer = await self.ask("poll", request, PollAnswer, request.wait + INGEST_WITHIN)
            except UplinkError:
                await pause.wait()
                continue
            pause.reset()
            await self._on_poll(answer)
            if time.monotonic() - started < 1.0 and not answer.orders:
                # A service that answers an empty poll at once must not make us ask all the time.
                await pause.wait()


class RawBatch(msgspec.Struct, frozen=True):
    """A wire Batch whose reports are encoded already."""

    cluster: str
    node: str
    incarnation: str
    reports: tuple[msgspec.Raw, ...]
    protocol: int = PROTOCOL


class Pause:
    """Waits longer after each failure, with jitter, so that a returning service is not run over."""

    def __init__(self, first: float = 1.0, longest: float = LONGEST_PAUSE) -> None:
        self._first, self._longest = first, longest
        self._next = first

    def reset(self) -> None:
        """Begin again with short pauses."""
        self._next = self._first

    async def wait(self) -> None:
        """Sleep between half and one and a half of the present pause and double it."""
        seconds, self._next = self._next * random.uniform(0.5, 1.5), min(self._longest, self._next * 2)
        await asyncio.sleep(seconds)
