"""Failing jobs and users' exclusions tell of a node only where they cannot as well tell of a user or of chance."""

from __future__ import annotations

import asyncio
import itertools
import math
import random
from datetime import datetime, timedelta, timezone
from pathlib import Path

import pytest

from api.controller.avoided import Avoided
from api.store import exclusions
from api.store.facts import keep
from api.store.failures import failed
from api.store.lemon_views import FailingNode
from api.store.store import Store
from checks.judge.peers import Stratum, chance_among
from slurm.errors import BadAnswer
from slurm.exclusions import Exclusion, exclusions_from_columns, exclusions_from_json
from slurm.jobfacts import JobFacts
from tests.api.controller.fake_slurm import bench

NOW = datetime(2026, 12, 1, 12, 0, tzinfo=timezone.utc)
EXIT_1 = 1 << 8
MONTH = 30 * 86400.0


class Jobs:
    """Ends of jobs as slurmctld tells them."""

    def __init__(self, store: Store) -> None:
        self.store, self.ids = store, itertools.count(1)

    def end(self, nodes: str, *, uid: int = 1, bad: bool = False, days: float = 0.0, status: int = EXIT_1) -> None:
        facts = JobFacts(
            at=NOW - timedelta(days=days), cluster="c", job_id=next(self.ids), restart_count=0, uid=uid,
            partition="gpu", nodelist=nodes, exit_status=status if bad else 0,
        )  # fmt: skip
        with self.store.database.begin() as connection:
            keep(connection, "c", [("end", facts)], NOW)

    def failing(self) -> dict[str, FailingNode]:
        return {f.node: f for f in self.store.lemons(MONTH, NOW).failing}


@pytest.fixture
def jobs(store: Store) -> Jobs:
    return Jobs(store)


def fleet(jobs: Jobs, users: int, bad_at: str = "", each: int = 4) -> None:
    """Every user runs jobs on n0 to n9; those on ``bad_at`` fail."""
    for uid in range(1, users + 1):
        for n, _ in itertools.product(range(10), range(each)):
            jobs.end(f"n{n}", uid=uid, bad=f"n{n}" == bad_at)


def test_a_node_where_several_users_jobs_fail_stands_out(jobs: Jobs) -> None:
    fleet(jobs, users=3, bad_at="n4")
    found = jobs.failing()
    assert set(found) == {"n4"}
    assert (found["n4"].jobs, found["n4"].failed, found["n4"].users) == (12, 12, 3)
    assert found["n4"].expected == 1.2 and found["n4"].chance < 1e-9


def test_a_user_whose_jobs_all_fail_blames_no_node(jobs: Jobs) -> None:
    """The black hole turned round: one user's broken program runs where there is room, and fails each time."""
    fleet(jobs, users=3)
    for _ in range(200):
        jobs.end("n4", uid=9, bad=True)
        jobs.end("n5", uid=8, bad=True)
    assert jobs.failing() == {}


def test_one_user_alone_blames_no_node_however_clear_it_looks(jobs: Jobs) -> None:
    fleet(jobs, users=1, bad_at="n4", each=20)
    assert jobs.failing() == {}


def test_a_bad_day_of_two_users_is_not_the_nodes_that_were_free_that_day(jobs: Jobs) -> None:
    fleet(jobs, users=2)
    for uid, _ in itertools.product((1, 2), range(30)):
        jobs.end("n4", uid=uid, bad=True, days=2)
    assert jobs.failing() == {}


def test_large_jobs_that_fail_more_often_do_not_blame_the_nodes_that_run_them(jobs: Jobs) -> None:
    fleet(jobs, users=3)
    for uid, _ in itertools.product((1, 2, 3), range(10)):
        jobs.end("n[0-8]", uid=uid, bad=True)
        jobs.end("n[1-9]", uid=uid, bad=True)
    assert jobs.failing() == {}


@pytest.mark.parametrize(
    ("status", "expected"), [(0, False), (EXIT_1, True), (11, True), (6, True), (7, True), (15, False), (9, False)]
)
def test_what_somebody_asked_for_is_no_failure(status: int, expected: bool) -> None:
    assert failed(status) is expected


def test_scancelled_and_refused_jobs_do_not_count(jobs: Jobs) -> None:
    for uid in (1, 2, 3):
        for n in range(10):
            jobs.end(f"n{n}", uid=uid, bad=n == 4, status=15)
    assert jobs.failing() == {}


