"""Nodes are shown with what Slurm holds about them beside what their agents reported."""

from __future__ import annotations

import msgspec

from api.ports import ControllerPort
from api.routes.shapes import Coverage, NodeDetail
from api.service_port import ServiceState
from api.store.past_views import PastFilter
from api.store.store import Store
from api.store.views import NodeFilter, NodeView
from checks.wire import Verdict
from slurm.hostlist import expand

NODES_AT_ONCE = 20_000
NAMED = 1000
REPORTS_SHOWN = 20
_POWERED_DOWN = frozenset({"POWERED_DOWN", "POWERING_DOWN", "POWERING_UP"})


def with_slurm(view: NodeView, controller: ControllerPort) -> NodeView:
    """The node with its state and reason; one that is powered down has no data, which is no trouble."""
    quiet, state = controller.quiet(view.cluster, view.node), controller.slurm_state(view.node)
    if quiet is not None and quiet.paused:
        view = msgspec.structs.replace(view, paused_until=quiet.until, paused_why=quiet.reason)
    if risk := controller.desk.risk(view.cluster, view.node):
        view = msgspec.structs.replace(view, risk=risk)
    if known := controller.service.states().get(view.node):
        view = msgspec.structs.replace(view, service=known)
    if state is None:
        return view
    reason = state.active_reason
    named = msgspec.structs.replace(view, slurm_state=str(state), reason=reason.text if reason else None)
    if view.data == "stale" and not state.flags.isdisjoint(_POWERED_DOWN):
        return msgspec.structs.replace(named, data="none", verdict="unknown")
    return named


def powered_down(controller: ControllerPort) -> int:
    """How many nodes are off, which are among the unknown ones for no reason of their own."""
    return sum(not s.flags.isdisjoint(_POWERED_DOWN) for s in controller.slurm_states().values())


def node_filter(
    verdict: Verdict | None, q: str, nodes: str | None, cluster: str | None, past: PastFilter | None = None
) -> NodeFilter:
    """The filter that the query's words mean; a host list is refused beyond 20,000 names."""
    names = frozenset(expand(nodes, limit=NODES_AT_ONCE)) if nodes else None
    return NodeFilter(verdict=verdict, text=q, cluster=cluster, names=names, past=past)


def standing_in(controller: ControllerPort, state: ServiceState | None, wanted: NodeFilter) -> NodeFilter:
    """The filter narrowed to the nodes that stand in one state."""
    if state is None:
        return wanted
    names = frozenset(n for n, s in controller.service.states().items() if s == state)
    return msgspec.structs.replace(wanted, names=names if wanted.names is None else names & wanted.names)


def detail(store: Store, controller: ControllerPort, cluster: str, node: str) -> NodeDetail | None:
    """All that is known of one node."""
    view = store.node(cluster, node)
    if view is None:
        return None
    return NodeDetail(
        **msgspec.structs.asdict(with_slurm(view, controller)),
        findings=store.current_findings(cluster, node),
        standing=controller.service.of(cluster, node),
        drain=next((d for d in controller.drains() if (d.cluster, d.node) == (cluster, node)), None),
        inventory=store.inventory(cluster, node),
        reports=store.reports_of_node(cluster, node, limit=REPORTS_SHOWN),
        began=store.began(cluster, node=node)[:REPORTS_SHOWN],
    )


def coverage(store: Store, controller: ControllerPort, seconds: float) -> Coverage:
    """Which nodes and which starts of the last ``seconds`` are vetted.

    Where Slurm has not answered, only nodes known by their agents count.
    """
    seen = {v.node: with_slurm(v, controller) for v in store.nodes(limit=10**6)}
    known = controller.slurm_states()
    down = {n for n, s in known.items() if not s.flags.isdisjoint(_POWERED_DOWN)}
    stale = sorted(n for n, v in seen.items() if v.data == "stale")
    return Coverage(
        nodes=len(seen.keys() | known.keys()),
        fresh=sum(v.data == "fresh" for v in seen.values()),
        stale=tuple(stale[:NAMED]),
        without_agent=tuple(sorted(known.keys() - seen.keys() - down)[:NAMED]),
        no_data=tuple(sorted(down - {n for n, v in seen.items() if v.data == "fresh"})[:NAMED]),
        limits=controller.limits(),
        counters=dict(controller.metrics()),
        jobs=store.starts(seconds),
    )
