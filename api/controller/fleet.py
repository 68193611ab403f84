"""The guard's view of the fleet is made from Slurm's states, our drain records and the permits that are out."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta

from api.controller.core import Core
from checks.judge.guard import Fleet, NodeView, Ruling, Tally
from checks.wire import Finding
from slurm.reason import Owner, owner_of
from slurm.state import NodeState

# An agent that refused while this server was away tells of it as soon as it polls again.
UNEXPLAINED = timedelta(minutes=15)


def fleet(core: Core, failing: Mapping[str, tuple[Finding, ...]] | None = None) -> Fleet:
    """Everything the guard counts over, now. Reads the database: call it in a thread."""
    now = core.clock()
    open_drains = core.records.open_drains(core.cluster)
    nodes = {
        name: NodeView(
            # The states are as old as the last bulk read; a drain recorded since then counts already.
            in_service=name not in open_drains and serves(state),
            ours=owner_of(state) is Owner.OURS_AUTOMATIC
            or (name in open_drains and open_drains[name].automatic)
            or _may_be_ours(state, now),
            groups=(*(f"partition:{p}" for p in state.partitions), *core.ground.topology.groups.get(name, ())),
            driver=core.ground.drivers.get(name, ""),
        )
        for name, state in core.view.states.items()
        # A node that does not exist yet is no capacity, and no part of any share.
        if state.base != "FUTURE"
    }
    leases = core.records.live_leases(core.cluster, now)
    return Fleet(
        now=now,
        nodes=nodes,
        past=core.records.past(core.cluster, now - timedelta(hours=1)),
        failing=_by_code(failing if failing is not None else core.store.all_failing(core.cluster), now),
        promised=frozenset(str(lease["node"]) for lease in leases),
        block_size=core.ground.topology.block_size,
        overridden=frozenset(o.code for o in core.words.overrides(now)),
    )


def _may_be_ours(state: NodeState, now: datetime) -> bool:
    """Whether Slurm has just drained it for a prolog: a refusal of ours by a lease looks so until its report comes."""
    reason = state.active_reason
    if reason is None or reason.at is None or not reason.text.startswith("Prolog error"):
        return False
    return abs(now - reason.at) <= UNEXPLAINED


def ruled(core: Core, tally: Tally, node: str, code: str) -> Ruling:
    """The guard's answer, which does not forget at once: what many nodes showed a moment ago is still no hardware.

    Where a roll-out is taken back node by node, the last few that show it are no different from the first.
    """
    ruling, now = tally.authorize(node, code), core.clock()
    if ruling.kind == "correlated":
        core.correlated[code] = now
    seen = core.correlated.get(code)
    if not ruling.allowed or seen is None or {code, ""} & {o.code for o in core.words.overrides(now)}:
        return ruling
    age = (now - seen).total_seconds()
    if age >= core.guard.alike_seconds:
        del core.correlated[code]
        return ruling
    return Ruling(False, "correlated", f"too many nodes showed {code} {age / 60:.0f} min ago for it to be hardware")


def serves(state: NodeState) -> bool:
    """Whether jobs can start there, after a power-up at most."""
    if state.out_of_service or not state.known or state.base in ("FUTURE", "UNKNOWN") or "MAINT" in state.flags:
        return False
    return state.responding or any(flag.startswith("POWER") for flag in state.flags)


def _by_code(failing: Mapping[str, tuple[Finding, ...]], now: datetime) -> dict[str, dict[str, datetime]]:
    """Per code the nodes that show it and since when; a finding without a time counts as new."""
    found: dict[str, dict[str, datetime]] = {}
    for node, findings in failing.items():
        for finding in findings:
            first = finding.since or finding.observed_at or now
            nodes = found.setdefault(finding.code, {})
            nodes[node] = min(nodes.get(node, first), first)
    return found
