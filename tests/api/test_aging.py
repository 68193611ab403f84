"""What is old goes, and what counts stays."""

from __future__ import annotations

from datetime import timedelta

import msgspec

from api.store.current import CURRENT_LIMIT
from api.store.store import Store
from checks.wire import Finding, JobAttempt, Report
from tests.api.fakes import T0, batch, finding, good, report


def codes(store: Store) -> list[str]:
    return [f.code for f in store.current_findings("c", "n1")]


def test_old_history_goes_and_what_counts_stays(store: Store) -> None:
    job = JobAttempt(job_id=7, restart_count=0)
    for sequence in range(1, 600):
        found = finding() if sequence % 2 else good()
        store.ingest(batch(report(sequence, found, occasion="prolog", job=job)), T0)
    store.acknowledge(store.incidents()[0].id, "ann", "note")
    assert store.prune(30, T0 + timedelta(days=29)) == 0
    store.ingest(batch(report(600, good("disk"), occasion="epilog", job=job)), T0 + timedelta(days=30))
    assert store.prune(30, T0 + timedelta(days=31)) == 599 + 599 + 1
    assert [r.occasion for r in store.recent_reports("c", "n1")] == ["epilog"]
    assert store.changes("c", "n1") == []
    assert [i.closed_at for i in store.incidents()] == [None]
    assert codes(store) == ["ok", "gpu_lost"]
    store.ingest(batch(report(601, good(), occasion="epilog")), T0 + timedelta(days=31))
    assert store.prune(30, T0 + timedelta(days=400)) == 2 + 1 + 1 + 1 + 1
    assert (store.incidents(), codes(store)) == ([], ["ok", "ok"])


def seen(found: Finding, days: float) -> Finding:
    """The finding, observed so many days after the start."""
    return msgspec.structs.replace(found, observed_at=T0 + timedelta(days=days))


def test_a_check_that_no_longer_reports_stops_counting_after_a_week(store: Store) -> None:
    store.ingest(batch(report(1, seen(finding("old_check"), 0), seen(good("disk"), 0))), T0)
    store.ingest(batch(report(2, seen(good("disk"), 7))), T0)
    assert (store.retire(T0), store.nodes(now=T0)[0].verdict, store.open_incidents()) == (0, "faulty", 1)
    store.ingest(batch(report(3, seen(good("disk"), 7.1))), T0)
    assert store.retire(T0) == 1
    node = store.nodes(now=T0)[0]
    assert (node.verdict, node.fail, node.ok, node.summary) == ("healthy", 0, 1, "")
    assert [i.closed_why for i in store.incidents()] == ["its check has not reported for 7 days"]
    assert (store.changes("c", "n1")[0].old_code, store.changes("c", "n1")[0].status) == ("gpu_lost", "ok")
    assert store.retire(T0) == 0


def test_a_node_whose_clock_is_wrong_loses_nothing(store: Store) -> None:
    store.ingest(batch(report(1, seen(finding(), -9000), seen(good("disk"), -9000.001))), T0)
    assert store.retire(T0) == 0
    assert len(codes(store)) == 2


def test_a_node_cannot_pile_up_checks_without_end(store: Store) -> None:
    def made(sequence: int) -> Report:
        return report(sequence, *(good(f"check_{sequence}_{n}") for n in range(2000)))

    for sequence in (1, 2):
        store.ingest(batch(made(sequence)), T0)
    assert len(codes(store)) == 4000
    store.ingest(batch(made(3), made(4)), T0)
    assert len(codes(store)) == 4000 <= CURRENT_LIMIT
    assert store.nodes(now=T0)[0].ok == 4000
    assert {f.check.split("_")[1] for f in store.current_findings("c", "n1")} == {"3", "4"}
