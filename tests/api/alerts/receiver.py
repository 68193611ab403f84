"""An HTTP server that keeps what it is told and answers as it is told to, and a store with a sender over it."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta, timezone
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from api.alerts.sender import Sender
from api.alerts.settings import AlertSettings, Target
from api.store.database import Database
from api.store.migrate import upgrade
from api.store.store import Store


class Receiver:
    """``status``: what it answers; ``hang``: set to let go of those whom it keeps waiting."""

    def __init__(self) -> None:
        self.status = 200
        self.location = ""
        self.hanging = False
        self.letting_go = threading.Event()
        self.got: list[tuple[str, dict[str, str], bytes]] = []
        receiver = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                receiver.got.append((self.path, {k.lower(): v for k, v in self.headers.items()}, body))
                if receiver.hanging:
                    receiver.letting_go.wait(60)
                self.send_response(receiver.status)
                if receiver.location:
                    self.send_header("Location", receiver.location)
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, format: str, *args: object) -> None:
                return

        class Quiet(ThreadingHTTPServer):
            daemon_threads = True

            def handle_error(self, request: object, client_address: object) -> None:
                """Who goes away in the middle is what some tests are about."""

        self.server = Quiet(("127.0.0.1", 0), Handler)
        self._thread = threading.Thread(target=self.server.serve_forever, args=(0.02,), daemon=True)
        self._thread.start()

    @property
    def url(self) -> str:
        """Where it listens."""
        return f"http://127.0.0.1:{self.server.server_address[1]}"

    def documents(self) -> list[Any]:
        """The bodies."""
        return [json.loads(body) for _, _, body in self.got]

    def close(self) -> None:
        """Be away."""
        self.letting_go.set()
        self.server.shutdown()
        self.server.server_close()


class Ground:
    """A store whose incidents a sender tells of; ``offset`` moves the sender's clock."""

    def __init__(self, folder: Path) -> None:
        self.database = Database(f"sqlite:///{folder}/alerts.db")
        upgrade(self.database)
        self.store = Store(self.database)
        self.offset = timedelta()
        self.troubles: list[str] = []

    def now(self) -> datetime:
        """The sender's clock."""
        return datetime.now(timezone.utc) + self.offset

    def opens(self, node: str, code: str, kind: str = "finding", target: str = "0000:5d:00.0") -> int:
        """An incident."""
        return self.store.open_incident("c", node, code, target, f"{code} seen", kind)

    def ends(self, node: str, code: str, target: str = "0000:5d:00.0") -> None:
        """Its end."""
        self.store.close_incident("c", node, code, target, "no longer seen")

    def sender(self, *, manager: str = "", hook: str = "", **more: Any) -> Sender:
        """A sender that has just started."""
        settings = AlertSettings(
            alertmanager=Target(url=manager, timeout=2.0),
            webhook=Target(url=hook, timeout=2.0, **more.pop("webhook", {})),
            **more,
        )
        return Sender(settings, self.database, "c", self.troubles.append, self.now)


@contextmanager
def receiving(folder: Path) -> Iterator[tuple[Ground, Receiver]]:
    """Both, closed afterwards."""
    ground, receiver = Ground(folder), Receiver()
    try:
        yield ground, receiver
    finally:
        receiver.close()
        ground.database.close()
