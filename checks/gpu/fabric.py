"""Every GPU behind an NVSwitch has completed its registration with the fabric."""

from __future__ import annotations

from collections.abc import Iterator

from checks.declare import Code, check, code
from checks.gpu.ask import GPU_UNANSWERED, UNTOLD, answering, ask, opened
from checks.gpu.values import Fabric
from checks.host import Host
from checks.wire import Finding

EXPLAIN = (
    "CUDA does not start on such a GPU (error 802, system not yet initialized). "
    "Confirm: `nvidia-smi -q -i <pci id> | grep -A5 Fabric`, `systemctl status nvidia-fabricmanager`. "
    "Do: start the fabric manager (NVL72: look at the switch trays); if it stays, reset all GPUs or reboot."
)
NOT_READY = code("gpu_fabric_not_ready", "fail", "node", "fabric state {state}, expected completed", explain=EXPLAIN)
STARTING = code("gpu_fabric_starting", "warn", "node", "fabric state {state}, {age:.0f} s after boot", explain=EXPLAIN)
FAILED = code("gpu_fabric_failed", "fail", "node", "fabric completed with error {status}", explain=EXPLAIN)
NO_CLIQUE = code(
    "gpu_fabric_no_clique",
    "fail",
    "node",
    "fabric completed without a {lacking}",
    explain=EXPLAIN,
)
UNHEALTHY = code("gpu_fabric_unhealthy", "fail", "node", "fabric health: {problem}", explain=EXPLAIN)
DEGRADED = code("gpu_fabric_degraded", "warn", "node", "fabric health: {problem}", explain=EXPLAIN)

GRACE = 300.0
"""Seconds after boot in which the fabric may still be starting."""

_STATES = {0: "not supported", 1: "not started", 2: "in progress", 3: "completed"}
_RACK = ("GB200", "GB300")
_TRUE = 1
_BITS = ((0, "bandwidth degraded"), (2, "route recovery in progress"), (6, "access timeout recovery"))


@check(
    lane="nvml",
    interval=60,
    timeout=5.0,
    codes=(NOT_READY, STARTING, FAILED, NO_CLIQUE, UNHEALTHY, DEGRADED, *UNTOLD),
)
def gpu_fabric(host: Host, *, clique: bool = False) -> Iterator[Finding]:
    """State *and* status of each GPU's fabric registration; ``clique`` where the profile is an NVL72 rack.

    A GPU that answers "not supported" has no fabric and is left alone. Confirm by hand:
    ``nvidia-smi -q | grep -A5 Fabric``.
    """
    nvml = opened(host)
    age = host.uptime()
    trouble: list[Finding] = []
    for gpu in answering(nvml):
        fabric = ask(nvml.fabric, gpu, trouble)
        if fabric is None or fabric.state == 0:
            continue
        if fabric.state not in _STATES:
            yield GPU_UNANSWERED(gpu.target, question="fabric", error=f"state {fabric.state} is not known to us")
            continue
        yield from _judge(gpu.target, fabric, age, _lacking(fabric, clique, gpu.name))
    yield from trouble


def _lacking(fabric: Fabric, clique: bool, name: str) -> str:
    """What a GPU of a rack has none of; one made for racks needs a cluster's UUID without any profile too."""
    if clique and not fabric.clique:
        return "clique id"
    rack = clique or any(made in name for made in _RACK)
    return "cluster UUID" if rack and not fabric.cluster.strip("0") else ""


def _judge(target: str, fabric: Fabric, age: float | None, lacking: str) -> Iterator[Finding]:
    state = _STATES[fabric.state]
    if fabric.state != 3:
        if age is not None and age < GRACE:
            yield STARTING(target, state=state, age=age)
        else:
            yield NOT_READY(target, state=state)
    elif fabric.status != 0:
        yield FAILED(target, status=fabric.status)
    elif lacking:
        yield NO_CLIQUE(target, lacking=lacking)
    else:
        yield from _health(target, fabric.health)


def _health(target: str, mask: int) -> Iterator[Finding]:
    """The health mask of newer drivers: two bits a question, 0 not supported, 1 true, 2 false."""
    made: Code = UNHEALTHY if mask >> 4 & 3 == _TRUE else DEGRADED
    problems = ["route unhealthy"] if made is UNHEALTHY else []
    problems += [name for shift, name in _BITS if mask >> shift & 3 == _TRUE]
    if problems:
        yield made(target, problem=", ".join(problems), mask=mask)
