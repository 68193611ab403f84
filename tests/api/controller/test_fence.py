"""Two servers on one database: only the one that leads writes to Slurm, whatever the other was at when it stopped."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import select

from api.controller.control import Controller
from api.controller.core import ControllerSettings
from api.controller.fence import EXPIRES_SECONDS, RENEW_SECONDS, Fence, Fenced
from api.controller.late import requeue_late
from api.controller.permits import Late
from api.controller.tables import controller_lease
from api.problems import problem_of
from api.store.database import Database
from api.store.store import Store
from checks.wire import JobAttempt
from slurm.job import JobState
from tests.api.controller.fake_slurm import Bench, bench, policy


@dataclass
class Clock:
    """One time for everybody: a stopped process loses it alike on every clock."""

    seconds: float = 0.0
    begun: datetime = field(default_factory=lambda: datetime.now(timezone.utc))

    def now(self) -> datetime:
        return self.begun + timedelta(seconds=self.seconds)

    def boot(self) -> float:
        return self.seconds


def server(b: Bench, clock: Clock) -> Controller:
    """One more server on the bench's database and Slurm, as on PostgreSQL."""
    database = Database(b.database.url)
    settings = ControllerSettings(cluster="sim")
    made = Controller(settings, database, Store(database, policy()), b.slurm, policy=policy(), alone=False)
    made.core.clock = clock.now
    made.core.fence._boot = clock.boot
    return made


async def tick(control: Controller) -> None:
    control._read_at = float("-inf")
    await control.tick()


@contextmanager
def two(tmp_path: Path) -> Iterator[tuple[Bench, Clock, Controller, Controller]]:
    with bench(tmp_path) as b:
        clock = Clock()
        b.offset = clock.now() - datetime.now(timezone.utc)
        yield b, clock, server(b, clock), server(b, clock)


def row(b: Bench) -> Any:
    with b.database.read() as connection:
        return connection.execute(select(controller_lease)).one()


def test_one_leads_and_the_other_takes_over_when_it_is_silent(tmp_path: Path) -> None:
    with two(tmp_path) as (b, clock, first, second):
        assert first.core.fence.lead() and not second.core.fence.lead()
        for _ in range(5):
            clock.seconds += RENEW_SECONDS
            assert first.core.fence.lead() and not second.core.fence.lead()
        assert row(b).epoch == 1, "renewed, not taken anew"
        clock.seconds += EXPIRES_SECONDS + 0.1
        assert second.core.fence.lead() and not first.core.fence.lead()
        assert (row(b).epoch, row(b).holder) == (2, second.core.fence.holder)


def test_an_orderly_end_lets_the_other_lead_at_once(tmp_path: Path) -> None:
    with two(tmp_path) as (_, _, first, second):
        assert first.core.fence.lead()
        first.core.fence.release()
        assert second.core.fence.lead() and not first.core.fence.lead()


def test_a_server_that_stands_by_writes_nothing_at_all(tmp_path: Path) -> None:
    with two(tmp_path) as (b, _, first, second):
        asyncio.run(tick(first))
        b.report("n2", b.lost())
        asyncio.run(tick(second))
        assert b.slurm.writes == [] and second.core.view.states
        with pytest.raises(Fenced):
            asyncio.run(second.drain("n3", "fan", "alice"))
        assert not asyncio.run(second.permit(b.request("n2", 7, b.lost()))).granted
        assert b.slurm.writes == []
        asyncio.run(tick(first))
        assert [w[:2] for w in b.slurm.writes] == [("drain", "n2")]


def test_a_person_at_the_wrong_server_is_told_so() -> None:
    assert problem_of(Fenced("another server leads")).status == 503


@pytest.mark.parametrize("step", ["intent", "announcement", "last look"])
def test_a_leader_that_is_paused_on_its_way_to_a_drain_does_not_write_it(tmp_path: Path, step: str) -> None:
    """SIGSTOP for a minute at each step between the intent and the write; another has settled the node meanwhile."""
    with two(tmp_path) as (b, clock, first, second):
        asyncio.run(tick(first))
        b.report("n2", b.lost(code="ecc_old"))
        b.report("n3", b.fine())
        paused = 0

        def pause(*_: object) -> None:
            nonlocal paused
            paused += 1
            if paused > 1:
                return
            clock.seconds += 60.0
            b.slurm.save()
            asyncio.run(tick(second))
            assert second.core.fence.epoch == 2

        core = first.core
        if step == "intent":
            _after(core.records, "intend", pause)
        elif step == "announcement":
            _after(b.slurm, "node", pause)
        else:
            _before(core.fence, "still", pause)
        asyncio.run(tick(first))
        assert paused >= 1 and core.counts["fenced_total"] >= 1
        drains = [w for w in b.slurm.writes if w[0] == "drain"]
        assert len(drains) <= 1, "the other server's at most"
        records = {r.reason: r.state for r in core.records.listing("sim", all_states=True)}
        assert all(reason in records for _, _, reason in drains)


