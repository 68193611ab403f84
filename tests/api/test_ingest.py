"""Reports are stored once, in order, and replace what they speak of."""

from __future__ import annotations

from datetime import timedelta

import msgspec

from api.store.store import Store
from api.store.views import NodeFilter
from checks.wire import Decision, Finding, JobAttempt, PollRequest
from tests.api.fakes import T0, batch, finding, good, report


def codes(store: Store) -> list[str]:
    return [f.code for f in store.current_findings("c", "n1")]


def test_a_repeated_batch_changes_nothing(store: Store) -> None:
    job = JobAttempt(job_id=7, restart_count=0)
    first = store.ingest(batch(report(1, finding(), occasion="prolog", job=job)), T0)
    again = store.ingest(batch(report(1, finding(), occasion="prolog", job=job)), T0 + timedelta(seconds=9))
    assert (first.accepted, len(first.stored), first.repeated) == (1, 1, 0)
    assert (again.accepted, len(again.stored), again.repeated) == (1, 0, 1)
    assert len(store.reports_of_job("c", 7)) == len(store.incidents()) == len(store.changes("c", "n1")) == 1


def test_an_overlapping_batch_adds_only_what_is_new(store: Store) -> None:
    store.ingest(batch(report(1, finding()), report(2, finding())), T0)
    answer = store.ingest(batch(report(2, finding()), report(3, good())), T0)
    assert (answer.accepted, [r.sequence for r in answer.stored], answer.repeated) == (3, [3], 1)
    assert codes(store) == ["ok"]


def test_reports_count_in_the_order_of_their_sequence(store: Store) -> None:
    store.ingest(batch(report(3, good()), report(2, finding())), T0)
    assert codes(store) == ["ok"]
    assert [(c.old_status, c.status) for c in store.changes("c", "n1")] == [("fail", "ok"), (None, "fail")]


def test_an_older_sequence_never_comes_back(store: Store) -> None:
    store.ingest(batch(report(5, good())), T0)
    assert store.ingest(batch(report(4, finding())), T0).accepted == 5
    assert codes(store) == ["ok"]


def test_a_report_replaces_only_the_checks_that_it_names(store: Store) -> None:
    store.ingest(batch(report(1, finding(), finding("mount", "/scratch", "fail", "mount_hung", "shared"))), T0)
    store.ingest(batch(report(2, good())), T0)
    assert codes(store) == ["ok", "mount_hung"]


def test_all_findings_of_a_named_check_are_replaced(store: Store) -> None:
    store.ingest(batch(report(1, finding(target="GPU 1"), finding(target="GPU 2"))), T0)
    store.ingest(batch(report(2, finding(target="GPU 2"))), T0)
    assert [f.target for f in store.current_findings("c", "n1")] == ["GPU 2"]
    assert store.changes("c", "n1")[0].target == "GPU 1"
    assert store.changes("c", "n1")[0].status == "ok"


def test_history_grows_only_when_something_changes(store: Store) -> None:
    for sequence in range(1, 20):
        store.ingest(batch(report(sequence, finding(), good("disk"))), T0)
    assert len(store.changes("c", "n1")) == 1


def test_the_verdict_follows_from_the_stored_findings(store: Store) -> None:
    store.ingest(batch(report(1, finding(), verdict="healthy")), T0)
    assert store.nodes(now=T0)[0].verdict == "faulty"
    store.ingest(batch(report(2, good())), T0)
    assert store.nodes(now=T0)[0].verdict == "healthy"


def test_the_summary_names_a_part_before_what_follows_from_it(store: Store) -> None:
    few = finding("gpu_count", "node", code="gpu_count_low", message="7 of 8 GPUs")
    store.ingest(batch(report(1, few, finding("gpu_health", "GPU 3"))), T0)
    assert store.nodes(now=T0)[0].summary == "gpu_lost GPU 3: gone"


def test_an_agent_that_calls_its_node_unknown_is_believed(store: Store) -> None:
    store.ingest(batch(report(1, good(), verdict="unknown")), T0)
    assert store.nodes(now=T0)[0].verdict == "unknown"


def test_a_node_that_is_silent_for_ten_minutes_is_unknown(store: Store) -> None:
    store.ingest(batch(report(1, good())), T0)
    shortly, later = T0 + timedelta(seconds=600), T0 + timedelta(seconds=601)
    assert [(n.verdict, n.data) for n in store.nodes(now=shortly)] == [("healthy", "fresh")]
    assert [(n.verdict, n.data) for n in store.nodes(now=later)] == [("unknown", "stale")]
    assert store.nodes(NodeFilter(verdict="healthy"), now=later) == []
    assert len(store.nodes(NodeFilter(verdict="unknown"), now=later)) == 1
    assert store.verdict_counts(later) == {("c", "unknown"): 1}


