"""What the agent on this node says of itself and of the node."""

from __future__ import annotations

import click

from daemon.cli.output import Refused, json_option, paint, print_json, table
from daemon.cli.settings import settings


@click.command()
@click.option("--socket", "path", metavar="PATH", help="Instead of the configured socket.")
@json_option
@click.pass_context
def status(ctx: click.Context, path: str | None, as_json: bool) -> None:
    """Show what the agent on this node sees.

    \b
    Examples:
      nodevet status
      nodevet status --json | jq .verdict
    """
    import msgspec

    from daemon.cli.local import get

    body = get(path or settings(ctx).agent.socket, "/v1/status")
    try:
        seen = msgspec.json.decode(body, type=dict[str, object])
    except msgspec.DecodeError as error:
        raise Refused(f"agent's answer is not what was expected: {error}") from error
    if as_json:
        print_json(seen)
        return
    _print(seen)


def _print(seen: dict[str, object]) -> None:
    findings, checks = seen.pop("findings", []), _dicts(seen.get("checks"))
    if checks:
        # Each with its age is for --json; a person wants to know of those that are behind.
        behind = [str(c.get("name") or "") for c in checks if c.get("stale")]
        seen["checks"] = f"{len(checks)}" + (f", stale: {', '.join(behind)}" if behind else ", none stale")
    for key, value in seen.items():
        if isinstance(value, str) and key == "verdict":
            click.echo(f"{key}: {paint(value)}")
        elif value not in (None, "", [], {}):
            click.echo(f"{key.replace('_', ' ')}: {_flat(value)}")
    rows = [[str(f.get(k) or "") for k in ("status", "check", "target", "message")] for f in _dicts(findings)]
    if rows:
        click.echo()
        table(("STATUS", "CHECK", "TARGET", "MESSAGE"), rows, painted=0)


def _dicts(value: object) -> list[dict[str, object]]:
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


def _flat(value: object) -> str:
    from checks import clean

    if isinstance(value, dict):
        named = ((k.replace("_", " "), v) for k, v in value.items() if v not in (None, "", [], {}))
        return ", ".join(f"{k} {_flat(v)}" for k, v in named)
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list):
        return ", ".join(map(_flat, value))
    return clean(value, 2000)
