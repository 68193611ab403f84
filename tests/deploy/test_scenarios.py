"""Scenarios of the matrix end on a real Slurm as they must, and one that does not is told."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from deploy.simcluster import lab_ground
from deploy.simcluster.matrix.fates import CASES, measure
from deploy.simcluster.matrix.parts import PARTS, chosen
from deploy.simcluster.matrix.play import play
from deploy.simcluster.matrix.releases import installed
from deploy.simcluster.matrix.rows import Outcome, Row
from deploy.simcluster.matrix.scenario import Act, Part, Scenario

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(600)]
PLAYED = ("GPU lost", "administrator's drain", "two nodes, fault on the second")


def played(scenarios: Sequence[Scenario]) -> list[Row]:
    if reason := lab_ground.cannot_run():
        pytest.skip(reason)
    part = Part("wide guard", PARTS[0].options, (Act(tuple(scenarios)),))
    return play([part], installed(), lambda _: None)


def test_a_part_of_the_matrix_ends_as_expected_and_what_does_not_is_told() -> None:
    known = {s.name: s for act in PARTS[0].acts for s in act.scenarios}
    untrue = Scenario("nothing happens", Outcome(drained=False, owner="ours"), lambda _: None)
    rows = played([*(known[name] for name in PLAYED), untrue])
    assert [(r.scenario, r.passed, r.trouble) for r in rows[:-1]] == [(name, True, "") for name in PLAYED]
    assert (rows[-1].passed, rows[-1].observed.owner) == (False, "none")


def test_a_refused_job_fares_as_the_table_says_and_what_does_not_is_told() -> None:
    if reason := lab_ground.cannot_run():
        pytest.skip(reason)
    quick = [c for c in CASES if c.job == "batch --no-requeue" and not c.since]
    wrong = [c for c in CASES if c.expected.startswith("requeued, starts") and not c.since][:1]
    fates = measure(installed(), lambda _: None, [*quick, *wrong])
    assert [(f.job, f.passed, f.trouble) for f in fates] == [(c.job, True, "") for c in (*quick, *wrong)]
    assert fates[-1].to_start is not None and fates[-1].to_start > 4


def test_what_a_release_does_not_know_is_not_played_there() -> None:
    named = {r: {a.settings for p in chosen((), r) for a in p.acts} for r in ("22.05", "24.11")}
    assert named["24.11"] - named["22.05"] == {"PrologFlags=Alloc,DeferBatch"}
