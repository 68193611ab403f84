"""Findings age by the monotonic clock, rounds have their places in time, and the first report is whole."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from datetime import datetime, timedelta, timezone
from typing import Any, ClassVar, cast

import pytest

from checks.declare import Check, code, ok
from checks.judge.policy import shipped
from checks.profile import GENERIC
from checks.runner import Outcome
from checks.wire import Finding, JobAttempt, Report
from daemon.agent import codes
from daemon.agent.findings import Findings
from daemon.agent.identity import Identity
from daemon.agent.judge import Judge
from daemon.agent.prolog import Hooks
from daemon.agent.reporting import Reporter
from daemon.agent.schedule import Asks, Schedule, next_due
from daemon.config import parse_config
from daemon.lanes.pool import LanePool
from daemon.outbox.outbox import Outbox
from daemon.plan import Instance, plan

START = datetime(2026, 12, 1, tzinfo=timezone.utc)
BAD = code("test_rounds_bad", "fail", "node", "bad")


def no_findings(host: object) -> Iterator[Finding]:
    yield from ()


def instance(name: str = "probe", interval: float = 30.0, required: bool = False) -> Instance:
    check = Check(name.partition(":")[0], no_findings, "probe", "lane", required=required)
    return Instance(name, check, {}, "lane", interval, 2.0)


class Clocks:
    """A monotonic and a wall clock that can part."""

    def __init__(self) -> None:
        self.seconds = 1000.0
        self.wall = START

    def store(self) -> Findings:
        return Findings(lambda: self.seconds, lambda: self.wall)

    def pass_(self, seconds: float) -> None:
        self.seconds += seconds
        self.wall += timedelta(seconds=seconds)


def outcome(clocks: Clocks, *findings: Finding) -> Outcome:
    import msgspec

    stamped = (msgspec.structs.replace(f, check="probe", observed_at=clocks.wall) for f in findings)
    return Outcome("probe", tuple(stamped), 0.01)


def test_seen_counts_rounds_and_since_stays() -> None:
    clocks = Clocks()
    store, probe = clocks.store(), instance()
    assert store.take(probe, outcome(clocks, BAD("gpu0"))) is True
    for _ in range(3):
        clocks.pass_(30)
        assert store.take(probe, outcome(clocks, BAD("gpu0"))) is False
    (found,) = store.current()
    assert (found.seen, found.since) == (4, START)
    clocks.pass_(30)
    assert store.take(probe, outcome(clocks, ok("gpu0"))) is True
    clocks.pass_(30)
    assert store.take(probe, outcome(clocks, BAD("gpu0"))) is True
    assert store.current()[0].seen == 1


def test_many_looks_in_a_moment_are_one_round() -> None:
    clocks = Clocks()
    store, probe = clocks.store(), instance()
    for _ in range(10):
        clocks.pass_(1)
        store.take(probe, outcome(clocks, BAD("gpu0")))
    assert store.current()[0].seen == 1
    clocks.pass_(30)
    store.take(probe, outcome(clocks, BAD("gpu0")))
    assert store.current()[0].seen == 2


BUSY = code("test_rounds_busy", "unknown", "self", "lane was busy")


def test_our_own_trouble_takes_no_fault_back_before_it_is_stale() -> None:
    clocks = Clocks()
    store, probe = clocks.store(), instance()
    for _ in range(2):
        store.take(probe, outcome(clocks, BAD("gpu0")))
        clocks.pass_(30)
    assert store.take(probe, outcome(clocks, BUSY("node"))) is True
    assert {(f.code, f.seen) for f in store.current()} == {("test_rounds_bad", 2), ("test_rounds_busy", 1)}
    assert store.age(probe) == 30
    ages = {f.code: (clocks.wall - f.observed_at).total_seconds() for f in store.current() if f.observed_at}
    assert ages == {"test_rounds_bad": 30, "test_rounds_busy": 0}
    clocks.pass_(15)
    assert store.take(probe, outcome(clocks, BAD("gpu0"))) is True
    assert [(f.code, f.seen) for f in store.current()] == [("test_rounds_bad", 3)]
    clocks.pass_(61)
    store.take(probe, outcome(clocks, BUSY("node")))
    assert [f.code for f in store.current()] == ["test_rounds_busy"]


@pytest.mark.parametrize("jump", [-86400.0, -3.0, 3.0, 86400.0 * 365])
def test_a_wall_clock_that_jumps_changes_no_age(jump: float) -> None:
    clocks = Clocks()
    store, probe = clocks.store(), instance()
    store.take(probe, outcome(clocks, BAD("gpu0")))
    clocks.pass_(10)
    clocks.wall += timedelta(seconds=jump)
    assert store.age(probe) == 10
    assert store.stale([probe]) == []
    seen = store.current()[0].observed_at
    assert seen is not None
    assert (clocks.wall - seen).total_seconds() == pytest.approx(10)
    clocks.pass_(51)
    assert store.stale([probe]) == [probe]


def _asked_before_a_job(took: dict[str, float], **answers: Finding) -> set[str]:
    """Of these checks of one lane, which answered a minute ago, ``required`` alone is required."""
    clocks, schedule = Clocks(), Schedule("n7", cast(LanePool, None), lambda instance, outcome: None)
    store = clocks.store()
    asked = [instance(name, interval=120.0, required=name == "required") for name in took]
    for one in asked:
        found = (answers.get(one.name, ok("node")),)
        store.take(one, Outcome(one.name, found, took[one.name]))
    schedule.replace(asked)
    clocks.pass_(60)
    none = cast(Any, None)
    hooks = Hooks(none, none, schedule, store, none, none, none, none, none, none)
    return {one.name for one in hooks._due()}


def test_no_job_waits_for_a_slow_check_that_is_not_required() -> None:
    assert _asked_before_a_job({"required": 3.0, "slow": 3.0, "quick": 0.1}) == {"required", "quick"}
    assert _asked_before_a_job({"a": 0.2, "b": 0.2, "c": 0.2}) == {"a", "b"}


def test_what_does_not_apply_to_the_node_is_not_asked_before_a_job() -> None:
    skipped = Finding(check="weka", target="node", status="skipped", code="not_applicable", message="no mount")
    assert _asked_before_a_job({"required": 0.1, "weka": 0.1}, required=skipped, weka=skipped) == {"required"}


def test_a_question_that_hung_is_left_to_its_interval() -> None:
    clocks, probe = Clocks(), instance(interval=120.0)
    store = clocks.store()
    store.take(probe, outcome(clocks, BAD("gpu0")))
    assert store.quick([probe], 0.5) == [probe]
    store.take(probe, Outcome("probe", (BUSY("node"),), 5.0))
    assert store.quick([probe], 0.5) == []


def test_what_is_no_longer_asked_is_forgotten() -> None:
    clocks = Clocks()
    store = clocks.store()
    store.take(instance("probe:/a"), outcome(clocks, BAD("/a")))
    store.take(instance("probe:/b"), outcome(clocks, BAD("/b")))
    store.keep_only([instance("probe:/b")])
    assert [f.target for f in store.current()] == ["/b"]
    assert store.current({"other"}) == ()


def test_the_agents_own_words_come_and_go() -> None:
    store = Clocks().store()
    assert store.note(codes.STATE_DIR_FAILED, error="ENOSPC") is True
    assert store.note(codes.STATE_DIR_FAILED, error="EROFS") is False
    (found,) = store.current()
    assert (found.check, found.status, found.blame, found.seen) == ("agent", "unknown", "self", 2)
    assert store.settled(codes.STATE_DIR_FAILED) is True
    assert store.current() == ()


def test_every_word_about_ourselves_is_unknown_and_ours() -> None:
    ours = [value for value in vars(codes).values() if hasattr(value, "template")]
    assert len(ours) >= 10
    assert {(c.status, c.blame) for c in ours} == {("unknown", "self")}


@pytest.mark.parametrize("interval", [0.1, 1.0, 7.0, 30.0, 300.0])
def test_places_are_whole_seconds_at_least_one_away_and_keep_the_interval(interval: float) -> None:
    probe = instance(interval=interval)
    now = 12345.678
    previous = None
    for _ in range(5):
        due = next_due("n1", probe, now)
        assert due == int(due)
        assert due - now >= 1.0
        if previous is not None:
            assert due - previous == pytest.approx(max(1.0, interval), abs=1.0)
        previous, now = due, due + 0.001


def test_places_are_the_same_each_time_and_spread_over_nodes() -> None:
    probe = instance(interval=60.0)
    places = [next_due(f"n{n}", probe, 1000.0) % 60 for n in range(200)]
    assert places == [next_due(f"n{n}", probe, 1000.0) % 60 for n in range(200)]
    assert len(set(places)) > 40


def test_what_a_node_asks_falls_together() -> None:
    seconds = {
        next_due("n7", instance(f"c{n}", float(every)), 1000.0) % 10 for n, every in enumerate((10, 30, 60, 300))
    }
    assert len(seconds) == 1


def test_what_changes_rarely_is_not_asked_before_each_job() -> None:
    schedule = Schedule("n7", cast(LanePool, None), lambda instance, outcome: None)
    declared = {"often": 300.0, "seldom": 600.0, "slowed": 60.0, "hurried": 3600.0}
    asked = {"often": 300.0, "seldom": 600.0, "slowed": 900.0, "hurried": 60.0}
    schedule.replace(
        [Instance(n, Check(n, no_findings, "t", "l", interval=e), {}, "l", asked[n], 2.0) for n, e in declared.items()]
    )
    # A site that asks more seldom between jobs still has it asked before one.
    assert [i.name for i in schedule.cheap] == ["often", "slowed", "hurried"]


def test_a_question_under_way_is_joined() -> None:
    asked: list[str] = []

    class Slow:
        async def run(
            self, one: Instance, job: JobAttempt | None = None, *, timeout: float | None = None, manual: bool = False
        ) -> Outcome:
            asked.append(one.name)
            await asyncio.sleep(0.1)
            return Outcome(one.check.name, (), 0.1)

    async def body() -> None:
        done: list[str] = []
        schedule = Schedule("n1", Slow(), lambda one, _: done.append(one.name))
        probe = instance()
        await asyncio.gather(schedule.refresh([probe], 1.0), schedule.refresh([probe], 1.0))
        assert (asked, done) == (["probe"], ["probe"])
        await schedule.refresh([probe], 0.01)
        assert len(done) == 1
        await asyncio.sleep(0.15)
        assert len(done) == 2

    asyncio.run(body())


def test_what_keeps_devices_busy_is_asked_by_order_alone() -> None:
    """And no job waits for what is declared to be asked rarely."""
    every = plan(parse_config("", None, {}), GENERIC)
    schedule = Schedule("n1", cast(Asks, None), lambda *_: None)
    schedule.replace(every)
    assert "dcgm_diag" in {i.check.name for i in every}
    assert "dcgm_diag" not in {i.check.name for i in schedule.periodic}
    assert "dcgm_health" in {i.check.name for i in schedule.periodic}
    cheap = {i.check.name for i in schedule.cheap}
    assert "dcgm_health" not in cheap and {"gpu_health", "memory"} <= cheap


def test_the_first_report_is_whole_on_a_node_that_has_just_booted(monkeypatch: pytest.MonkeyPatch) -> None:
    class Box:
        incarnation = "i"
        reports: ClassVar[list[Report]] = []

        def add(self, report: Report) -> None:
            self.reports.append(report)

    async def nothing() -> list[str]:
        return []

    clocks = Clocks()
    store = clocks.store()
    store.take(instance(), outcome(clocks, BAD("gpu0")))
    box = Box()
    reporter = Reporter(Identity("c", "n1"), cast(Outbox, box), store, Judge(shipped(), ()), nothing)
    monkeypatch.setattr("daemon.agent.reporting.time.monotonic", lambda: 5.0)
    reporter.resting = ("gpu_leftover",)
    reporter.interval()
    reporter.interval()
    assert [[f.status for f in r.findings] for r in box.reports] == [["fail", "skipped"], []]
    assert box.reports[0].findings[1].check == "gpu_leftover", "what a job's hook found there is over"
    assert [r.facts is not None for r in box.reports] == [True, False]
