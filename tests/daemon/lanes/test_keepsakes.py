"""What a check asks to have kept is there for the next agent, and whatever else lies in its place does no harm."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from daemon.lanes.keepsakes import WRITE_EVERY, Keepsakes
from daemon.lanes.memory import KEPT
from daemon.lanes.pool import LanePool
from tests.daemon.lanes.harness import instance, later, only, with_pool

pytestmark = pytest.mark.alone


async def before(pool: LanePool) -> object:
    return only((await pool.run(instance("keep", timeout=10.0))).findings).evidence["count"]


def test_the_next_agent_goes_on_where_the_former_one_was(tmp_path: Path) -> None:
    """E73: what was counted before a restart is neither lost nor counted twice."""
    written = tmp_path / "lanes" / KEPT

    async def first(pool: LanePool) -> None:
        assert await before(pool) == 0
        await later(written.exists, "nothing was written")
        assert await before(pool) == 1

    async def second(pool: LanePool) -> None:
        assert await before(pool) == 1

    with_pool(first, tmp_path, remembers=True)
    with_pool(second, tmp_path, remembers=True)


def test_a_command_beside_the_agent_neither_reads_nor_writes_it(tmp_path: Path) -> None:
    (tmp_path / "lanes").mkdir()
    kept = msgspec.msgpack.encode({"rogue:/scratch": {"count": 7}})
    (tmp_path / "lanes" / KEPT).write_bytes(kept)

    async def body(pool: LanePool) -> None:
        assert await before(pool) == 0

    with_pool(body, tmp_path)
    assert (tmp_path / "lanes" / KEPT).read_bytes() == kept


@pytest.mark.parametrize("data", [b"", b"\xff\x00garbage", b"\x81\xa1a\x01", msgspec.msgpack.encode({"a": "b"})])
def test_what_cannot_be_read_is_nothing(tmp_path: Path, data: bytes) -> None:
    (tmp_path / "lanes").mkdir()
    (tmp_path / "lanes" / KEPT).write_bytes(data)

    async def body(pool: LanePool) -> None:
        assert await before(pool) == 0

    with_pool(body, tmp_path, remembers=True)


def test_it_is_written_down_now_and_then_only() -> None:
    now, written = 0.0, []
    keepsakes = Keepsakes(lambda: now, lambda kept: written.append(dict(kept)))
    for step in range(10):
        now = step * WRITE_EVERY / 3
        keepsakes.take("a", {"n": step})
        keepsakes.take("b", {})
    assert [kept["a"]["n"] for kept in written] == [0, 3, 6, 9]
    assert (keepsakes.of("a"), keepsakes.of("b")) == ({"n": 9}, {})
