"""The agent's view of its outbox: reports are taken at once, held in bounded memory, and written by a process aside."""

from __future__ import annotations

import asyncio
import logging
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import msgspec

from checks.wire import Report
from daemon.agent.channel import Channel, ChannelClosed
from daemon.agent.frames import Frame
from daemon.agent.loose import Loose
from daemon.agent.nursery import Nursery
from daemon.outbox.writer import Opening

log = logging.getLogger(__name__)
MEMORY_BYTES = 2 * 1024 * 1024
BATCH_REPORTS = 200
BATCH_BYTES = 256 * 1024
HUNG_AFTER = 3.0
RESTART_AFTER = 10.0
DURABLE_WITHIN = 1.0


@dataclass(slots=True)
class _Held:
    """One report in memory until the server has it; ``written`` once the disk has it too."""

    payload: bytes
    keep: bool
    written: bool = False
    asked_at: float = 0.0


@dataclass(frozen=True, slots=True)
class Batch:
    """Some unacknowledged reports of one incarnation, encoded."""

    incarnation: str
    reports: tuple[tuple[int, bytes], ...]

    @property
    def last(self) -> int:
        """The highest sequence of the batch."""
        return self.reports[-1][0]


class Outbox:
    """Reports in rising sequence; a disk that hangs, fills up or vanishes costs memory only, never an answer.

    ``changed`` is set whenever something new waits to be sent.
    """

    def __init__(self, nursery: Nursery, root: Path, incarnation: str) -> None:
        self.incarnation = incarnation
        self.changed = asyncio.Event()
        self.opening = Opening()
        self._lost_in_memory = self._lost_on_disk = 0
        self.trouble = ""
        self.on_trouble: Callable[[], None] = lambda: None
        self._nursery, self._root = nursery, root
        self._channel: Channel | None = None
        self._sequence = 0
        self._held: OrderedDict[int, _Held] = OrderedDict()
        self._bytes = 0
        self._spilled_to = 0
        self._acknowledged = 0
        self._earlier: list[str] = []
        self._read_after: dict[str, int] = {}
        self._oldest_call: dict[int, float] = {}
        self._calls = 0
        self._restart_at = 0.0
        self._loose = Loose()
        self._opened: asyncio.Task[None] | None = None

    async def open(self, timeout: float = 2.0) -> None:
        """Start the outbox process and learn what earlier incarnations left; a failure is remembered, not raised."""
        self._opened = asyncio.ensure_future(self._open(timeout))
        await asyncio.shield(self._opened)

    async def _open(self, timeout: float) -> None:
        try:
            pid, sock = self._nursery.spawn("outbox")
            self._channel = await Channel.over(sock)
            log.debug("event=outbox_started pid=%d", pid)
            frame = await self._ask("open", f"{self._root}\n{self.incarnation}", timeout=timeout)
            self.opening = msgspec.msgpack.decode(frame.body, type=Opening)
            self._earlier = list(self.opening.earlier)
            self.trouble = ""
            self.changed.set()
        except (OSError, TimeoutError, msgspec.MsgspecError) as error:
            self._failed(error)

    @property
    def waiting(self) -> int:
        """How many reports are known to wait for the server."""
        spilled = max(0, self._spilled_to - self._acknowledged)
        return len(self._held) + spilled + (self.opening.waiting if self._earlier else 0)

    @property
    def lost(self) -> int:
        """How many reports were dropped because memory or the bound on disk was full."""
        return self._lost_in_memory + self._lost_on_disk

    @property
    def hung(self) -> float:
        """Seconds for which the disk has owed an answer, 0 when it does not."""
        oldest = min(self._oldest_call.values(), default=None)
        waited = 0.0 if oldest is None else time.monotonic() - oldest
        return waited if waited > HUNG_AFTER else 0.0

    def add(self, report: Report) -> asyncio.Task[bool]:
        """Take a report (its sequence is given here); the task ends with whether it is on disk.

        A report that wants a refusal is written through at once, any other within a second.
        """
        self._sequence += 1
        stamped = msgspec.structs.replace(report, sequence=self._sequence, incarnation=self.incarnation)
        keep = stamped.decision is not None and stamped.decision.wanted == "refuse" and stamped.occasion == "prolog"
        held = _Held(msgspec.json.encode(stamped), keep)
        self._held[self._sequence] = held
        self._bytes += len(held.payload)
        self._bound_memory()
        self.changed.set()
        return self._loose.spawn(self._write(self._sequence, held))

    async def durable(self, report: Report, timeout: float = DURABLE_WITHIN) -> bool:
        """Take a report and wait until it is on disk, at most ``timeout`` seconds."""
        task = self.add(report)
        done, _ = await asyncio.wait({task}, timeout=timeout)
        if not done:
            self._failed(TimeoutError(f"state directory did not take a report within {timeout:g} s"))
        return bool(done) and task.result()

    async def put(self, name: str, data: bytes, timeout: float = DURABLE_WITHIN) -> bool:
        """Keep a small document across restarts."""
        try:
            await self._ask("put", name, body=data, timeout=timeout)
        except (OSError, TimeoutError) as error:
            self._failed(error)
            return False
        return True

    async def next_batch(self) -> Batch | None:
        """The next reports to send: earlier incarnations, then ours from disk, then ours from memory."""
        self.changed.clear()
        while self._earlier and not self.hung:
            batch = await self._from_disk(self._earlier[0], self._read_after.get(self._earlier[0], 0))
            if batch is not None:
                return batch
            self._read_after.pop(self._earlier.pop(0), None)
        if self._spilled_to > self._acknowledged and not self.hung:
            batch = await self._from_disk(self.incarnation, self._acknowledged, upto=self._spilled_to)
            if batch is not None:
                return batch
            self._acknowledged = self._spilled_to
        return self._from_memory()

    async def _from_disk(self, incarnation: str, after: int, upto: int = 2**63) -> Batch | None:
        try:
            frame = await self._ask("read", incarnation, number=after, timeout=HUNG_AFTER)
            found = msgspec.msgpack.decode(frame.body, type=list[tuple[int, bytes]])
        except (OSError, TimeoutError, msgspec.MsgspecError) as error:
            self._failed(error)
            return None
        found = [item for item in found if item[0] <= upto]
        return Batch(incarnation, tuple(found[:BATCH_REPORTS])) if found else None

    def _from_memory(self) -> Batch | None:
        taken: list[tuple[int, bytes]] = []
        size = 0
        for sequence, held in self._held.items():
            if len(taken) >= BATCH_REPORTS or (taken and size + len(held.payload) > BATCH_BYTES):
                break
            taken.append((sequence, held.payload))
            size += len(held.payload)
        return Batch(self.incarnation, tuple(taken)) if taken else None

    def acknowledge(self, batch: Batch, accepted: int) -> None:
        """The server has stored everything of that incarnation up to ``accepted``."""
        upto = min(accepted, batch.last)
        if batch.incarnation == self.incarnation:
            self._acknowledged = max(self._acknowledged, upto)
            for sequence in [s for s in self._held if s <= upto]:
                self._bytes -= len(self._held.pop(sequence).payload)
        else:
            self._read_after[batch.incarnation] = max(self._read_after.get(batch.incarnation, 0), upto)
        self._loose.spawn(self._tell_disk(batch.incarnation, upto))

    async def _tell_disk(self, incarnation: str, upto: int) -> None:
        try:
            await self._ask("acknowledge", incarnation, number=upto, timeout=60.0)
        except (OSError, TimeoutError) as error:
            self._failed(error)

    async def _write(self, sequence: int, held: _Held) -> bool:
        if self._opened is not None:
            await asyncio.shield(self._opened)
        if self._channel is None or not self._channel.open:
            await self._restart()
        watch = asyncio.get_running_loop().call_later(HUNG_AFTER + 0.1, lambda: self.on_trouble())
        try:
            await self._ask("keep" if held.keep else "append", number=sequence, body=held.payload, timeout=600.0)
        except (OSError, TimeoutError) as error:
            self._failed(error)
            return False
        finally:
            watch.cancel()
        held.written = True
        if self.trouble:
            log.warning("event=outbox_well_again after=%r", self.trouble)
            self.trouble = ""
            self.on_trouble()
        return True

    async def _restart(self) -> None:
        """Another outbox process in the place of one that died, but not one after the other."""
        if time.monotonic() < self._restart_at:
            return
        self._restart_at = time.monotonic() + RESTART_AFTER
        log.error("event=outbox_restart trouble=%r", self.trouble)
        await self.open()

    async def _ask(self, op: str, text: str = "", *, number: float = 0, body: bytes = b"", timeout: float) -> Frame:
        if self._channel is None:
            raise ChannelClosed("outbox process is not running")
        self._calls += 1
        call = self._calls
        self._oldest_call[call] = time.monotonic()
        request = self._channel.request(op, text=text, number=number, body=body)
        request.add_done_callback(lambda _: self._oldest_call.pop(call, None))
        done, _ = await asyncio.wait({request}, timeout=timeout)
        if not done:
            raise TimeoutError(f"state directory did not answer {op} within {timeout:g} s")
        frame = request.result()
        if frame.op == "error":
            raise OSError(frame.text)
        if op in ("append", "keep"):
            self._lost_on_disk = int(frame.number)
        return frame

    def _failed(self, error: Exception) -> None:
        text = str(error) or type(error).__name__
        news, self.trouble = text != self.trouble, text
        if news:
            log.error("event=outbox_trouble error=%r", text)
            self.on_trouble()

    def _bound_memory(self) -> None:
        """Forget the oldest in memory: what the disk has is read back later, what it has not is lost and counted."""
        while self._bytes > MEMORY_BYTES:
            sequence, held = next(
                ((s, h) for s, h in self._held.items() if h.written or not h.keep), next(iter(self._held.items()))
            )
            if len(self._held) == 1:
                return
            del self._held[sequence]
            self._bytes -= len(held.payload)
            if held.written:
                self._spilled_to = max(self._spilled_to, sequence)
            else:
                self._lost_in_memory += 1
                log.error("event=report_lost sequence=%d why=%r", sequence, self.trouble or "disk does not keep up")
