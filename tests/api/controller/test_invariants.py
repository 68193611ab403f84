"""Random days with faults, people, crashes, slow Slurms and clocks that jump: what must never happen, never does."""

from __future__ import annotations

import asyncio
import os
import random
from collections import defaultdict
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from api.controller.control import Controller
from checks.judge.guard import GuardLimits
from checks.wire import Decision, Finding
from slurm.errors import Timeout
from slurm.job import JobState
from slurm.reason import Owner, owner_of
from tests.api.controller.fake_slurm import Bench, FakeSlurm, bench, policy

GUARD = GuardLimits(drained_least=3, hourly_least=100, alike_least=3)
NODES = 12


class Crash(Exception):
    """The server ends here."""


class World:
    """A cluster with its truth, and an eye on every write."""

    def __init__(self, b: Bench, seed: int) -> None:
        self.b, self.dice = b, random.Random(seed)
        self.bad: dict[str, str] = {}
        self.ever_bad: set[str] = set()
        self.boots: dict[str, int] = defaultdict(int)
        self.clean: dict[str, list[int]] = defaultdict(list)
        self.people: set[str] = set()
        self.story: list[str] = []
        self.wrong: list[str] = []
        self.trouble = 0.0
        self._watch(b.slurm)

    @property
    def names(self) -> list[str]:
        return sorted(self.b.slurm.table)

    def _watch(self, slurm: FakeSlurm) -> None:
        real_set, real_resume = slurm.set, slurm.resume

        def set_(name: str, verb: str, reason: str, *, user: str = "slurm") -> None:
            if user == "slurm":
                self._unsure()
                self._may_write(name)
            real_set(name, verb, reason, user=user)
            if user == "slurm":
                self._unsure()
                ours = sum(owner_of(s) is Owner.OURS_AUTOMATIC for s in slurm.table.values())
                self._must(ours <= GUARD.drained_least, f"{ours} nodes are out by us")

        def resume(name: str) -> None:
            self._unsure()
            self._may_resume(name)
            real_resume(name)
            self._unsure()

        slurm.set, slurm.resume = set_, resume  # type: ignore[method-assign]

    def _unsure(self) -> None:
        """A question or a write may be lost before or after it took effect."""
        if self.dice.random() < self.trouble:
            raise Timeout("scontrol update", 10.0)

    def _must(self, true: bool, text: str) -> None:
        # Raised inside a write this would be taken for Slurm's trouble, so it is kept.
        if not true:
            self.wrong.append("\n".join((text, *self.story[-40:])))

    def _may_write(self, name: str) -> None:
        owner = owner_of(self.b.slurm.table[name])
        self._must(owner in (None, Owner.OURS_AUTOMATIC), f"{name}: reason of {owner} written over")
        self._must(name in self.ever_bad, f"{name} never had a fault")

    def _may_resume(self, name: str) -> None:
        state = self.b.slurm.table[name]
        self._must(owner_of(state) is Owner.OURS_AUTOMATIC, f"{name} resumed, reason {state.reason}")
        last = self.clean[name][-2:]
        self._must(len(last) == 2 and last[0] == last[1], f"{name} resumed unverified {last}")

    # -- what happens

    def findings(self, node: str) -> tuple[Finding, ...]:
        code = self.bad.get(node)
        found = [self.b.lost(code=code, check="gpu_health")] if code else [self.b.fine()]
        return (*found, self.b.fine("clock"))

    async def agent(self, node: str) -> None:
        """One round of an agent: report, poll, answer."""
        boot = f"{node}-{self.boots[node]}"
        self.b.report(node, *self.findings(node), boot_id=boot, incarnation=boot)
        for order in await self.b.control.orders("sim", node, 0.0):
            if self.dice.random() < 0.15:
                continue
            self.b.report(node, *self.findings(node), occasion="manual", notes=(f"order:{order.id}",), boot_id=boot,
                          incarnation=boot)  # fmt: skip
            if node in self.bad:
                self.clean[node].clear()
            else:
                self.clean[node].append(self.boots[node])
            self.b.control.done((order.id,))

    async def step(self) -> None:
        act = self.dice.choices(
            ("agents", "fault", "heal", "person", "job", "boot", "restart", "clock", "slurm", "crash"),
            (40, 8, 10, 8, 8, 3, 3, 3, 4, 3),
        )[0]
        node = self.dice.choice(self.names)
        self.story.append(f"{act} {node} {self.b.slurm.table[node]}")
        await getattr(self, f"_{act}")(node)
        if act != "agents" and self.dice.random() < 0.5:
            await self._agents(node)
        await self.b.tick()

    async def _agents(self, _: str) -> None:
        for name in self.names:
            await self.agent(name)

    async def _fault(self, node: str) -> None:
        self.bad[node] = self.dice.choice(("gpu_lost", "ecc_old", f"own_{node}"))
        self.ever_bad.add(node)
        self.clean[node].clear()

    async def _heal(self, _: str) -> None:
        for node in list(self.bad)[:2]:
            del self.bad[node]

    async def _person(self, node: str) -> None:
        state = self.b.slurm.table[node]
        verb = self.dice.choice(("drain", "reason", "resume"))
        if verb == "resume":
            if state.out_of_service:
                self.b.slurm.table[node] = replace(state, flags=state.flags - {"DRAIN"}, reason=None)
        elif verb == "drain" or state.out_of_service:
            self.b.slurm.set(node, verb, f"bob {self.dice.random()}", user="root")

    async def _job(self, node: str) -> None:
        number = self.dice.randrange(1, 3)
        self.b.slurm.jobs[number] = JobState(number, "RUNNING", restart_count=0)
        if node not in self.bad:
            return
        request = self.b.request(node, number, *(f for f in self.findings(node) if f.status == "fail"))
        asked = [self.b.control.permit(request) for _ in range(self.dice.choice((1, 1, 2)))]
        for answer in await asyncio.gather(*asked):
            if answer.granted:
                self._must(self.b.slurm.table[node].out_of_service, f"{node}: permit on a serving node")
                decision = Decision(verdict="faulty", wanted="refuse", allowed="refuse", codes=request.decision.codes)
                boot = f"{node}-{self.boots[node]}"
                self.b.report(node, *request.findings, occasion="prolog", decision=decision, job=request.job,
                              boot_id=boot, incarnation=boot)  # fmt: skip

    async def _boot(self, node: str) -> None:
        self.boots[node] += 1

    async def _restart(self, _: str) -> None:
        old = self.b.control
        self.b.control = Controller(
            old.core.settings, self.b.database, self.b.store, self.b.slurm, policy=policy(), guard=GUARD
        )
        self.b.core = self.b.control.core
        self.b.core.clock = self.b.now

    async def _clock(self, _: str) -> None:
        self.b.offset = max(timedelta(), self.b.offset + timedelta(seconds=self.dice.choice((-300, 30, 130, 700))))

    async def _slurm(self, _: str) -> None:
        self.trouble = self.dice.choice((0.0, 0.0, 0.4))

    async def _crash(self, node: str) -> None:
        """The server dies at its n-th step in the database, and another starts."""
        count, at = 0, self.dice.randrange(1, 6)
        records = self.b.core.records

        def dying(real: Any) -> Any:
            def call(*args: Any, **kwargs: Any) -> Any:
                nonlocal count
                count += 1
                if count >= at:
                    raise Crash
                return real(*args, **kwargs)

            return call

        for name in ("intend", "written", "change", "add_permit"):
            setattr(records, name, dying(getattr(records, name)))
        await self.b.tick()
        await self._restart(node)


SEEDS = range(int(os.environ.get("NV_SEEDS", "6")))


@pytest.mark.parametrize("seed", SEEDS)
def test_what_must_never_happen(tmp_path: Path, seed: int) -> None:
    with bench(tmp_path, count=NODES, guard=GUARD) as b:
        world = World(b, seed)

        async def day() -> None:
            for _ in range(60):
                await world.step()
                assert not world.wrong, world.wrong[0]

        asyncio.run(day())
        assert any(w[0] == "drain" for w in b.slurm.writes)
