"""Starts of jobs are counted by how they were answered, and what began meanwhile is kept with the job."""

from __future__ import annotations

from datetime import datetime, timedelta

import pytest
from starlette.testclient import TestClient

from api.store.starts import outcome_of
from api.store.store import Store
from api.store.views import JobFilter
from checks.judge.peers import chance_of
from checks.wire import Decision, Finding, JobAttempt, Report, Unvetted
from tests.api.fakes import T0, batch, finding, report

DAY = 86400.0
REFUSED = Decision(verdict="faulty", wanted="refuse", allowed="refuse", codes=("gpu_lost",), reason="gpu_lost GPU 3")
ADMITTED = Decision(verdict="healthy", wanted="admit", allowed="admit")


def at(seconds: float) -> datetime:
    return T0 + timedelta(seconds=seconds)


def prolog(number: int, job: JobAttempt, decision: Decision = ADMITTED, node: str = "n1", when: float = 0) -> Report:
    return report(number, node=node, occasion="prolog", job=job, decision=decision, at=at(when))


def epilog(number: int, job: JobAttempt, *findings: Finding, node: str = "n1", when: float = 100) -> Report:
    return report(number, *findings, node=node, occasion="epilog", job=job, at=at(when))


def began(since: float, target: str = "GPU 3", code: str = "gpu_xid_reset") -> Finding:
    return Finding(
        check="gpu_xid", target=target, status="fail", code=code, blame="node", since=at(since), observed_at=at(since)
    )


def job(number: int, restart: int | None = 0, nodes: int = 1) -> JobAttempt:
    return JobAttempt(job_id=number, restart_count=restart, uid=1000, nodes=nodes, gpu_minors=(0, 1))


@pytest.mark.parametrize(
    ("decision", "expected"),
    [
        (ADMITTED, "vetted"),
        (REFUSED, "refused"),
        (
            Decision(verdict="faulty", wanted="refuse", allowed="admit", why="no permit: guard"),
            "admitted_without_permit",
        ),
        (Decision(verdict="faulty", wanted="refuse", allowed="admit", why="hands off: the STOP file is there"), "stop"),
        (Decision(verdict="healthy", wanted="admit", why="the STOP file is there"), "stop"),
        (Decision(verdict="unknown", wanted="admit", why="configuration is broken: x"), "config_broken"),
        (Decision(verdict="healthy", wanted="admit", why="paused by ann"), "paused"),
        (Decision(verdict="unknown", wanted="admit"), "unknown_verdict"),
        (Decision(verdict="faulty", wanted="drain", allowed="drain"), "vetted"),
    ],
)
def test_names_how_a_start_was_answered(decision: Decision, expected: str) -> None:
    assert outcome_of(decision) == expected


def test_counts_starts_by_cause(store: Store) -> None:
    mark = Unvetted(job_id=4, restart_count=0, cause="hook_no_agent", at=at(5))
    told = report(9, occasion="interval")
    told = Report(**{name: getattr(told, name) for name in told.__struct_fields__} | {"unvetted": (mark,)})
    without = Decision(verdict="faulty", wanted="refuse", allowed="admit", why="no permit: guard closed")
    store.ingest(batch(prolog(1, job(1)), prolog(2, job(2), REFUSED), prolog(3, job(3), without), told), T0)
    store.ingest(batch(epilog(10, job(5))), at(100))
    seen = store.starts(DAY, at(200))
    assert seen.causes == {"admitted_without_permit": 1, "hook_no_agent": 1, "no_prolog_report": 1}
    assert (seen.starts, seen.vetted, seen.refused, seen.unvetted, seen.jobs_unvetted) == (5, 1, 1, 3, 3)
    assert seen.protected == 40.0
    assert [s.job_id for s in seen.newest] == [5, 4, 3]
    assert store.starts(10.0, at(500)).protected is None


