"""A drain of a node that Slurm no longer knows is closed, but not before a stated time, over restarts as well."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from pathlib import Path

from tests.api.controller.fake_slurm import Bench, bench


def drained(b: Bench) -> None:
    b.report("n2", b.lost())
    asyncio.run(b.tick())
    b.offset += timedelta(seconds=5)
    asyncio.run(b.tick())
    assert b.core.records.open_drains("sim")["n2"].state == "drained"


def test_it_is_retired_after_its_time(tmp_path: Path) -> None:
    with bench(tmp_path) as b:
        drained(b)
        del b.slurm.table["n2"]
        b.offset += timedelta(days=60)
        asyncio.run(b.tick())
        for days in (1, 5):
            b.offset += timedelta(days=days)
            asyncio.run(b.tick())
            assert "n2" in b.core.records.open_drains("sim"), days
        b.offset += timedelta(days=2)
        asyncio.run(b.tick())
        last = b.core.records.last("sim", "n2")
        assert last is not None and last.state == "retired" and "slurm knows no such node since" in last.why
        assert any((a.action, a.subject) == ("drain retired", "n2") for a in b.store.audit_log())


def test_a_node_that_comes_back_starts_the_time_again(tmp_path: Path) -> None:
    with bench(tmp_path) as b:
        drained(b)
        gone = b.slurm.table.pop("n2")
        asyncio.run(b.tick())
        b.offset += timedelta(days=6)
        b.slurm.table["n2"] = gone
        asyncio.run(b.tick())
        del b.slurm.table["n2"]
        b.offset += timedelta(days=6)
        asyncio.run(b.tick())
        b.offset += timedelta(days=6)
        asyncio.run(b.tick())
        assert "n2" in b.core.records.open_drains("sim")


def test_a_slurm_that_does_not_answer_retires_nothing(tmp_path: Path) -> None:
    with bench(tmp_path) as b:
        drained(b)
        b.slurm.down()
        for _ in range(3):
            b.offset += timedelta(days=10)
            asyncio.run(b.tick())
        assert "n2" in b.core.records.open_drains("sim")