def test_of_sound_fleets_hardly_one_shows_a_node(jobs: Jobs) -> None:
    """CHANCE is kept: twenty fleets of fifty sound nodes with one job in five failing."""
    chance = random.Random(7)
    shown = 0
    for fleet_ in range(20):
        strata = [[(chance.randrange(50), chance.random() < 0.2) for _ in range(150)] for _ in range(4)]
        for node in range(50):
            mine = [Stratum(len(s), sum(b for _, b in s), sum(n == node for n, _ in s)) for s in strata]
            bad = sum(b for s in strata for n, b in s if n == node)
            shown += bool(bad and chance_among(bad, mine) * 50 <= 0.05)
        assert shown <= 3, fleet_


def test_the_test_is_exact() -> None:
    """One stratum is Fisher's test; two are all of their draws counted out."""
    fisher = sum(math.comb(5, k) * math.comb(15, 6 - k) for k in (3, 4, 5)) / math.comb(20, 6)
    assert chance_among(3, [Stratum(20, 5, 6)]) == pytest.approx(fisher)
    draws = [
        sum(i < 2 for i in a) + sum(i < 1 for i in b)
        for a in itertools.combinations(range(5), 2)
        for b in itertools.combinations(range(4), 2)
    ]
    expected = sum(d >= 2 for d in draws) / len(draws)
    assert chance_among(2, [Stratum(5, 2, 2), Stratum(4, 1, 2)]) == pytest.approx(expected)
    assert chance_among(0, []) == 1.0 and chance_among(1, []) == 0.0
    assert chance_among(5, [Stratum(9, 9, 5)]) == 1.0


def test_without_ends_of_jobs_it_says_so(store: Store) -> None:
    assert store.lemons(MONTH, NOW).not_told == (
        "ends of jobs are not told: PrologSlurmctld and EpilogSlurmctld are not ours",
    )


def note(store: Store, *found: Exclusion, days: float = 0.0, largest: int = 4) -> None:
    with store.database.begin() as connection:
        exclusions.record(connection, "c", found, NOW - timedelta(days=days), largest)


def test_nodes_that_several_users_exclude_are_counted_by_users_and_days(store: Store) -> None:
    note(store, Exclusion(1, 1001, ("n1", "n2")), Exclusion(2, 1001, ("n1",)), Exclusion(3, 1002, ("n1",)))
    note(store, Exclusion(1, 1001, ("n1", "n2")), days=1)
    note(store, Exclusion(4, 1003, ("n2",)), days=40)
    seen = store.lemons(MONTH, NOW).excluded
    assert [(e.node, e.users, e.days) for e in seen] == [("n1", 2, 2)]
    assert "1001" not in repr(seen)


def test_a_list_of_a_whole_partition_speaks_of_no_node(store: Store) -> None:
    wide = tuple(f"n{n}" for n in range(5))
    note(store, Exclusion(1, 1001, wide), Exclusion(2, 1002, wide))
    assert store.lemons(MONTH, NOW).excluded == ()


def test_reads_what_squeue_prints() -> None:
    text = "41 1000 \n42 1001 n[1-3],n7\n43 1002 (null)\n"
    assert exclusions_from_columns(text) == [Exclusion(42, 1001, ("n1", "n2", "n3", "n7"))]
    assert exclusions_from_columns("") == []
    with pytest.raises(BadAnswer):
        exclusions_from_columns("slurm_load_jobs error: no")


def test_reads_what_slurmrestd_answers() -> None:
    told = {"job_id": 42, "user_id": 1001, "excluded_nodes": "n[1-2]"}
    jobs = [
        {**told, "job_state": ["PENDING"]},
        {**told, "job_id": 43, "job_state": "RUNNING"},
        {**told, "job_id": 44, "job_state": ["COMPLETED"]},
        {**told, "job_id": 45, "job_state": ["PENDING"], "excluded_nodes": ""},
        {"job_state": ["PENDING"], "name": "x"},
        "garbage",
    ]
    assert [e.job_id for e in exclusions_from_json({"jobs": jobs})] == [42, 43]
    with pytest.raises(BadAnswer):
        exclusions_from_json({})


def test_slurm_is_asked_once_in_ten_minutes_and_its_silence_changes_nothing(tmp_path: Path) -> None:
    with bench(tmp_path, count=8) as b:
        asked = []

        def answer() -> list[Exclusion]:
            asked.append(1)
            b.slurm._raise()
            return [Exclusion(1, 1001, ("n1",)), Exclusion(2, 1002, ("n1",))]

        b.slurm.exclusions = answer  # type: ignore[attr-defined]
        asyncio.run(b.tick())
        asyncio.run(b.tick())
        assert len(asked) == 1 and [e.node for e in b.store.lemons(MONTH).excluded] == ["n1"]
        avoided = Avoided(b.core, b.database)
        b.slurm.down()
        asyncio.run(avoided.look())
        assert len(asked) == 2 and [e.users for e in b.store.lemons(MONTH).excluded] == [2]