def test_a_cause_told_late_replaces_what_was_thought(store: Store) -> None:
    late = Unvetted(job_id=7, restart_count=0, cause="gate_expired", at=at(6))
    told = report(2)
    told = Report(**{name: getattr(told, name) for name in told.__struct_fields__} | {"unvetted": (late,)})
    store.ingest(batch(prolog(1, job(7)), told), T0)
    assert store.starts(DAY, at(9)).causes == {"gate_expired": 1}
    # The same cause told again, and the end of the job, add no start.
    store.ingest(batch(epilog(3, job(7))), at(100))
    assert store.starts(DAY, at(200)).starts == 1


def test_a_node_of_a_job_that_nobody_spoke_for_is_missed(store: Store) -> None:
    store.ingest(batch(prolog(1, job(8, nodes=3))), T0)
    assert store.starts(DAY, at(60)).causes == {}
    seen = store.starts(DAY, at(600))
    assert (seen.causes, seen.starts, seen.jobs_unvetted) == ({"no_report": 2}, 3, 1)


def test_an_attempt_without_a_count_is_a_new_start_after_its_end(store: Store) -> None:
    again = job(9, None)
    store.ingest(batch(prolog(1, again), epilog(2, again), prolog(3, again, when=200)), T0)
    assert store.starts(DAY, at(300)).starts == 2


def test_what_began_during_a_job_is_kept_with_it(store: Store) -> None:
    old, new = began(-50, "GPU 0"), began(50)
    gone = began(20, "GPU 1")
    store.ingest(batch(prolog(1, job(1)), report(2, gone, at=at(20)), report(3, old, new, at=at(60))), at(60))
    store.ingest(batch(epilog(4, job(1))), at(100))
    told = store.began("c", job_id=1)
    assert sorted((b.target, b.code, b.uid, b.gpu_minors, b.shared) for b in told) == [
        ("GPU 1", "gpu_xid_reset", 1000, (0, 1), False),
        ("GPU 3", "gpu_xid_reset", 1000, (0, 1), False),
    ]
    assert {b.began_at for b in told} == {at(20), at(50)}
    assert store.began("c", node="n1") == told


def test_what_the_prolog_saw_or_is_our_own_trouble_did_not_begin_with_the_job(store: Store) -> None:
    seen = report(1, began(3), occasion="prolog", job=job(1), decision=ADMITTED, at=at(0))
    ours = Finding(check="agent", target="node", status="fail", code="x", blame="self", since=at(50))
    store.ingest(batch(seen, report(2, began(3), ours, at=at(60)), epilog(3, job(1), began(3))), at(100))
    assert store.began("c", job_id=1) == []


def test_says_when_another_job_had_part_of_the_node(store: Store) -> None:
    store.ingest(batch(prolog(1, job(1)), prolog(2, job(2), when=10), epilog(3, job(1), began(50))), at(100))
    assert [b.shared for b in store.began("c", job_id=1)] == [True]


def many(store: Store, nodes: int, others: int = 0) -> list[str]:
    for i in range(others):
        store.ingest(batch(report(1, began(50), node=f"other{i}", at=at(60))), at(60))
    for i in range(nodes):
        node = f"n{i}"
        store.ingest(batch(prolog(1, job(1, nodes=nodes), node=node), epilog(2, job(1), began(50), node=node)), at(100))
    return [i.message for i in store.incidents(is_open=True) if i.kind == "job"]


def test_one_job_many_nodes_is_one_incident_of_the_job(store: Store) -> None:
    (told,) = many(store, 4)
    assert told == "gpu_xid_reset began on 4 nodes during job 1: look at the job before its nodes"


def test_an_incident_of_a_job_ends_when_nothing_more_begins(store: Store) -> None:
    many(store, 3)
    store.retire(at(0.5 * DAY))
    assert [i.kind for i in store.incidents(is_open=True) if i.kind == "job"] == ["job"]
    store.retire(at(1.1 * DAY))
    assert [i.kind for i in store.incidents(is_open=True) if i.kind == "job"] == []


def test_two_nodes_are_no_pattern(store: Store) -> None:
    assert many(store, 2) == []


def test_a_fault_that_begins_everywhere_is_not_the_jobs(store: Store) -> None:
    assert many(store, 3, others=3) == []


