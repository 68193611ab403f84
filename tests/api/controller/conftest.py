"""No test of the controller passes in which a drain makes a move that docs/drains.md does not tell."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import pytest

from api.controller.drain_record import MOVES, DrainRecord
from api.controller.records import Records


@pytest.fixture(autouse=True)
def told_moves_only(monkeypatch: pytest.MonkeyPatch) -> None:
    real = Records.change

    def change(self: Records, record: DrainRecord, now: datetime, **values: Any) -> DrainRecord:
        state = values.get("state", record.state)
        assert not record.open or state == record.state or state in MOVES[record.state], f"{record.state} -> {state}"
        return real(self, record, now, **values)

    monkeypatch.setattr(Records, "change", change)
