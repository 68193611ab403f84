"""Services on unix sockets that answer what a test tells them to; the code that speaks to them is the real one."""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

Answer = Callable[[bytes], bytes | None]
"""From what was sent to what is answered; None = never answer."""


@contextmanager
def serving(path: Path, answer: Answer) -> Iterator[None]:
    """Serve at ``path``, one connection after the other, until the block ends."""
    path.parent.mkdir(parents=True, exist_ok=True)
    folder = open_folder(path)
    server = socket.socket(socket.AF_UNIX)
    server.bind(f"/proc/self/fd/{folder}/{path.name}")
    server.listen()
    ended = threading.Event()
    thread = threading.Thread(target=_serve, args=(server, answer, ended))
    thread.start()
    try:
        yield
    finally:
        ended.set()
        server.shutdown(socket.SHUT_RDWR)
        thread.join(10)
        server.close()
        os.close(folder)


def open_folder(path: Path) -> int:
    """A descriptor by which an address of any length can be named."""
    return os.open(path.parent, os.O_PATH)


def _serve(server: socket.socket, answer: Answer, ended: threading.Event) -> None:
    while not ended.is_set():
        try:
            one, _ = server.accept()
        except OSError:
            return
        # Who only looks whether somebody takes a connection is gone by now.
        with one, suppress(ConnectionError):
            said = answer(one.recv(65536))
            if said is None:
                ended.wait(30)
            else:
                one.sendall(said)


def abandoned(path: Path) -> None:
    """Leave a socket that nobody serves."""
    path.parent.mkdir(parents=True, exist_ok=True)
    folder = open_folder(path)
    with socket.socket(socket.AF_UNIX) as left:
        left.bind(f"/proc/self/fd/{folder}/{path.name}")
    os.close(folder)