def test_a_heartbeat_keeps_a_node_fresh_and_its_verdict(store: Store) -> None:
    store.ingest(batch(report(1, finding())), T0)
    store.touch(
        PollRequest(cluster="c", node="n1", incarnation="boot-a", wedged_lanes=("nvml",)), T0 + timedelta(hours=1)
    )
    node = store.nodes(now=T0 + timedelta(hours=1))[0]
    assert (node.verdict, node.data, node.wedged_lanes, node.boot_id) == ("faulty", "fresh", ("nvml",), "b1")


def test_only_reports_worth_it_are_kept_whole(store: Store) -> None:
    wanted = Decision(verdict="faulty", wanted="drain")
    store.ingest(
        batch(
            report(1, good()),
            report(2, good(), occasion="epilog"),
            report(3, finding(), decision=wanted),
            report(4, good(), occasion="health"),
        ),
        T0,
    )
    assert [r.occasion for r in store.recent_reports("c", "n1")] == ["interval", "epilog"]


def test_the_answer_to_an_order_is_kept(store: Store) -> None:
    answer = msgspec.structs.replace(report(1, good()), notes=("order:o1",))
    store.ingest(batch(answer), T0)
    assert store.recent_reports("c", "n1")[0].notes == ("order:o1",)


def test_late_reports_of_a_former_incarnation_do_not_undo_newer_ones(store: Store) -> None:
    store.ingest(batch(report(1, good(), incarnation="boot-b", at=T0 + timedelta(seconds=60))), T0)
    late = report(9, finding(), occasion="epilog", job=JobAttempt(job_id=3), incarnation="boot-a", at=T0)
    answer = store.ingest(batch(late), T0)
    assert (answer.accepted, len(answer.stored)) == (9, 1)
    assert codes(store) == ["ok"]
    assert len(store.reports_of_job("c", 3)) == 1


def test_a_new_incarnation_counts_although_its_clock_was_set_back(store: Store) -> None:
    store.ingest(batch(report(1, finding(), at=T0)), T0)
    store.touch(PollRequest(cluster="c", node="n1", incarnation="boot-b"), T0)
    store.ingest(batch(report(1, good(), incarnation="boot-b", at=T0 - timedelta(hours=5))), T0)
    assert codes(store) == ["ok"]


def test_what_is_expected_of_a_node_is_what_it_showed_first(store: Store) -> None:
    store.ingest(batch(report(1, good())), T0)
    fewer = report(2, good())
    assert fewer.facts is not None
    fewer = msgspec.structs.replace(fewer, facts=msgspec.structs.replace(fewer.facts, gpus=("GPU-1",)))
    store.ingest(batch(fewer), T0)
    recorded = store.inventory("c", "n1")
    assert recorded is not None and recorded.gpus == ("GPU-1", "GPU-2")
    facts = store.node_rows()[0].facts
    assert facts is not None and facts.gpus == ("GPU-1",)


def test_two_nodes_of_one_name_in_two_clusters_stay_apart(store: Store) -> None:
    other = msgspec.structs.replace(report(1, good()), cluster="d")
    store.ingest(batch(report(1, finding())), T0)
    store.ingest(batch(other), T0)
    assert [(r.cluster, r.node, r.verdict) for r in store.node_rows()] == [
        ("c", "n1", "faulty"),
        ("d", "n1", "healthy"),
    ]
    assert list(store.all_failing("c")) == ["n1"] and store.all_failing("d") == {}


def test_evidence_and_times_come_back_as_they_were(store: Store) -> None:
    full = Finding(
        check="ecc",
        target="GPU 1",
        status="warn",
        code="ecc_high",
        blame="node",
        message="errors 12 of 10",
        evidence={"errors": 12, "limit": 10.5, "row": "0x1f", "pending": True, "bank": None},
        observed_at=T0,
        since=T0 - timedelta(days=1),
        seen=3,
    )
    store.ingest(batch(report(1, full)), T0)
    assert store.current_findings("c", "n1") == (full,)
    view = store.all_current()[0]
    assert (view.cluster, view.node, view.evidence) == ("c", "n1", full.evidence)


def test_jobs_are_told_apart_by_attempt(store: Store) -> None:
    refused = Decision(verdict="faulty", wanted="refuse", allowed="refuse")
    first, second = JobAttempt(job_id=7, restart_count=0), JobAttempt(job_id=7, restart_count=1)
    store.ingest(batch(report(1, finding(), occasion="prolog", job=first, decision=refused)), T0)
    store.ingest(batch(report(1, good(), node="n2", occasion="prolog", job=second)), T0)
    views = [view for _, view in store.jobs()]
    assert [(v.attempt, v.nodes, v.refused) for v in views] == [("7.1", ("n2",), 0), ("7.0", ("n1",), 1)]
