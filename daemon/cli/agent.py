"""The agent runs in the foreground; systemd keeps it."""

from __future__ import annotations

import os
import sys

import click


@click.command()
@click.pass_context
def agent(ctx: click.Context) -> None:
    """Run the node's agent in the foreground until it is asked to end.

    \b
    Example (what the systemd unit does):
      /opt/nodevet/bin/python -I -m daemon agent
    """
    given = ctx.find_root().obj
    # A fresh start of the same process: what only the command line needs would stay in the agent's memory for ever.
    flags = ["-I"] if sys.flags.isolated else []
    os.execv(sys.executable, [sys.executable, *flags, "-m", "daemon.agent", *([str(given)] if given else [])])
