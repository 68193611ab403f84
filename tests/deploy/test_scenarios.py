"""Scenarios of the matrix end on a real Slurm as they must, and one that does not is told."""

from __future__ import annotations

import pytest

from deploy.simcluster import lab_ground
from deploy.simcluster.cluster import SimCluster, new_base
from deploy.simcluster.matrix import Matrix, Outcome, Result, Scenario, options, owner
from deploy.simcluster.scenarios import SCENARIOS

PLAYED = ("idle fault", "refused batch", "administrator's drain")


@pytest.mark.parametrize(
    ("reason", "expected"),
    [
        ("", "none"),
        ("nodevet: gpu_lost GPU 3 [slurm@2026-12-01T10:00:00]", "ours"),
        ("Prolog error [slurm@2026-12-01T10:00:00]", "slurm"),
        ("ADMIN: fan 3 is noisy (alice)", "other"),
    ],
)
def test_names_whose_reason_it_is(reason: str, expected: str) -> None:
    assert owner(reason) == expected


def test_every_scenario_has_a_name_of_its_own() -> None:
    assert len({s.name for s in SCENARIOS}) == len(SCENARIOS) >= 13


def play(scenarios: list[Scenario]) -> Result:
    if reason := lab_ground.cannot_run():
        pytest.skip(reason)
    base = new_base()
    cluster = SimCluster(base, options(base, len(scenarios)))
    try:
        return Matrix(cluster, lambda _: None).run(scenarios)
    finally:
        cluster.stop()
        cluster.remove()


@pytest.mark.cluster
def test_a_part_of_the_matrix_ends_as_expected_and_what_does_not_is_told() -> None:
    untrue = Scenario("nothing happens", Outcome(drained=False, owner="ours", job="-"), lambda *_: None)
    result = play([*(s for s in SCENARIOS if s.name in PLAYED), untrue])
    assert [(r.scenario, r.passed, r.trouble) for r in result.rows[:-1]] == [(name, True, "") for name in PLAYED]
    assert (result.passed, result.rows[-1].passed, result.rows[-1].observed.owner) == (False, False, "none")