def test_lists_refused_and_held_attempts(store: Store, client: TestClient, viewer: dict[str, str]) -> None:
    store.ingest(batch(prolog(1, job(1)), prolog(2, job(2), REFUSED), prolog(3, job(3), REFUSED)), at(0))
    with store.database.begin() as connection:
        from api.store.fates import write_fate

        write_fate(connection, "c", "3.0", T0, "held", "PENDING launch failed requeued held", None)
    attempts = [v.attempt for _, v in store.jobs(wanted=JobFilter(only="refused"))]
    assert attempts == ["3.0", "2.0"]
    seen = client.get("/api/v1/jobs?only=held", headers=viewer).json()["items"]
    assert [(row["attempt"], row["fate"]) for row in seen] == [("3.0", "held")]
    assert client.get("/api/v1/jobs?only=nonsense", headers=viewer).status_code == 422
    assert store.jobs(wanted=JobFilter(since=at(3600))) == []


def test_explains_a_refusal_to_user_and_operator(store: Store, client: TestClient, viewer: dict[str, str]) -> None:
    store.ingest(batch(prolog(1, job(2), REFUSED), prolog(2, job(2, 1), when=150)), at(0))
    first, second = client.get("/api/v1/jobs/c/2/explain", headers=viewer).json()["attempts"]
    assert first["for_operator"].startswith("refused on n1: gpu_lost GPU 3. slurm requeues")
    assert first["for_user"].startswith("not started: node n1 was found faulty before the job began")
    assert "gpu_lost" not in first["for_user"]
    assert (second["attempt"], second["for_user"]) == ("2.1", "started")
    assert client.get("/api/v1/jobs/c/99/explain", headers=viewer).status_code == 404


def test_coverage_and_lemons_are_served(store: Store, client: TestClient, viewer: dict[str, str]) -> None:
    store.ingest(batch(prolog(1, job(1))), at(0))
    assert client.get("/api/v1/coverage?since=31000000", headers=viewer).json()["jobs"]["starts"] in (0, 1)
    assert "too little data" in client.get("/api/v1/lemons", headers=viewer).json()["why_none"]


def fleet(store: Store, bad_days: int) -> None:
    """Six nodes with 50 jobs each; the first has one fault a day on the first days."""
    for i in range(6):
        reports = [prolog(n, job(1000 * i + n), node=f"n{i}", when=60 * n) for n in range(1, 51)]
        store.ingest(batch(*reports), at(0))
    for day in range(bad_days):
        when = 86400.0 * day
        sick = report(100 + 2 * day, finding(target=f"GPU {day}"), node="n0", at=at(when + 4000))
        store.ingest(batch(sick), at(when + 4000))


def test_a_node_worse_than_its_peers_is_shown(store: Store) -> None:
    fleet(store, 5)
    seen = store.lemons(30 * DAY, at(6 * DAY))
    (lemon,) = seen.items
    assert (lemon.node, lemon.starts, lemon.episodes, lemon.incidents, lemon.peers_per_1000) == ("n0", 50, 5, 5, 0.0)
    assert lemon.chance < 0.01


def test_two_troubles_are_too_few(store: Store) -> None:
    fleet(store, 2)
    seen = store.lemons(30 * DAY, at(6 * DAY))
    assert seen.items == () and seen.why_none == "no node stands out from its peers by more than chance"


@pytest.mark.parametrize(
    ("numbers", "expected"),
    [
        ((0, 10.0, 5, 10.0), 1.0),
        ((3, 0.0, 5, 10.0), 1.0),
        ((1, 10.0, 0, 10.0), 0.5),
        ((2, 1.0, 0, 1.0), 0.25),
        # P(X >= 3), X ~ Bin(4, 1/2)
        ((3, 7.0, 1, 7.0), 5 / 16),
    ],
)
def test_chance_is_the_binomial_tail(numbers: tuple[int, float, int, float], expected: float) -> None:
    assert chance_of(*numbers) == pytest.approx(expected)


def test_history_of_starts_goes_with_the_rest(store: Store) -> None:
    store.ingest(batch(prolog(1, job(1)), epilog(2, job(1), began(50))), at(100))
    store.prune(1.0, at(3 * DAY))
    assert store.starts(30 * DAY, at(3 * DAY)).starts == 0
    assert store.began("c") == []