def _after(thing: object, name: str, then: Any) -> None:
    real = getattr(thing, name)

    def call(*args: Any, **kwargs: Any) -> Any:
        result = real(*args, **kwargs)
        then()
        return result

    setattr(thing, name, call)


def _before(thing: object, name: str, first: Any) -> None:
    real = getattr(thing, name)

    def call(*args: Any, **kwargs: Any) -> Any:
        first()
        return real(*args, **kwargs)

    setattr(thing, name, call)


def test_a_leader_that_is_paused_too_long_writes_nothing_though_nobody_took_over(tmp_path: Path) -> None:
    """It cannot know that nobody did, and it asks before it goes on."""
    with two(tmp_path) as (b, clock, first, _):
        asyncio.run(tick(first))
        b.report("n2", b.lost())

        def pause() -> None:
            clock.seconds += 60.0

        _before(first.core.fence, "still", pause)
        asyncio.run(tick(first))
        assert b.slurm.writes == []
        first.core.fence.still = Fence.still.__get__(first.core.fence)  # type: ignore[method-assign]
        b.report("n2", b.lost(observed_at=clock.now()))
        for _ in range(2):
            asyncio.run(tick(first))
        assert [w[:2] for w in b.slurm.writes] == [("drain", "n2")] and row(b).epoch == 1


def test_a_deposed_leader_gives_no_node_back_and_requeues_no_job(tmp_path: Path) -> None:
    with two(tmp_path) as (b, clock, first, second):
        b.report("n2", b.lost())
        for _ in range(2):
            asyncio.run(tick(first))
        record = first.core.records.open_drains("sim")["n2"]
        b.slurm.jobs[7] = JobState(7, "RUNNING", restart_count=0)
        first.permits.late["n2"] = Late(JobAttempt(job_id=7, restart_count=0, nodes=1), record)
        clock.seconds += EXPIRES_SECONDS + 1
        assert second.core.fence.lead()
        b.slurm.writes.clear()
        asyncio.run(requeue_late(first.core, first.permits))
        with pytest.raises(Fenced):
            asyncio.run(first.resume("n2", "alice", verify=False, force=True))
        assert b.slurm.writes == [] and b.slurm.requeued == []
        assert second.core.records.open_drains("sim")["n2"].state == record.state


def test_a_deposed_leader_changes_no_record(tmp_path: Path) -> None:
    with two(tmp_path) as (b, clock, first, second):
        b.report("n2", b.lost())
        asyncio.run(tick(first))
        record = first.core.records.open_drains("sim")["n2"]
        clock.seconds += EXPIRES_SECONDS + 1
        assert second.core.fence.lead()
        with pytest.raises(Fenced):
            first.core.records.change(record, clock.now(), state="taken_over")
        assert second.core.records.open_drains("sim")["n2"].open


def test_a_new_server_on_a_file_that_only_it_holds_leads_at_once_in_a_new_epoch(tmp_path: Path) -> None:
    """The file lock says that the former one is dead; its last intents are not ours to finish under its epoch."""
    with bench(tmp_path) as b:
        asyncio.run(b.tick())
        old = b.core
        b.control = Controller(old.settings, b.database, b.store, b.slurm, policy=policy())
        asyncio.run(b.control.tick())
        assert row(b).epoch == 2 and b.control.metrics()["controller_leads"] == 1.0
        with pytest.raises(Fenced), old.fence.announcing():
            pass


def test_two_servers_on_an_empty_database_are_not_both_the_first(tmp_path: Path) -> None:
    with two(tmp_path) as (_, _, first, second):
        led = [first.core.fence.lead(), second.core.fence.lead()]
        assert sorted(led) == [False, True]


def test_the_lease_is_renewed_through_a_round_that_takes_long(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("api.controller.heart.RENEW_SECONDS", 0.02)
    monkeypatch.setattr("api.controller.fence.RENEW_SECONDS", 0.01)
    with bench(tmp_path) as b:
        renewed = asyncio.Event()

        async def story() -> None:
            loop = asyncio.get_running_loop()
            real, times = b.core.fence._renew, 0

            def counted() -> bool:
                nonlocal times
                times += 1
                if times > 2:
                    loop.call_soon_threadsafe(renewed.set)
                return real()

            b.core.fence._renew = counted  # type: ignore[method-assign]

            async def stuck() -> None:
                await asyncio.sleep(30)

            b.control.tick = stuck  # type: ignore[method-assign]
            running = asyncio.create_task(b.control.run())
            b.core.fence.lead()
            await asyncio.wait_for(renewed.wait(), 20)
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)

        asyncio.run(story())
        assert b.core.fence.epoch is None, "released at the end"
