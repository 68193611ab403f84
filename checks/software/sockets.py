"""A service on a unix socket is spoken to within a deadline, wherever its path lies and however long it is."""

from __future__ import annotations

import os
import socket
import time
from types import TracebackType

from checks.host import Host


class Talk:
    """One connection; every step together takes at most ``seconds``, then TimeoutError."""

    def __init__(self, host: Host, path: str, seconds: float) -> None:
        self._until = time.monotonic() + seconds
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        real = host.path(path)
        try:
            # An address holds 107 bytes of a path: the folder goes by a descriptor.
            folder = os.open(real.parent, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
            try:
                self._hurry()
                self._socket.connect(f"/proc/self/fd/{folder}/{real.name}")
            finally:
                os.close(folder)
        except BaseException:
            self._socket.close()
            raise

    def __enter__(self) -> Talk:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._socket.close()

    def send(self, data: bytes) -> None:
        """Send it whole."""
        self._hurry()
        self._socket.sendall(data)

    def take(self, size: int) -> bytes:
        """Exactly ``size`` bytes; EOFError when the other side ends before."""
        parts = b""
        while len(parts) < size:
            self._hurry()
            part = self._socket.recv(size - len(parts))
            if not part:
                raise EOFError(f"answer ended after {len(parts)} of {size} bytes")
            parts += part
        return parts

    def line(self, limit: int = 256) -> str:
        """The first line, at most ``limit`` bytes of it."""
        parts = b""
        while b"\n" not in parts and len(parts) < limit:
            self._hurry()
            part = self._socket.recv(limit - len(parts))
            if not part:
                break
            parts += part
        return parts.partition(b"\n")[0].decode("utf-8", "replace").strip()

    def _hurry(self) -> None:
        left = self._until - time.monotonic()
        if left <= 0:
            raise TimeoutError("no time left for an answer")
        self._socket.settimeout(left)
