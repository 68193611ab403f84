"""Many readers at once keep no writer waiting."""

from __future__ import annotations

import contextlib
import time

from sqlalchemy import text

from api.store.database import Database


def test_slow_pages_leave_connections_for_what_is_urgent(database: Database) -> None:
    """Forty worker threads may read pages while agents ask for permits."""
    with contextlib.ExitStack() as readers:
        for _ in range(44):
            readers.enter_context(database.read()).execute(text("SELECT 1"))
        began = time.monotonic()
        with database.begin() as connection:
            connection.execute(text("SELECT 1"))
        assert time.monotonic() - began < 10
