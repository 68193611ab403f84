"""A database is one SQLAlchemy engine; on SQLite one process writes, in WAL mode, one transaction at a time."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from sqlalchemy import Connection, create_engine, event
from sqlalchemy.engine.interfaces import DBAPIConnection
from sqlalchemy.pool import ConnectionPoolEntry

# More than all threads that read pages, write reports and work for the controller: none waits for another's connection.
CONNECTIONS = 16
CONNECTIONS_MORE = 64


class Database:
    """Hands out short transactions; ``begin`` for writing, ``read`` for reading."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.engine = create_engine(
            url, pool_pre_ping=not url.startswith("sqlite"), pool_size=CONNECTIONS, max_overflow=CONNECTIONS_MORE
        )
        self.is_sqlite = self.engine.dialect.name == "sqlite"
        self._writer = threading.Lock()
        if self.is_sqlite:
            event.listen(self.engine, "connect", _pragmas)

    @contextmanager
    def begin(self) -> Iterator[Connection]:
        """A write transaction; on SQLite taken one at a time so that no writer meets a locked database."""
        if self.is_sqlite:
            with self._writer, self.engine.begin() as connection:
                yield connection
        else:
            with self.engine.begin() as connection:
                yield connection

    @contextmanager
    def read(self) -> Iterator[Connection]:
        """A connection for reading."""
        with self.engine.connect() as connection:
            yield connection

    def close(self) -> None:
        """Release every connection."""
        self.engine.dispose()


def _pragmas(connection: DBAPIConnection, _: ConnectionPoolEntry) -> None:
    cursor = connection.cursor()
    # FULL: an agent forgets a report once it is acknowledged, so the commit must outlast a power loss.
    for pragma in ("journal_mode=WAL", "synchronous=FULL", "foreign_keys=ON", "busy_timeout=5000"):
        cursor.execute(f"PRAGMA {pragma}")
    cursor.close()
