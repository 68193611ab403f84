"""A silent worker becomes a fault of its thing only with proof."""

from __future__ import annotations

import pytest

from checks.hang import judge_hang


@pytest.mark.parametrize(
    ("lane", "expected"),
    [
        ("nvml", ("gpu_driver_hung", "fail", "node")),
        ("rdma", ("hca_driver_hung", "fail", "node")),
        ("fs", ("mount_hung", "fail", "shared")),
        ("fs:/scratch", ("mount_hung", "fail", "shared")),
        ("kmsg", ("lane_silent", "unknown", "self")),
        ("system", ("lane_silent", "unknown", "self")),
    ],
)
def test_names_the_thing_that_hangs(lane: str, expected: tuple[str, str, str]) -> None:
    """E34, E35: a hung driver without any log line is a finding about the driver, a mount never blames the node."""
    found = judge_hang(lane, observations=2, in_kernel=True, control_lane_answers=True, target="t", seconds=12.0)
    assert (found.code, found.status, found.blame) == expected


@pytest.mark.parametrize(
    ("observations", "in_kernel", "control_lane_answers"),
    [(1, True, True), (2, False, True), (9, True, False), (0, False, False)],
)
def test_our_own_trouble_is_never_the_nodes(observations: int, in_kernel: bool, control_lane_answers: bool) -> None:
    """Rule 1: the first look, a worker outside the kernel or a dead control worker prove nothing."""
    found = judge_hang(
        "nvml",
        observations=observations,
        in_kernel=in_kernel,
        control_lane_answers=control_lane_answers,
        target="node",
        seconds=3.0,
    )
    assert (found.code, found.status, found.blame) == ("lane_silent", "unknown", "self")
