"""A job that slurmctld told of and no hook spoke for has begun unvetted, and the cause says what to mend."""

from __future__ import annotations

from datetime import datetime, timedelta

from sqlalchemy import insert

from api.controller.tables import pauses
from api.store.facts import keep
from api.store.store import Store
from checks.wire import Decision, JobAttempt, PollRequest
from slurm.jobfacts import JobFacts
from tests.api.fakes import T0, batch, report

ADMITTED = Decision(verdict="healthy", wanted="admit", allowed="admit")
REFUSED = Decision(verdict="faulty", wanted="refuse", allowed="refuse", codes=("gpu_lost",), reason="x")
DAY = 86400.0


def at(minutes: float) -> datetime:
    return T0 + timedelta(minutes=minutes)


def begins(store: Store, job: int, nodes: str, minutes: float = 60.0, count: int | None = 0) -> None:
    facts = JobFacts(at=at(minutes), cluster="c", job_id=job, restart_count=count, nodelist=nodes)
    with store.database.begin() as connection:
        keep(connection, "c", [("start", facts)], at(minutes))


def heard(store: Store, node: str, minutes: float) -> None:
    store.touch(PollRequest(cluster="c", node=node, incarnation="i", wait=0.0), at(minutes))


def vetted(store: Store, job: int, node: str, number: int, decision: Decision = ADMITTED, nodes: int = 1) -> None:
    attempt = JobAttempt(job_id=job, restart_count=0, nodes=nodes)
    store.ingest(batch(report(number, node=node, occasion="prolog", job=attempt, decision=decision, at=at(60))), at(61))


def causes(store: Store) -> dict[str, int]:
    return store.starts(DAY, at(120)).causes


def test_each_start_that_nobody_spoke_for_has_its_cause(store: Store) -> None:
    heard(store, "n2", 30)
    heard(store, "n3", 62)
    vetted(store, 7, "n4", 1, nodes=4)
    begins(store, 7, "n[1-4]")
    seen = store.starts(DAY, at(120))
    assert seen.causes == {"no_agent": 1, "agent_away": 1, "no_hook": 1}
    assert (seen.starts, seen.vetted, seen.unvetted, seen.jobs_unvetted, seen.protected) == (4, 1, 3, 1, 25.0)


def test_without_slurmctlds_word_only_the_number_is_known(store: Store) -> None:
    vetted(store, 7, "n4", 1, nodes=4)
    assert causes(store) == {"no_report": 3}


def test_a_paused_node_is_told_as_that(store: Store) -> None:
    heard(store, "n1", 62)
    row = {"cluster": "c", "node": "n1", "until": at(90), "reason": "x", "actor": "ann", "created_at": at(50)}
    with store.database.begin() as connection:
        connection.execute(insert(pauses).values(**row))
    begins(store, 7, "n1")
    begins(store, 8, "n1", minutes=95)
    assert causes(store) == {"paused": 1, "agent_away": 1}


def test_an_attempt_that_was_refused_began_nowhere(store: Store) -> None:
    heard(store, "n1", 62)
    vetted(store, 7, "n2", 1, REFUSED, nodes=2)
    begins(store, 7, "n[1-2]")
    assert causes(store) == {}


def test_what_is_under_way_is_not_counted_yet_and_each_attempt_counts_for_itself(store: Store) -> None:
    heard(store, "n1", 119)
    begins(store, 7, "n1", minutes=117)
    assert causes(store) == {}
    vetted(store, 8, "n1", 1)
    heard(store, "n1", 119)
    begins(store, 8, "n1")
    begins(store, 8, "n1", minutes=100, count=1)
    assert causes(store) == {"no_hook": 1}
    begins(store, 9, "n1[", minutes=60)
    assert sum(causes(store).values()) == 1
