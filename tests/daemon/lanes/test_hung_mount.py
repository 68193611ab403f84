"""A file system that never answers, in D state for real, costs one worker and no more."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from daemon.lanes.pool import LanePool
from daemon.lanes.process import stat_fields
from deploy.simcluster import hang_fs
from tests.daemon.lanes.harness import eventually, gone, instance, only, with_pool

pytestmark = [
    pytest.mark.alone,
    pytest.mark.faults,
    pytest.mark.skipif(hang_fs.cannot_run() is not None, reason=hang_fs.cannot_run() or "usable"),
]


@pytest.fixture
def hung(tmp_path: Path) -> Iterator[Path]:
    """A mount whose server never answers."""
    where = tmp_path / "hung"
    where.mkdir()
    server = hang_fs.start(where)
    yield where
    hang_fs.stop(server, where)


def _state(pid: int) -> str:
    fields = stat_fields(pid)
    return fields[0] if fields else ""


def test_a_worker_in_d_state_is_a_finding_and_never_doubled(hung: Path, tmp_path: Path) -> None:
    stuck: list[int] = []

    async def body(pool: LanePool) -> None:
        question = instance("statvfs", path=str(hung), timeout=0.5)
        first = only((await pool.run(question)).findings)
        assert (first.status, first.blame) == ("unknown", "self")
        stuck.append(int(first.evidence["pid"] or 0))
        await asyncio.sleep(0.4)
        for _ in range(20):
            finding = only((await pool.run(question)).findings)
            assert (finding.code, finding.blame) == ("mount_hung", "shared")
            assert finding.evidence["pid"] == stuck[0]
        assert str(finding.evidence["seen"]).startswith("state D")
        # Asked to end it stays, and a good file system is answered by its own lane meanwhile.
        healthy = instance("statvfs", lane="fs:/", path="/", timeout=5.0)
        assert only((await pool.run(healthy)).findings).status == "ok"

    started = time.monotonic()
    with_pool(body, tmp_path)
    assert time.monotonic() - started < 30.0
    assert not gone(stuck[0]), "the worker was not in D state"

    async def the_next_agent(pool: LanePool) -> None:
        finding = only((await pool.run(instance("statvfs", path=str(hung)))).findings)
        assert finding.evidence["pid"] == stuck[0] and pool.wedged() == ("fs:/scratch",)

    with_pool(the_next_agent, tmp_path)
    assert _state(stuck[0]) == "D"


def test_the_stuck_worker_ends_with_the_mount(tmp_path: Path) -> None:
    where = tmp_path / "hung"
    where.mkdir()
    server = hang_fs.start(where)

    async def body(pool: LanePool) -> int:
        finding = only((await pool.run(instance("statvfs", path=str(where)))).findings)
        return int(finding.evidence["pid"] or 0)

    try:
        pid = with_pool(body)
        assert not gone(pid)
    finally:
        hang_fs.stop(server, where)
    eventually(lambda: gone(pid), "the worker outlived the mount")
