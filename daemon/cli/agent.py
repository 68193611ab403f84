"""The agent runs in the foreground; systemd keeps it."""

from __future__ import annotations

import importlib
from pathlib import Path

import click


@click.command()
@click.pass_context
def agent(ctx: click.Context) -> int:
    """Run the node's agent in the foreground until it is asked to end.

    \b
    Example (what the systemd unit does):
      /opt/nodevet/bin/python -I -m daemon agent
    """
    given = ctx.find_root().obj
    # By name: the agent's own modules must not be read by any other verb.
    return int(importlib.import_module("daemon.agent.main").run(Path(given) if given else None) or 0)
