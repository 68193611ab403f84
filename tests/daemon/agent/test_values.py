"""The agent's parts as values: ages, places in time, budgets, attempts, answers and what is rescued."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import ClassVar, cast

import pytest

from checks.declare import Check, code, ok
from checks.judge.policy import shipped
from checks.runner import Outcome
from checks.wire import Finding, JobAttempt, Limits, Report
from daemon.agent import codes
from daemon.agent.answers import Answer, Answers
from daemon.agent.attempt import attempt_of
from daemon.agent.budget import budget
from daemon.agent.findings import Findings
from daemon.agent.frames import Frame, Unpacker, pack
from daemon.agent.identity import Identity
from daemon.agent.judge import Judge
from daemon.agent.reporting import Reporter
from daemon.agent.rescue import rescue
from daemon.agent.schedule import Schedule, next_due
from daemon.config import AgentSettings
from daemon.outbox.outbox import Outbox
from daemon.plan import Instance
from slurm.jobenv import JobEnv

START = datetime(2026, 12, 1, tzinfo=timezone.utc)
BAD = code("test_values_bad", "fail", "node", "bad")


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


@pytest.mark.parametrize(
    ("limit", "remaining", "answer"),
    [
        (None, None, 7.0),
        (8.0, None, 7.0),
        (4.0, None, 3.0),
        (60.0, None, 7.0),
        (None, "3.300", 3.0),
        (8.0, "nan", 7.0),
        (8.0, "-1", 7.0),
        (8.0, "x" * 100, 7.0),
        (1.0, None, 0.5),
        (None, "0.1", 0.5),
    ],
)
def test_budgets_lie_inside_each_other(limit: float | None, remaining: str | None, answer: float) -> None:
    limits = None if limit is None else Limits(budget=limit)
    made = budget(AgentSettings(), limits, remaining)
    assert made.answer == pytest.approx(answer)
    assert made.for_gate < made.answer
    assert made.for_permit < made.answer
    assert made.for_refresh <= made.answer / 2


GRES = "NodeName=n[1-4] Name=gpu Type=h100 File=/dev/nvidia[4-7,0-3]\n"


@pytest.mark.parametrize(
    ("variables", "minors"),
    [
        ({"SLURM_JOB_GPUS": "0,1"}, (4, 5)),
        ({"SLURM_JOB_GPUS": "4-6"}, (0, 1, 2)),
        ({}, ()),
        ({"SLURM_JOB_GPUS": "0,8"}, None),
        ({"SLURM_JOB_GPUS": "$(id)"}, None),
        ({"SLURM_JOB_GPUS": "0", "SLURMD_NODENAME": "n9"}, None),
    ],
)
def test_a_jobs_gpus_are_minors_of_gres_conf(variables: dict[str, str], minors: tuple[int, ...] | None) -> None:
    env = JobEnv.parse({"SLURM_JOB_ID": "5", "SLURM_JOB_RESTART_COUNT": "0", **variables})
    job, why = attempt_of(env, GRES, variables.get("SLURMD_NODENAME", "n1"))
    assert job is not None and job.gpu_minors == minors
    assert bool(why) is (minors is None)


def test_an_old_slurm_says_nothing_about_gpus_by_saying_nothing() -> None:
    job, why = attempt_of(JobEnv.parse({"SLURM_JOB_ID": "5"}), GRES, "n1")
    assert job is not None and job.gpu_minors is None
    assert "does not tell" in why


def test_answers_of_former_attempts_are_not_given_again() -> None:
    async def body() -> None:
        now = [0.0]
        answers, made = Answers(lambda: now[0]), iter(range(100))

        async def find() -> Answer:
            return Answer(0, str(next(made)))

        named = JobAttempt(job_id=1, restart_count=0)
        nameless = JobAttempt(job_id=2)

        async def ask(job: JobAttempt) -> str:
            return (await answers.task("prolog", job, find)).line

        assert [await ask(named), await ask(named), await ask(nameless)] == ["0", "0", "1"]
        now[0] = 61
        assert [await ask(named), await ask(nameless)] == ["0", "2"]
        answers.ended(2)
        assert await ask(nameless) == "3"
        now[0] = 700
        assert await ask(named) == "4"
        answers.seed("prolog", JobAttempt(job_id=9, restart_count=1), Answer(1, "before"), 30)
        assert await ask(JobAttempt(job_id=9, restart_count=1)) == "before"

    asyncio.run(body())


def test_frames_survive_any_cut() -> None:
    frames = [Frame(n, "op", "text", n * 1.5, bytes(n)) for n in range(20)]
    data = b"".join(map(pack, frames))
    unpacker = Unpacker()
    found = [frame for n in range(0, len(data), 7) for frame in unpacker.feed(data[n : n + 7])]
    assert found == frames
    with pytest.raises(ValueError, match="limit"):
        unpacker.feed(b"\xff\xff\xff\xff")


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
    reporter.interval()
    reporter.interval()
    assert [len(r.findings) for r in box.reports] == [1, 0]
    assert [r.facts is not None for r in box.reports] == [True, False]


@pytest.mark.parametrize(
    "text",
    [
        '[agent]\nsocket = "/run/x.sock"\nnode = "n7"\nanswer_bugdet = 3\n',
        '[agent]\nsocket = "/run/x.sock"\nnode = "n7"\ngate_budget = "soon"\n',
        '[agent]\nsocket = "/run/x.sock"\nnode = "n7"\nthis is no toml\n[checks.nope]\nx = 1\n',
        '[agent]\nsocket = "/run/x.sock"\nnode = "n7"\n[checks.gpu_count]\nx = [[[\n',
    ],
)
def test_a_broken_configuration_still_yields_its_paths(tmp_path: Path, text: str) -> None:
    path = tmp_path / "nodevet.toml"
    path.write_text(text)
    path.chmod(0o600)
    found = rescue(path, {}).agent
    assert (found.socket, found.node) == ("/run/x.sock", "n7")
    assert found.answer_budget == 7.0


def test_nothing_is_rescued_from_a_file_that_others_could_have_written(tmp_path: Path) -> None:
    path = tmp_path / "nodevet.toml"
    path.write_text('[agent]\nsocket = "/run/evil.sock"\n')
    path.chmod(0o666)
    assert rescue(path, {}).agent.socket == AgentSettings().socket
    assert rescue(tmp_path / "missing", {"NODEVET_AGENT_SOCKET": "/run/y"}).agent.socket == "/run/y"
