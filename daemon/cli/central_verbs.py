"""The verbs that ask the central service, each imported only when it is called."""

from __future__ import annotations

import importlib

import click

CENTRAL = {
    "nodes": ("daemon.cli.nodes:nodes", "Every node with its verdict and Slurm state."),
    "node": ("daemon.cli.nodes:node", "One node: verdict, findings, drain, recent reports."),
    "jobs": ("daemon.cli.jobs:jobs", "What was answered to jobs, or to one job."),
    "incidents": ("daemon.cli.incidents:incidents", "Open problems."),
    "drains": ("daemon.cli.drains:drains", "Every drain in force: owner, reason, way out."),
    "drain": ("daemon.cli.drains:drain", "Take nodes out of service."),
    "resume": ("daemon.cli.drains:resume", "Give nodes back, verified first."),
    "undo": ("daemon.cli.undo:undo", "Take back a drain or resume of a list of nodes."),
    "operations": ("daemon.cli.undo:operations", "Who drained, resumed or undid which nodes."),
    "pause": ("daemon.cli.rest:pause", "Keep hands off nodes for a time."),
    "repair": ("daemon.cli.repair:repair", "Keep hands off nodes in repair, under a ticket."),
    "ready": ("daemon.cli.repair:ready", "End a pause, a repair or a maintenance, and verify."),
    "swaps": ("daemon.cli.swaps:swaps", "Which parts were replaced, after which drain, verified or not."),
    "firmware": ("daemon.cli.firmware:firmware", "Which nodes run another driver or firmware than their like."),
    "probation": ("daemon.cli.repair:probation", "Nodes watched closer, nodes held for flapping, strikes."),
    "silence": ("daemon.cli.rest:silence", "Have findings lead to nothing for a time."),
    "remedy": ("daemon.cli.remedies:remedy", "Mend a drained node: reset a GPU, reboot, run a site executable."),
    "remedies": ("daemon.cli.remedies:remedies", "What was done to drained nodes, what waits, and why."),
    "guard": ("daemon.cli.guard:guard", "What automation may still drain; overrule it."),
    "coverage": ("daemon.cli.coverage:coverage", "Which nodes and jobs are vetted, and why others are not."),
    "lemons": ("daemon.cli.lemons:lemons", "Nodes worse than their peers."),
}


def register(group: click.Group) -> None:
    """Add the verbs of the central service to ``group``."""
    add = getattr(group, "add_lazy", None)
    for name, (target, short) in CENTRAL.items():
        if add is not None:
            add(name, target, short)
            continue
        module, _, attribute = target.partition(":")
        group.add_command(getattr(importlib.import_module(module), attribute), name)
