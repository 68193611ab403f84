"""The agent's side of the zygote: it asks for workers and hears of their end, and never blocks the loop."""

from __future__ import annotations

import array
import asyncio
import itertools
import os
import signal
import socket
from dataclasses import dataclass, field

import msgspec

from daemon.lanes.wire import HEAD, REPLY_LIMIT, ForkRequest, Reply, Request, ZygoteNews, framed
from daemon.lanes.zygote import MESSAGE_LIMIT, Zygote

READY_LIMIT = 30.0
FORK_LIMIT = 5.0


class ForkError(Exception):
    """No worker could be had; the text says why."""


class Garbled(Exception):
    """A worker answered what is not a reply to the question."""


@dataclass(slots=True)
class Worker:
    """One forked lane process and our end of its socket; ``ended`` is set to its wait status."""

    pid: int
    start: int
    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter
    ended: asyncio.Future[int]

    def send(self, request: Request) -> None:
        """Hand over one request; the worker is idle, so it takes it."""
        self.writer.write(framed(msgspec.msgpack.encode(request)))

    async def receive(self, request: Request) -> Reply:
        """The reply to ``request``; raises Garbled, or EOFError when the worker ended."""
        (length,) = HEAD.unpack(await self.reader.readexactly(HEAD.size))
        if length > REPLY_LIMIT:
            raise Garbled(f"reply of {length} bytes, at most {REPLY_LIMIT} are taken")
        data = await self.reader.readexactly(length)
        try:
            reply = msgspec.msgpack.decode(data, type=Reply)
        except msgspec.DecodeError as error:
            raise Garbled(f"reply is not one: {error}") from error
        if reply.id != request.id:
            raise Garbled(f"reply to question {reply.id}, expected {request.id}")
        return reply

    def leave(self) -> None:
        """Close our end: a worker that is not stuck ends by itself."""
        self.writer.close()

    def terminate(self) -> None:
        """Ask it to end. SIGTERM is at its default there, so KILL would reach nothing more and is never sent."""
        if not self.ended.done():
            try:
                os.kill(self.pid, signal.SIGTERM)
            except ProcessLookupError:
                return


@dataclass(slots=True)
class Forker:
    """One per agent; ``lost`` is set when the zygote ended, and then no lane can be had until the agent restarts."""

    zygote: Zygote
    lost: asyncio.Event = field(default_factory=asyncio.Event)
    trouble: str = ""
    _ready: asyncio.Event = field(default_factory=asyncio.Event)
    _asked: dict[int, asyncio.Future[ZygoteNews]] = field(default_factory=dict)
    _alive: dict[int, asyncio.Future[int]] = field(default_factory=dict)
    _early: dict[int, int] = field(default_factory=dict)
    _tokens: itertools.count[int] = field(default_factory=lambda: itertools.count(1))

    def __post_init__(self) -> None:
        self.zygote.control.setblocking(False)
        asyncio.get_running_loop().add_reader(self.zygote.control.fileno(), self._hear)

    async def fork(self, lane: str) -> Worker:
        """A new worker; raises ForkError."""
        await self._wait_ready()
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            news = await self._ask(lane, theirs)
        except BaseException:
            ours.close()
            raise
        finally:
            theirs.close()
        ended: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        if news.pid in self._early:
            ended.set_result(self._early.pop(news.pid))
        else:
            self._alive[news.pid] = ended
        reader, writer = await asyncio.open_unix_connection(sock=ours)
        return Worker(news.pid, news.start, reader, writer, ended)

    async def _wait_ready(self) -> None:
        if self.lost.is_set():
            raise ForkError("the zygote has ended")
        try:
            await asyncio.wait_for(self._ready.wait(), READY_LIMIT)
        except asyncio.TimeoutError:
            raise ForkError(f"the zygote was not ready within {READY_LIMIT:g} s") from None
        if self.lost.is_set():
            raise ForkError("the zygote has ended")

    async def _ask(self, lane: str, theirs: socket.socket) -> ZygoteNews:
        token = next(self._tokens)
        answer: asyncio.Future[ZygoteNews] = asyncio.get_running_loop().create_future()
        self._asked[token] = answer
        rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [theirs.fileno()]))]
        try:
            self.zygote.control.sendmsg([msgspec.msgpack.encode(ForkRequest(token=token, lane=lane))], rights)
            news = await asyncio.wait_for(answer, FORK_LIMIT)
        except OSError as error:
            raise ForkError(f"the zygote takes no request: {error.strerror}") from error
        except asyncio.TimeoutError:
            raise ForkError(f"the zygote did not fork within {FORK_LIMIT:g} s") from None
        finally:
            self._asked.pop(token, None)
        if news.error:
            raise ForkError(news.error)
        return news

    def _hear(self) -> None:
        while True:
            try:
                data = self.zygote.control.recv(MESSAGE_LIMIT)
            except BlockingIOError:
                return
            except OSError:
                data = b""
            if not data:
                self._lose()
                return
            self._take(msgspec.msgpack.decode(data, type=ZygoteNews))

    def _take(self, news: ZygoteNews) -> None:
        if news.kind == "ready":
            self.trouble = news.error
            self._ready.set()
        elif news.kind == "forked":
            if (answer := self._asked.get(news.token)) and not answer.done():
                answer.set_result(news)
        elif (ended := self._alive.pop(news.pid, None)) is not None:
            ended.set_result(news.status)
        else:
            self._early[news.pid] = news.status

    def _lose(self) -> None:
        asyncio.get_running_loop().remove_reader(self.zygote.control.fileno())
        self.lost.set()
        self._ready.set()
        for answer in self._asked.values():
            if not answer.done():
                answer.set_exception(ForkError("the zygote has ended"))

    def close(self) -> None:
        """Hang up: the zygote ends, and with it every lane that is not stuck."""
        if not self.lost.is_set():
            asyncio.get_running_loop().remove_reader(self.zygote.control.fileno())
            self.lost.set()
        self.zygote.control.close()
        self.zygote.helpers.close()
