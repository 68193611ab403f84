"""A problem is one incident from first sight to close, however often it is reported or flaps."""

from __future__ import annotations

from datetime import datetime, timedelta

import pytest
from sqlalchemy import insert
from sqlalchemy.exc import IntegrityError

from api.store.database import Database
from api.store.store import Store
from api.store.tables import incidents
from tests.api.fakes import T0, batch, finding, good, report


def at(minutes: float) -> datetime:
    return T0 + timedelta(minutes=minutes)


def states(store: Store) -> list[tuple[str, str, bool]]:
    return [(i.code, i.target, i.closed_at is None) for i in store.incidents()]


def test_a_failing_finding_opens_one_and_its_end_closes_it(store: Store) -> None:
    store.ingest(batch(report(1, finding())), at(0))
    store.ingest(batch(report(2, finding())), at(1))
    (incident,) = store.incidents()
    assert (incident.kind, incident.check, incident.first_seen, incident.last_seen) == (
        "finding",
        "gpu_count",
        at(0),
        at(1),
    )
    store.ingest(batch(report(3, good())), at(2))
    (incident,) = store.incidents()
    assert (incident.closed_at, incident.closed_why) == (at(2), "no longer seen")


@pytest.mark.parametrize("blame", ["node", "fabric", "shared", "config", "job"])
def test_whoever_is_to_blame(store: Store, blame: str) -> None:
    store.ingest(batch(report(1, finding(blame=blame))), at(0))  # type: ignore[arg-type]
    assert store.open_incidents() == 1


def test_a_warning_opens_none(store: Store) -> None:
    store.ingest(batch(report(1, finding(status="warn"))), at(0))
    assert store.incidents() == []


def test_flapping_does_not_multiply(store: Store) -> None:
    for round_ in range(10):
        store.ingest(batch(report(2 * round_, finding())), at(2 * round_))
        store.ingest(batch(report(2 * round_ + 1, good())), at(2 * round_ + 1))
    (incident,) = store.incidents()
    assert incident.times_opened == 10


def test_the_same_problem_a_day_later_is_another(store: Store) -> None:
    store.ingest(batch(report(1, finding())), at(0))
    store.ingest(batch(report(2, good())), at(1))
    store.ingest(batch(report(3, finding())), at(1440))
    assert [is_open for _, _, is_open in states(store)] == [True, False]


def test_a_check_that_cannot_look_has_seen_nothing_end(store: Store) -> None:
    store.ingest(batch(report(1, finding())), at(0))
    store.ingest(batch(report(2, finding(target="node", status="unknown", code="check_error", blame="self"))), at(1))
    assert states(store) == [("gpu_lost", "GPU 3", True)]


def test_a_required_check_without_an_answer_is_a_problem(store: Store) -> None:
    silent = finding(target="node", status="unknown", code="check_error", blame="self")
    store.ingest(batch(report(1, silent, verdict="unknown")), at(0))
    (incident,) = store.incidents()
    assert (incident.kind, incident.code) == ("unanswered", "check_error")
    store.ingest(batch(report(2, good())), at(1))
    assert store.open_incidents() == 0


def test_an_unknown_that_nobody_requires_is_none(store: Store) -> None:
    store.ingest(batch(report(1, finding(status="unknown", blame="self"), verdict="healthy")), at(0))
    assert store.incidents() == []


def test_reports_leave_the_controllers_incidents_alone(store: Store) -> None:
    first = store.open_incident("c", "n1", "permit_denied", "node", "no permit left", "controller", at(0))
    assert store.open_incident("c", "n1", "permit_denied", "node", "still none", "controller", at(1)) == first
    store.ingest(batch(report(1, good())), at(2))
    assert states(store) == [("permit_denied", "node", True)]
    store.close_incident("c", "n1", "permit_denied", "node", "guard open", at(3))
    assert store.open_incidents() == 0
    assert store.incidents(is_open=False)[0].closed_why == "guard open"


def test_people_take_an_incident_on_with_notes(store: Store) -> None:
    store.ingest(batch(report(1, finding())), at(0))
    number = store.incidents()[0].id
    assert store.acknowledge(number, "ann", "card is ordered", at(1))
    assert store.acknowledge(number, "bob", "card is here", at(2))
    incident = store.incident(number)
    assert incident is not None
    assert (incident.acknowledged_at, incident.closed_at) == (at(1), None)
    assert [(n.actor, n.note) for n in incident.notes] == [("ann", "card is ordered"), ("bob", "card is here")]
    assert not store.acknowledge(number + 1, "ann", "")


def test_the_database_itself_holds_one_open_incident_a_problem(store: Store, database: Database) -> None:
    store.ingest(batch(report(1, finding())), at(0))
    row = {"cluster": "c", "node": "n1", "code": "gpu_lost", "target": "GPU 3", "check_name": "", "kind": "x"}
    row |= {"message": "", "closed_why": ""}
    with pytest.raises(IntegrityError), database.begin() as connection:
        connection.execute(insert(incidents).values(**row, first_seen=at(1), last_seen=at(1), times_opened=1))
