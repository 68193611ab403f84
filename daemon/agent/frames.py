"""The agent and its helper processes exchange small frames over a socket pair, each with a length before it."""

from __future__ import annotations

import socket
import struct

import msgspec

_LENGTH = struct.Struct("<I")
FRAME_LIMIT = 32 * 1024 * 1024


class Frame(msgspec.Struct, frozen=True, array_like=True):
    """One request or answer; an answer carries the ``id`` of its request."""

    id: int
    op: str
    text: str = ""
    number: float = 0
    body: bytes = b""


_decoder = msgspec.msgpack.Decoder(Frame)
_encoder = msgspec.msgpack.Encoder()


def pack(frame: Frame) -> bytes:
    """The bytes of one frame as they travel."""
    data = _encoder.encode(frame)
    return _LENGTH.pack(len(data)) + data


class Unpacker:
    """Cuts a byte stream back into frames; raises ValueError on what cannot be one."""

    def __init__(self) -> None:
        self._have = bytearray()

    def feed(self, data: bytes) -> list[Frame]:
        """The frames completed by ``data``."""
        self._have += data
        found: list[Frame] = []
        while len(self._have) >= _LENGTH.size:
            (length,) = _LENGTH.unpack_from(self._have)
            if length > FRAME_LIMIT:
                raise ValueError(f"frame of {length} bytes, limit {FRAME_LIMIT}")
            end = _LENGTH.size + length
            if len(self._have) < end:
                break
            found.append(_decoder.decode(bytes(self._have[_LENGTH.size : end])))
            del self._have[:end]
        return found


class Pipe:
    """The helper's blocking end."""

    def __init__(self, sock: socket.socket) -> None:
        self.sock = sock
        self._unpacker = Unpacker()

    def receive(self, timeout: float | None = None) -> list[Frame] | None:
        """Frames that came within ``timeout`` seconds, [] when none did, None when the agent is gone."""
        self.sock.settimeout(timeout)
        try:
            data = self.sock.recv(256 * 1024)
        except TimeoutError:
            return []
        except OSError:
            return None
        return self._unpacker.feed(data) if data else None

    def send(self, frame: Frame) -> None:
        """Hand one frame to the agent; a full pipe is waited for, since the agent always reads."""
        self.sock.settimeout(None)
        self.sock.sendall(pack(frame))
