"""However many nodes fail at once, slurmctld is asked a handful of questions a second, and people read one incident."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from datetime import timedelta
from pathlib import Path

from api.controller.core import NAMED
from api.controller.pace import BURST_SECONDS, DRAIN, Pace
from checks.judge.guard import GuardLimits
from slurm.config import SlurmLimits
from slurm.job import JobState
from slurm.state import NodeState
from tests.api.controller.fake_slurm import Bench, FakeSlurm, bench

# The codes of the test's policy are fresh to the guard as long as few nodes show each.
WIDE = GuardLimits(drained_share=1.0, hourly_share=1.0, alike_share=1.0, floor_share=0.0, group_share=1.0)
MANY = 60


class Counted(FakeSlurm):
    """Counts what it is asked, by verb."""

    def __init__(self, count: int) -> None:
        super().__init__(count)
        self.asked: Counter[str] = Counter()

    def node(self, name: str) -> NodeState:
        self.asked["node"] += 1
        return super().node(name)

    def nodes(self) -> dict[str, NodeState]:
        self.asked["nodes"] += 1
        return super().nodes()

    def job(self, job_id: int) -> JobState | None:
        self.asked["job"] += 1
        return super().job(job_id)

    def limits(self) -> SlurmLimits:
        self.asked["limits"] += 1
        return super().limits()


def counted(b: Bench) -> Counted:
    slurm = Counted(MANY)
    b.core.view.backend = b.slurm = slurm
    return slurm


def test_a_burst_is_free_and_then_turns_come_at_the_rate() -> None:
    now = [0.0]
    pace = Pace(10.0, lambda: now[0])
    assert [pace.take(DRAIN) for _ in range(5)] == [True] * 4 + [False]
    now[0] = DRAIN / 10.0
    assert pace.take(DRAIN) and not pace.take(1)
    pace.give(DRAIN)
    assert pace.take(DRAIN)
    now[0] = 1000.0
    assert [pace.take(DRAIN) for _ in range(5)] == [True] * 4 + [False]


def test_turns_are_waited_for_in_order() -> None:
    pace, done = Pace(200.0), list[int]()

    async def one(number: int) -> None:
        if await pace.turn(100, lambda: number != 7):
            done.append(number)

    async def story() -> float:
        begun = time.monotonic()
        await asyncio.gather(*(one(number) for number in range(12)))
        return time.monotonic() - begun

    assert asyncio.run(story()) >= 3.0
    assert done == [number for number in range(12) if number != 7]


def test_many_drains_are_spread_over_rounds(tmp_path: Path) -> None:
    """E122: with a wide guard sixty nodes are drained, but not at once."""
    with bench(tmp_path, count=MANY, guard=WIDE, calls_per_second=10.0) as b:
        slurm = counted(b)
        for name in slurm.table:
            b.report(name, b.lost())
        now = [b.core.pace._at]
        b.core.pace._clock = lambda: now[0]
        asyncio.run(b.tick())
        assert len(slurm.writes) == 10.0 * BURST_SECONDS / DRAIN
        assert b.core.pace.put_off
        now[0] += 1.0
        asyncio.run(b.tick())
        assert len(slurm.writes) == 10.0 * (BURST_SECONDS + 1.0) / DRAIN
        b.core.pace._most = 1e9
        now[0] += 1e6
        asyncio.run(b.tick())
        assert len(slurm.writes) == MANY
        assert not b.core.pace.put_off


def test_a_closed_guard_answers_a_thousand_prologs_without_slurm(tmp_path: Path) -> None:
    with bench(tmp_path, count=MANY) as b:
        slurm = counted(b)
        asyncio.run(b.tick())
        before = slurm.asked.copy()

        async def story() -> list[bool]:
            names = list(slurm.table)
            asked = (b.control.permit(b.request(n, 100 + i, b.lost())) for i, n in enumerate(names))
            return [answer.granted for answer in await asyncio.gather(*asked)]

        for name in slurm.table:
            b.report(name, b.lost())
        granted = asyncio.run(story())
        assert not any(granted)
        assert slurm.asked == before
        assert slurm.writes == []


def test_the_first_of_many_are_named_and_the_others_are_one(tmp_path: Path) -> None:
    """Nodes that fail in different ways are no roll-out; the guard's ceiling keeps most of them in service."""
    with bench(tmp_path, count=MANY, guard=GuardLimits(hourly_share=0.0, hourly_least=0)) as b:
        for at, name in enumerate(b.slurm.table):
            b.report(name, b.lost(code=f"fault_{at}"))
        asyncio.run(b.tick())
        opened = [(i.node, i.code) for i in b.store.incidents(limit=1000) if i.closed_at is None]
        closed = [node for node, code in opened if code == "guard_closed"]
        assert len(closed) == NAMED + 1 and "" in closed
        for name in b.slurm.table:
            b.report(name, b.fine())
        asyncio.run(b.tick())
        assert "guard_closed" not in {code for _, code in b.incidents()}


def test_the_last_of_a_rollout_that_is_taken_back_are_no_hardware(tmp_path: Path) -> None:
    """Seen in a storm of 64: the few nodes that were mended last were drained, since few showed the fault by then."""
    with bench(tmp_path, count=MANY) as b:
        for name in b.slurm.table:
            b.report(name, b.lost())
        asyncio.run(b.tick())
        for name in list(b.slurm.table)[2:]:
            b.report(name, b.fine())
        asyncio.run(b.tick())
        assert b.slurm.writes == []
        assert ("", "many_gpu_lost") in b.incidents()
        b.offset = timedelta(seconds=b.core.guard.alike_seconds + 1)
        for name in list(b.slurm.table)[:2]:
            b.report(name, b.lost())
        asyncio.run(b.tick())
        assert [name for _, name, _ in b.slurm.writes] == ["n1", "n2"]


def test_many_that_fail_alike_are_one_incident(tmp_path: Path) -> None:
    with bench(tmp_path, count=MANY) as b:
        for name in b.slurm.table:
            b.report(name, b.lost())
        asyncio.run(b.tick())
        ours = Counter(
            i.code
            for i in b.store.incidents(limit=1000)
            if i.closed_at is None and i.kind in ("controller", "correlated")
        )
        assert b.slurm.writes == []
        assert ours["many_gpu_lost"] == 1
        assert set(ours) <= {"many_gpu_lost", "guard_frozen"}
        for name in b.slurm.table:
            b.report(name, b.fine())
        asyncio.run(b.tick())
        assert not {c for _, c in b.incidents()} & {"many_gpu_lost", "guard_closed"}
