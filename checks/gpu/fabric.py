"""Every GPU behind an NVSwitch has completed its registration with the fabric."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Set

from checks.declare import Code, check, code, ok
from checks.gpu.ask import GPU_UNANSWERED, UNTOLD, answering, ask, opened
from checks.gpu.fabric_health import health
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
MISCONFIGURED = code(
    "gpu_fabric_misconfigured",
    "warn",
    "config",
    "fabric configuration: {problem}",
    explain="The fabric manager knows this GPU under another place or partition than it is in. Confirm: "
    "`nvidia-smi -q -i <pci id> | grep -A12 Fabric`. Do: compare the partitions and the rack's inventory in the "
    "manager with what is built in.",
)
ALONE = code(
    "gpu_fabric_unmanaged",
    "warn",
    "fabric",
    "GPU's connection to the rack's fabric manager is lost",
    explain="What runs goes on; routes are not mended and new domains not made. Confirm: "
    "`nvidia-smi -q -i <pci id> | grep -A12 Fabric`, the manager on the switch trays."
    " Do: bring the fabric manager on the switch trays back.",
)
SPLIT = code(
    "gpu_fabric_split",
    "warn",
    "config",
    "{what} {value}, while {others} of {gpus} GPUs of this node have {usual}",
    explain="GPUs of one node in different cliques cannot reach each other over NVLink. Confirm: "
    "`nvidia-smi -q | grep -e CliqueId -e ClusterUUID`. Do: unless the node was divided on purpose, put all its GPUs "
    "in one partition.",
)

OTHER = code(
    "gpu_fabric_other_cluster",
    "warn",
    "config",
    "cluster {cluster}, expected {expected}",
    explain="The node has been put into another NVLink domain than the site says: jobs placed by domain cannot "
    "share memory. Confirm: `nvidia-smi -q | grep ClusterUUID` on this node and its neighbours. Do: correct the domain "
    "in the rack's manager, or what is expected.",
)

GRACE = 300.0
"""Seconds after boot in which the fabric may still be starting."""

_STATES = {0: "not supported", 1: "not started", 2: "in progress", 3: "completed"}
_RACK = ("GB200", "GB300")


@check(
    lane="nvml",
    interval=60,
    timeout=5.0,
    codes=(
        NOT_READY,
        STARTING,
        FAILED,
        NO_CLIQUE,
        UNHEALTHY,
        DEGRADED,
        MISCONFIGURED,
        ALONE,
        SPLIT,
        OTHER,
        *UNTOLD,
    ),
)
def gpu_fabric(host: Host, *, clique: bool = False, cluster: str = "") -> Iterator[Finding]:
    """State *and* status of each GPU's fabric registration; ``clique`` where the profile is an NVL72 rack.

    The health mask is read field by field; the GPUs of one node belong to one cluster and clique, and to the
    ``cluster`` (its UUID) that the site gives as that of the node's NVL72 domain. A GPU that answers
    "not supported" has no fabric and is left alone. Confirm by hand: ``nvidia-smi -q | grep -A12 Fabric``.
    """
    nvml = opened(host)
    age = host.uptime()
    trouble: list[Finding] = []
    joined: dict[str, Fabric] = {}
    for gpu in answering(nvml):
        fabric = ask(nvml.fabric, gpu, trouble)
        if fabric is None or fabric.state == 0:
            continue
        if fabric.state not in _STATES:
            yield GPU_UNANSWERED(gpu.target, question="fabric", error=f"state {fabric.state} is not known to us")
            continue
        if fabric.state == 3 and fabric.status == 0:
            joined[gpu.target] = fabric
        yield from _judge(gpu.target, fabric, age, _lacking(fabric, clique, gpu.name))
    clustered = {target: f for target, f in joined.items() if f.cluster.strip("0")}
    yield from _split(joined, "cluster", {t: f.cluster for t, f in clustered.items()})
    yield from _split(joined, "clique", {t: str(f.clique) for t, f in clustered.items() if f.clique})
    if clustered:
        yield from _domain({f.cluster for f in clustered.values()}, cluster, clustered)
    yield from trouble


def _domain(found: Set[str], expected: str, clustered: Mapping[str, Fabric]) -> Iterator[Finding]:
    """The domain, worth comparing with the neighbours', and whether it is the one that the site expects."""
    wanted = expected.replace("-", "").lower()
    for other in sorted(found - {wanted}) if wanted else ():
        yield OTHER("node", cluster=other, expected=wanted)
    cliques = ",".join(sorted({str(f.clique) for f in clustered.values()}))
    yield ok("node", f"{len(clustered)} GPUs in an NVLink domain", cluster=",".join(sorted(found)), clique=cliques)


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
    found = health(mask)
    if found.broken or found.slow:
        made: Code = UNHEALTHY if found.broken else DEGRADED
        yield made(target, problem=", ".join((*found.broken, *found.slow)), mask=mask)
    if found.wrong:
        yield MISCONFIGURED(target, problem=", ".join(found.wrong), mask=mask)
    if found.alone:
        yield ALONE(target, mask=mask)


def _split(joined: Mapping[str, Fabric], what: str, values: Mapping[str, str]) -> Iterator[Finding]:
    """Those whose value differs from that of most of the node's GPUs; which half is right nobody can say."""
    counted = Counter(values.values()).most_common()
    for target, value in values.items() if len(counted) > 1 else ():
        usual, others = counted[0]
        if value != usual:
            yield SPLIT(target, what=what, value=value, usual=usual, others=others, gpus=len(joined))
