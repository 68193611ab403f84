"""The agent runs in the foreground; systemd keeps it."""

from __future__ import annotations

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
    from daemon.agent.main import run

    given = ctx.find_root().obj
    return run(Path(given) if given else None)
