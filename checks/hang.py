"""A call that did not come back is judged by what was seen of it, never by the waiting alone."""

from __future__ import annotations

from checks.declare import code
from checks.wire import Finding

SECOND_LOOK = 2

GPU_DRIVER_HUNG = code(
    "gpu_driver_hung",
    "fail",
    "node",
    "call into the NVIDIA driver has not returned for {seconds:g} s, seen {observations} times",
    explain="The NVML worker sits inside the driver while the rest of the node answers. "
    "Confirm: `cat /proc/<pid>/stack` of the worker, `dmesg | grep -i -e NVRM -e Xid`; do not start nvidia-smi, it "
    "would hang too. Do: let jobs end, reboot the node; if it returns, report the driver version to NVIDIA.",
)
HCA_DRIVER_HUNG = code(
    "hca_driver_hung",
    "fail",
    "node",
    "call into the network adapter's driver has not returned for {seconds:g} s, seen {observations} times",
    explain="The RDMA worker sits inside the adapter's driver while the rest of the node answers. "
    "Confirm: `cat /proc/<pid>/stack` of the worker, `dmesg | grep -i mlx5`. Do: let jobs end, reboot the node.",
)
MOUNT_HUNG = code(
    "mount_hung",
    "fail",
    "shared",
    "file system has not answered for {seconds:g} s, seen {observations} times",
    explain="A call into this mount does not come back; the server or the path to it is the usual cause, so the node "
    "is not blamed. Confirm: `timeout 5 stat -f <path>` from here and from another node. "
    "Do: look at the file server first, then at this node's client.",
)
LANE_SILENT = code(
    "lane_silent",
    "unknown",
    "self",
    "worker {lane} has not answered for {seconds:g} s: {why}",
    explain="Nodevet's own worker is late and nothing proves that the device is at fault. It says nothing about the "
    "node. Do: look at the load of the node and at the agent's log.",
)

_THING = {"nvml": GPU_DRIVER_HUNG, "gpu": GPU_DRIVER_HUNG, "rdma": HCA_DRIVER_HUNG, "fs": MOUNT_HUNG}


def judge_hang(
    lane: str, *, observations: int, in_kernel: bool, control_lane_answers: bool, target: str, seconds: float
) -> Finding:
    """Judge a lane that is silent: a fault of its thing only from the second look on, and only with proof.

    ``lane`` is the lane's name, ``nvml`` or ``fs:/scratch``. ``in_kernel``: the worker was seen in D state or in the
    driver's wait channel. ``control_lane_answers``: a lane that touches nothing answered meanwhile. Whatever is
    missing makes it our own trouble: ``unknown`` with blame ``self``.
    """
    thing = _THING.get(lane.partition(":")[0])
    why = _doubt(observations, in_kernel, control_lane_answers)
    if thing is None or why:
        why = why or "no device is known to answer for this worker"
        return LANE_SILENT(target, lane=lane, seconds=seconds, observations=observations, why=why)
    return thing(target, lane=lane, seconds=seconds, observations=observations)


def _doubt(observations: int, in_kernel: bool, control_lane_answers: bool) -> str:
    if not control_lane_answers:
        return "the control worker does not answer either"
    if not in_kernel:
        return "it is not seen inside the kernel"
    if observations < SECOND_LOOK:
        return "seen once, a second look decides"
    return ""
