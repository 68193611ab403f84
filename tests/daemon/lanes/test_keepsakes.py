"""What a check asks to have kept is there for the next agent, and whatever else lies in its place does no harm."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from daemon.lanes.keepsakes import WRITE_EVERY, Keepsakes
from daemon.lanes.memory import KEEP_LIMIT, KEPT, KEPT_LIMIT, bounded
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
        assert await before(pool) == 2

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


GOOD = msgspec.msgpack.encode({"rogue:/scratch": {"count": 7}})


def _linked(path: Path) -> None:
    path.with_name("elsewhere").write_bytes(GOOD)
    path.symlink_to("elsewhere")


def _written_by_others(path: Path) -> None:
    path.write_bytes(GOOD)
    path.chmod(0o666)


def _of_another_user(path: Path) -> None:
    path.write_bytes(GOOD)
    os.chown(path, 65534, 65534)


PLANTED: dict[str, Callable[[Path], object]] = {
    "truncated": lambda path: path.write_bytes(GOOD[:-1]),
    "huge": lambda path: path.write_bytes(
        msgspec.msgpack.encode({"rogue:/scratch": {"count": 7, "x": b"0" * KEPT_LIMIT}})
    ),
    "much for one": lambda path: path.write_bytes(
        msgspec.msgpack.encode({"rogue:/scratch": {"count": 7, "x": b"0" * KEEP_LIMIT}})
    ),
    "nested": lambda path: path.write_bytes(b"\x81\xa1a" * 100_000),
    "fifo": os.mkfifo,
    "folder": Path.mkdir,
    "link": _linked,
    "writable": _written_by_others,
    "foreign": _of_another_user,
}


@pytest.mark.parametrize("kind", PLANTED)
def test_what_others_could_have_put_there_is_not_believed(tmp_path: Path, kind: str) -> None:
    if kind == "foreign" and os.geteuid():
        pytest.skip("only root can give a file away")
    (tmp_path / "lanes").mkdir()
    PLANTED[kind](tmp_path / "lanes" / KEPT)

    async def body(pool: LanePool) -> None:
        assert await before(pool) == 0
        assert await before(pool) == 1

    with_pool(body, tmp_path, remembers=True)


def test_a_usual_file_is_believed(tmp_path: Path) -> None:
    (tmp_path / "lanes").mkdir()
    (tmp_path / "lanes" / KEPT).write_bytes(GOOD)

    async def body(pool: LanePool) -> None:
        assert await before(pool) == 7

    with_pool(body, tmp_path, remembers=True)


def test_what_was_kept_last_is_written_when_the_agent_ends(tmp_path: Path) -> None:
    async def body(pool: LanePool) -> None:
        for count in range(5):
            assert await before(pool) == count

    with_pool(body, tmp_path, remembers=True)
    assert msgspec.msgpack.decode((tmp_path / "lanes" / KEPT).read_bytes()) == {"rogue:/scratch": {"count": 5}}


def test_a_state_directory_that_takes_nothing_costs_no_answer(tmp_path: Path) -> None:
    (tmp_path / "lanes").write_text("no folder")

    async def body(pool: LanePool) -> None:
        for count in range(3):
            assert await before(pool) == count

    with_pool(body, tmp_path, remembers=True)


@pytest.mark.parametrize("do", ["keep_much", "keep_strange"])
def test_a_check_that_wants_too_much_kept_still_answers(tmp_path: Path, do: str) -> None:
    """Given back with the next question it would not go through, and the lane would be broken for good."""

    async def body(pool: LanePool) -> None:
        pids = [only((await pool.run(instance(do, timeout=30.0))).findings).evidence["pid"] for _ in range(3)]
        assert len(set(pids)) == 1
        assert pool.keepsakes.kept == {}

    with_pool(body, tmp_path, remembers=True)


def test_the_largest_is_left_out_of_what_is_written() -> None:
    much = {"a": {"x": "0" * 1000}, "b": {"x": "0" * (KEPT_LIMIT - 500)}, "c": {"n": 1}}
    assert set(bounded({**much})) == {"a", "c"}
    assert len(msgspec.msgpack.encode(bounded({str(n): {"x": "0" * 500_000} for n in range(9)}))) <= KEPT_LIMIT


def test_it_is_written_down_now_and_then_only() -> None:
    now, written = 0.0, []
    keepsakes = Keepsakes(lambda: now, lambda kept: written.append(dict(kept)))
    for step in range(10):
        now = step * WRITE_EVERY / 3
        keepsakes.take("a", {"n": step})
        keepsakes.take("b", {})
    assert [kept["a"]["n"] for kept in written] == [0, 3, 6, 9]
    assert (keepsakes.of("a"), keepsakes.of("b")) == ({"n": 9}, {})
