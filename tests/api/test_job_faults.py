"""What the kernel says of a job is that job's alone, and a job that crashes its nodes is shown as such."""

from __future__ import annotations

from datetime import datetime, timedelta

import pytest

from api.explain import explain
from api.store.store import Store
from checks.wire import Decision, Finding, JobAttempt, Limits, Report
from tests.api.fakes import T0, batch, good, report

ADMITTED = Decision(verdict="healthy", wanted="admit", allowed="admit")


def at(seconds: float) -> datetime:
    return T0 + timedelta(seconds=seconds)


def job(number: int, nodes: int = 1) -> JobAttempt:
    return JobAttempt(job_id=number, restart_count=0, uid=1000 + number, nodes=nodes, gpu_minors=(number,))


def tell(store: Store, *reports: Report, when: float = 100.0) -> None:
    for each in reports:
        store.ingest(batch(each), at(when))


def boots(made: Report, boot: str) -> Report:
    return Report(**{name: getattr(made, name) for name in made.__struct_fields__} | {"boot_id": boot})


def prolog(number: int, of: JobAttempt, node: str = "n1", when: float = 0.0) -> Report:
    return report(number, node=node, occasion="prolog", job=of, decision=ADMITTED, at=at(when))


def epilog(number: int, of: JobAttempt, *found: Finding, node: str = "n1", when: float = 60.0) -> Report:
    return report(number, *found, node=node, occasion="epilog", job=of, at=at(when))


def oom(of: int, when: float = 50.0) -> Finding:
    return Finding(
        check="kernel_oom", target=f"job {of}", status="warn", code="oom_job", blame="job",
        message="job reached its own memory limit: python was killed", since=at(when), observed_at=at(when),
    )  # fmt: skip


def test_a_job_that_ran_out_of_memory_is_the_one_that_the_kernel_names(store: Store) -> None:
    """Two jobs share the node; the line of the one is not laid to the other whose epilog comes first."""
    tell(store, prolog(1, job(41)), prolog(2, job(42)), report(3, oom(42), at=at(55)))
    tell(store, epilog(4, job(41), oom(42)), epilog(5, job(42), oom(42), when=70), report(6, oom(42), at=at(80)))
    assert store.began("c", job_id=41) == []
    (only,) = store.began("c", job_id=42)
    assert (only.code, only.attempt, only.uid, only.gpu_minors, only.shared) == ("oom_job", "42.0", 1042, (42,), False)


def test_the_line_counts_also_when_it_is_read_after_the_epilog(store: Store) -> None:
    tell(store, prolog(1, job(42)), epilog(2, job(42)), report(3, oom(42, 59), at=at(65)))
    assert [b.attempt for b in store.began("c", job_id=42)] == ["42.0"]


def test_a_later_job_of_the_same_id_has_its_own(store: Store) -> None:
    again = JobAttempt(job_id=42, restart_count=1, uid=1)
    tell(store, prolog(1, job(42)), report(2, oom(42, 10), at=at(11)), epilog(3, job(42), when=20))
    tell(store, prolog(4, again, when=100), report(5, oom(42, 150), at=at(151)), when=200)
    assert sorted(b.attempt for b in store.began("c", job_id=42)) == ["42.0", "42.1"]


def test_a_job_nobody_saw_begin_is_named_by_its_id_alone(store: Store) -> None:
    tell(store, report(1, oom(7)))
    assert [(b.attempt, b.uid) for b in store.began("c", job_id=7)] == [("7.x", None)]


def test_the_user_is_told_to_ask_for_more_memory_and_no_node_is_blamed(store: Store) -> None:
    tell(store, prolog(1, job(42)), report(2, oom(42), at=at(55)), epilog(3, job(42)))
    told = explain("c", 42, store.reports_of_job("c", 42), store.starts_of_job("c", 42), store.began("c", job_id=42),
                   Limits())  # fmt: skip
    (one,) = told.attempts
    assert one.for_user == (
        "started; on node n1 the job reached the memory it had asked for and one of its processes was killed: "
        "ask for more memory"
    )
    assert "oom_job job 42 on n1" in one.for_operator


def crash(store: Store, node: str, number: int, boot: str = "boot-2", when: float = 300.0) -> None:
    tell(store, boots(report(number, good(), node=node, at=at(when)), boot), when=when)


@pytest.mark.parametrize("others", [0, 1, 4])
def test_a_job_whose_nodes_come_up_anew_is_one_incident_of_the_job(store: Store, others: int) -> None:
    """Where as many other nodes came up as well, as after a loss of power, nothing is laid to the job."""
    names = ["n1", "n2", "n3"]
    rest = [f"m{n}" for n in range(others)]
    for node in (*names, *rest):
        tell(store, boots(report(1, good(), node=node, at=at(-50)), "boot-1"))
    for node in rest:
        crash(store, node, 2)
    for node in names:
        tell(store, boots(prolog(2, job(42, 3), node=node), "boot-1"))
        crash(store, node, 3)
    assert {b.node for b in store.began("c", job_id=42)} == set(names)
    said = [i for i in store.incidents(True) if i.kind == "job"]
    assert [i.message.split(":")[0] for i in said] == (
        ["node_restarted began on 3 nodes during job 42"] if others < 3 else []
    )
    assert all(i.node == "" for i in said)


def test_a_node_that_comes_up_after_its_job_has_ended_is_not_the_jobs(store: Store) -> None:
    tell(store, boots(report(1, good(), at=at(-50)), "boot-1"), boots(prolog(2, job(42)), "boot-1"))
    tell(store, boots(epilog(3, job(42)), "boot-1"))
    crash(store, "n1", 4)
    crash(store, "n1", 5, "boot-3", 400.0)
    assert store.began("c", job_id=42) == []


def test_a_job_is_laid_one_crash_only(store: Store) -> None:
    tell(store, boots(report(1, good(), at=at(-50)), "boot-1"), boots(prolog(2, job(42)), "boot-1"))
    crash(store, "n1", 3)
    crash(store, "n1", 4, "boot-3", 400.0)
    assert [b.code for b in store.began("c", job_id=42)] == ["node_restarted"]
