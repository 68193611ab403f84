"""A lease that is too much is called back at once, and counts until its node has said that it is gone."""

from __future__ import annotations

import asyncio
import time
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import msgspec

from api.controller.fleet import fleet
from checks.judge.guard import GuardLimits
from checks.judge.policy import merge, read_pack
from daemon.agent.leases import LeaseBook
from slurm.state import Reason
from tests.api.controller.fake_slurm import POLICY_TEXT, Bench, bench

WIDE = GuardLimits(drained_least=8, hourly_least=8, alike_least=40)
NODES = [f"n{i}" for i in range(1, 9)]


class Agents:
    """The real books of the nodes' agents, each asking once when told to."""

    def __init__(self, b: Bench) -> None:
        self.b, self.books = b, {n: LeaseBook("boot") for n in NODES}

    async def poll(self, *nodes: str) -> None:
        for node in nodes or NODES:
            self.b.control.holds(node, self.books[node].permits)
            await self.b.control.orders("sim", node, 0.0)
            self.books[node].offer(self.b.control.leases_for("sim", node), self.b.now())

    def out(self) -> list[str]:
        return [n for n in NODES if self.books[n].good]


def promised(b: Bench) -> int:
    return len(b.core.records.live_leases("sim", b.now()))


async def handed_out(b: Bench, agents: Agents) -> list[str]:
    await b.tick()
    await agents.poll()
    await b.tick()
    await agents.poll()
    return agents.out()


def test_a_guard_that_has_less_room_calls_leases_back(tmp_path: Path) -> None:
    with bench(tmp_path, count=40, guard=WIDE, lease_share=0.5) as b:
        agents = Agents(b)

        async def story() -> None:
            assert len(await handed_out(b, agents)) == 4 and promised(b) == 4
            for i in range(20, 24):
                b.report(f"n{i}", b.lost(code=f"code_{i}"))
            await b.tick()
            assert sum(s.out_of_service for s in b.slurm.table.values()) == 4
            await b.tick()
            assert promised(b) == 4, "nobody has said yet that it dropped one"
            await agents.poll()
            assert len(agents.out()) == 2
            await b.tick()
            assert promised(b) == 4, "the answer that took them away is not known to have come"
            await agents.poll()
            await b.tick()
            assert promised(b) == 2

        asyncio.run(story())


def test_an_agent_that_is_away_keeps_its_lease_and_it_keeps_counting(tmp_path: Path) -> None:
    with bench(tmp_path, count=40, guard=WIDE, lease_share=0.5) as b:
        agents = Agents(b)

        async def story() -> None:
            away = (await handed_out(b, agents))[0]
            b.core.quiet.pause([away], b.now().replace(year=2100), "riser", "alice", b.now())
            others = [n for n in NODES if n != away]
            for _ in range(4):
                await b.tick()
                await agents.poll(*others)
            assert agents.books[away].good == 1 and promised(b) == 4
            await agents.poll(away)
            assert agents.books[away].good == 0
            await agents.poll(away)
            await b.tick()
            assert away not in {r["node"] for r in b.core.records.live_leases("sim", b.now())}

        asyncio.run(story())


def test_an_open_poll_carries_the_call_back_at_once(tmp_path: Path) -> None:
    with bench(tmp_path, count=40, guard=WIDE, lease_share=0.5) as b:
        agents = Agents(b)

        async def story() -> float:
            node = (await handed_out(b, agents))[0]
            poll = asyncio.create_task(b.control.orders("sim", node, 60.0))
            await asyncio.sleep(0.05)
            b.core.quiet.pause([node], b.now().replace(year=2100), "riser", "alice", b.now())
            began = time.monotonic()
            await b.tick()
            assert await asyncio.wait_for(poll, 30) == () and b.control.leases_for("sim", node) == ()
            return time.monotonic() - began

        assert asyncio.run(story()) < 30


def test_a_code_that_may_not_be_leased_any_more_is_called_back(tmp_path: Path) -> None:
    with bench(tmp_path, count=40, guard=WIDE, lease_share=0.5) as b:
        agents = Agents(b)

        async def story() -> None:
            assert await handed_out(b, agents)
            stricter = POLICY_TEXT.replace("lease = true", "lease = false")
            b.core.policy = merge([("test", read_pack(stricter, "test"))])
            await b.tick()
            for _ in range(2):
                await agents.poll()
                await b.tick()
            assert agents.out() == [] and promised(b) == 0

        asyncio.run(story())


def test_leases_of_a_former_server_are_free_once_their_agents_have_dropped_them(tmp_path: Path) -> None:
    with bench(tmp_path, count=40, guard=WIDE, lease_share=0.5) as b:
        agents = Agents(b)
        asyncio.run(handed_out(b, agents))
        assert promised(b) == 4
    with bench(tmp_path, count=40, guard=WIDE, lease_share=0.5) as b:
        agents.b = b

        async def story() -> None:
            await b.tick()
            for _ in range(2):
                await agents.poll()
                await b.tick()
            await agents.poll()
            assert len(agents.out()) == 4 and promised(b) == 4, "handed out anew"

        asyncio.run(story())


def test_a_lease_that_was_used_before_the_call_back_came_is_honoured(tmp_path: Path) -> None:
    with bench(tmp_path, count=40, guard=WIDE, lease_share=0.5) as b:
        agents = Agents(b)

        async def story() -> None:
            node = (await handed_out(b, agents))[0]
            lease = agents.books[node].take(["gpu_lost"])
            assert lease is not None
            b.core.quiet.pause([node], b.now().replace(year=2100), "riser", "alice", b.now())
            await b.tick()
            for _ in range(2):
                await agents.poll()
                await b.tick()
            used = msgspec.structs.replace(b.request(node, 7, b.lost()), lease=lease.permit)
            assert (await b.control.permit(used)).granted
            assert b.control.leases_for("sim", node) == ()

        asyncio.run(story())


def test_one_that_was_used_while_the_server_was_away_counts_until_its_refusal_is_known(tmp_path: Path) -> None:
    """Rule 7: the report of the refusal may come later than the agent's next question."""
    with bench(tmp_path, count=40, guard=WIDE, lease_share=0.5) as b:
        agents = Agents(b)
        used = asyncio.run(handed_out(b, agents))[0]
        lease = agents.books[used].take(["gpu_lost"])
        assert lease is not None
    with bench(tmp_path, count=40, guard=WIDE, lease_share=0.5) as b:
        agents.b = b

        async def story() -> None:
            for _ in range(4):
                await b.tick()
                await agents.poll()
            assert lease.permit in {r["id"] for r in b.core.records.live_leases("sim", b.now())}

        asyncio.run(story())


def test_a_fresh_prolog_error_counts_as_ours_until_a_report_may_have_come(tmp_path: Path) -> None:
    """A refusal by a lease looks so while nobody has told of it; one of long ago is somebody else's."""
    with bench(tmp_path, count=40, guard=WIDE) as b:
        asyncio.run(b.tick())
        for node, minutes in (("n1", 2), ("n2", 30)):
            state, at = b.slurm.table[node], b.now() - timedelta(minutes=minutes)
            flags = state.flags | {"DRAIN"}
            b.slurm.table[node] = replace(state, flags=flags, reason=Reason("Prolog error", "slurm", at))
        asyncio.run(b.tick())
        seen = fleet(b.core).nodes
        assert (seen["n1"].ours, seen["n2"].ours) == (True, False)
