"""A whole cluster that fails at once loses no more nodes than the guard allows, and slurmctld hardly notices."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from checks.judge.guard import GuardLimits
from deploy.simcluster import lab_ground
from deploy.simcluster.storm import Storm, alike, calls_of, mixed, storm, well

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(600)]

NODES = 40
SECONDS = 8.0
# The bucket's rate of 10 and the bulk read, which is one question of two requests each second while a drain lands.
CEILING = 10.0 + 3.0
# The bucket when it is full comes on top once.
BURST = 20.0


@pytest.fixture(scope="module")
def cluster() -> Iterator[Storm]:
    if reason := lab_ground.cannot_run():
        pytest.skip(reason)
    with storm(NODES, told=lambda text: None) as made:
        yield made


def test_one_fault_on_every_node_drains_hardly_any_and_is_one_incident(cluster: Storm) -> None:
    cost, granted = cluster.break_out(alike, SECONDS)
    # The first to report cannot be told from a node that fails alone, and more of them are not drained.
    alone = GuardLimits().alike(NODES)
    assert len(cluster.drained()) <= alone
    assert granted == 0 and cost.calls["REQUEST_JOB_INFO_SINGLE"] == 0
    # Reports by the dozen ask for no question of their own: the bulk read comes once an interval.
    assert sum(cost.calls.values()) <= 3 * SECONDS + alone * 5, cost
    said = cluster.incidents()
    assert said.pop("many_gpu_lost") == 1
    assert said.pop("permit_denied") <= 4 and sum(said.values()) <= 1, said
    cluster.report(well)


def test_many_faults_drain_what_the_guard_allows_at_a_bounded_rate(cluster: Storm) -> None:
    before = cluster.drained()
    cost, granted = cluster.break_out(mixed(NODES // 2), SECONDS)
    limits = GuardLimits()
    most = min(limits.drained(NODES), limits.hourly(NODES))
    drained = [name for name in cluster.drained() if name not in before]
    assert len(before) < len(before + drained) <= most and granted <= len(drained)
    # None with the first storm's fault: the nodes that were mended last were as little to blame as the first.
    reasons = [cluster.cluster.lab.node_reason(name) for name in drained]
    assert all(reason.startswith("nodevet: storm_fault_") for reason in reasons), reasons
    assert sum(cost.calls.values()) <= CEILING * cost.seconds + BURST, cost
    assert sum(cluster.incidents().values()) <= 4 + 4 + 2


def test_the_statistics_of_slurmctld_are_read_by_message_type() -> None:
    told = (
        "Remote Procedure Call statistics by message type\n"
        "\tREQUEST_NODE_INFO                       ( 2007) count:12     ave_time:1    total_time:12\n"
        "\tMESSAGE_NODE_REGISTRATION_STATUS        ( 1002) count:9      ave_time:1    total_time:9\n\n"
        "Remote Procedure Call statistics by user\n\troot            (       0) count:82     ave_time:633\n"
    )
    assert calls_of(told) == {"REQUEST_NODE_INFO": 12}
