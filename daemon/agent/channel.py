"""The agent's end of a helper's socket pair; the helper's own end needs no event loop and carries none."""

from __future__ import annotations

import asyncio
import itertools
import socket
from collections.abc import Callable

import msgspec

from daemon.agent.frames import Frame, Unpacker, pack


class ChannelClosed(ConnectionError):
    """The helper process at the other end is gone."""


class Channel(asyncio.Protocol):
    """The agent's end: calls that are answered in any order, each with a deadline of its own."""

    def __init__(self, on_lost: Callable[[], None] | None = None) -> None:
        self._unpacker = Unpacker()
        self._waiting: dict[int, asyncio.Future[Frame]] = {}
        self._ids = itertools.count(1)
        self._transport: asyncio.Transport | None = None
        self._on_lost = on_lost

    @classmethod
    async def over(cls, sock: socket.socket, on_lost: Callable[[], None] | None = None) -> Channel:
        """Take ``sock`` into the running loop."""
        sock.setblocking(False)
        loop = asyncio.get_running_loop()
        _, channel = await loop.create_connection(lambda: cls(on_lost), sock=sock)
        return channel

    @property
    def open(self) -> bool:
        """Whether the helper is still there."""
        return self._transport is not None and not self._transport.is_closing()

    def request(self, op: str, *, text: str = "", number: float = 0, body: bytes = b"") -> asyncio.Future[Frame]:
        """Send one request; the future ends with its answer or with ChannelClosed."""
        future: asyncio.Future[Frame] = asyncio.get_running_loop().create_future()
        if self._transport is None or self._transport.is_closing():
            future.set_exception(ChannelClosed("helper process is gone"))
            return future
        number_of_call = next(self._ids)
        self._waiting[number_of_call] = future
        future.add_done_callback(lambda _: self._waiting.pop(number_of_call, None))
        self._transport.write(pack(Frame(number_of_call, op, text, number, body)))
        return future

    async def call(
        self, op: str, *, text: str = "", number: float = 0, body: bytes = b"", timeout: float = 5.0
    ) -> Frame:
        """Send one request and wait for its answer; raises TimeoutError or ChannelClosed."""
        try:
            return await asyncio.wait_for(self.request(op, text=text, number=number, body=body), timeout)
        except asyncio.TimeoutError as error:
            raise TimeoutError(f"{op} was not answered within {timeout:g} s") from error

    def close(self) -> None:
        """Let the helper see the end of its input."""
        if self._transport is not None:
            self._transport.abort()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        try:
            frames = self._unpacker.feed(data)
        except (ValueError, msgspec.MsgspecError):
            self.close()
            return
        for frame in frames:
            future = self._waiting.get(frame.id)
            if future is not None and not future.done():
                future.set_result(frame)

    def connection_lost(self, error: Exception | None) -> None:
        for future in list(self._waiting.values()):
            if not future.done():
                future.set_exception(ChannelClosed("helper process ended"))
        if self._on_lost is not None:
            self._on_lost()
