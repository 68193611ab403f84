"""What a stuck lane means for the thing it was asking: our own trouble at first, a finding from the second look on."""

from __future__ import annotations

import msgspec

from checks import Finding
from checks.hang import judge_hang
from daemon.lanes.lane import Hang


def judged(hang: Hang, target: str, now: float) -> Finding:
    """The finding for a question that a stuck lane cannot take, ``now`` on the monotonic clock."""
    seen = hang.sight
    in_kernel = seen is not None and seen.in_kernel
    if seen is not None and seen.paging and not hang.stuck.lane.startswith("fs"):
        in_kernel = False
    finding = judge_hang(
        hang.stuck.lane,
        observations=hang.observations,
        in_kernel=in_kernel,
        control_lane_answers=seen is not None,
        target=target,
        seconds=round(now - hang.since, 1),
    )
    more = {"stuck_in": hang.stuck.check, "pid": hang.stuck.pid, "seen": str(seen or "not seen")}
    return msgspec.structs.replace(finding, evidence={**finding.evidence, **more})
