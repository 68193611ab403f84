"""The verbs of the node's own side, each imported only when it is called."""

from __future__ import annotations

import importlib

import click

LOCAL = {
    "check": ("daemon.cli.check:check", "Ask this node's checks now; needs no agent, server or GPU."),
    "explain": ("daemon.cli.explain:explain", "What a code or a check means and what to do."),
    "agent": ("daemon.cli.agent:agent", "Run the node's agent in the foreground."),
    "status": ("daemon.cli.status:status", "What the agent on this node sees."),
    "wait": ("daemon.cli.wait:wait", "Wait for the agent before slurmd starts; always exits 0."),
    "hook": ("daemon.cli.hook:hook", "Install and test what Slurm runs."),
    "config": ("daemon.cli.config:config", "Check and show the configuration."),
    "policy": ("daemon.cli.policy_files:policy", "Show, prove and compare what follows from findings."),
    "profile": ("daemon.cli.profile:profile", "Show what nodes of each kind must have."),
    "hardware": ("daemon.cli.hardware:hardware", "Show reference figures of accelerators and networks."),
    "doctor": ("daemon.cli.doctor:doctor", "Warn of what will bite: running Slurm, this machine, central service."),
    "completion": ("daemon.cli.completion:completion", "Print the completion script of a shell."),
}


def register(group: click.Group) -> None:
    """Add our verbs to ``group``."""
    add = getattr(group, "add_lazy", None)
    for name, (target, short) in LOCAL.items():
        if add is not None:
            add(name, target, short)
            continue
        module, _, attribute = target.partition(":")
        group.add_command(getattr(importlib.import_module(module), attribute), name)
