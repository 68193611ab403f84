"""The verbs of the simulated cluster, imported only when they are called."""

from __future__ import annotations

import click


def register(group: click.Group) -> None:
    """Add ``nodevet sim``."""
    add = getattr(group, "add_lazy", None)
    if add is not None:
        add("sim", "deploy.simcluster.sim:sim", "A real Slurm cluster over simulated hosts, on this machine.")
        return
    from deploy.simcluster.sim import sim

    group.add_command(sim, "sim")
