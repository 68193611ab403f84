"""Before slurmd starts, the agent gets the time to look at its node once; whatever happens, slurmd then starts."""

from __future__ import annotations

import time

import click

from daemon.cli.output import json_option, print_json
from daemon.cli.rest import duration
from daemon.cli.settings import settings

STEP = 0.2
ASK_WITHIN = 2.0


@click.command()
@click.option("--ready", "for_ready", is_flag=True, required=True, help="Until every check has been asked once.")
@click.option(
    "--timeout",
    "seconds",
    metavar="TIME",
    callback=duration,
    default="60",
    show_default=True,
    help="At most this long.",
)
@click.option("--socket", "path", metavar="PATH", help="Instead of the configured socket.")
@json_option
@click.pass_context
def wait(ctx: click.Context, for_ready: bool, seconds: float, path: str | None, as_json: bool) -> None:
    """Wait until this node's agent has looked at the node, for use before slurmd starts.

    Always exits 0: a node must not stay away because Nodevet does. A drop-in for slurmd.service:
    ExecStartPre=-/usr/local/bin/nodevet wait --ready --timeout 60

    \b
    Example:
      nodevet wait --ready --timeout 60
    """
    from daemon.cli.output import Refused

    begun = time.monotonic()
    try:
        socket = path or settings(ctx).agent.socket
        note = _until_ready(socket, begun + seconds)
    except Refused as error:
        note = error.message
    took = time.monotonic() - begun
    if as_json:
        print_json({"ready": not note, "note": note, "seconds": round(took, 3)})
    else:
        click.echo(f"ready after {took:.1f} s" if not note else f"not ready, going on: {note}", err=bool(note))


def _until_ready(socket: str, deadline: float) -> str:
    """Empty once the agent is ready, else the last reason why it is not."""
    while True:
        left = deadline - time.monotonic()
        note = _why_not(socket, max(STEP, min(ASK_WITHIN, left)))
        if not note or time.monotonic() + STEP >= deadline:
            return note
        time.sleep(STEP)


def _why_not(socket: str, timeout: float) -> str:
    import msgspec

    from daemon.cli.local import get
    from daemon.cli.output import NotAllowed, Refused, Unreachable

    try:
        seen = msgspec.json.decode(get(socket, "/v1/status", timeout=timeout), type=dict[str, object])
    except (Unreachable, NotAllowed, Refused) as error:
        return error.message
    except msgspec.DecodeError as error:
        return f"agent's answer is not what was expected: {error}"
    if seen.get("paused"):
        return ""
    if error_text := seen.get("config_error"):
        return f"agent's configuration is broken: {error_text}"
    checks = seen.get("checks")
    rows = [row for row in checks if isinstance(row, dict)] if isinstance(checks, list) else []
    open_ = [str(row.get("name")) for row in rows if row.get("age") is None]
    if not rows:
        return "agent has not planned its checks yet"
    return f"not asked yet: {', '.join(open_[:8])}" if open_ else ""
