"""What a code or a check means, how to confirm it by hand, what to do, and what Nodevet itself does about it."""

from __future__ import annotations

import inspect
import re
from collections.abc import Mapping
from typing import TYPE_CHECKING

import click

from daemon.cli.explain_list import show_all
from daemon.cli.output import Refused, json_option, nearest, print_json
from daemon.cli.policy import site_policy
from daemon.cli.settings import settings

if TYPE_CHECKING:
    from checks import Check, Code
    from checks.judge.policy import Policy


@click.command()
@click.argument("name", metavar="[CODE|CHECK]", required=False)
@click.option("--list", "everything", is_flag=True, help="List every check, with the codes that it can give.")
@json_option
@click.pass_context
def explain(ctx: click.Context, name: str | None, everything: bool, as_json: bool) -> None:
    """Explain a code or a check, or list every check.

    \b
    Examples:
      nodevet explain gpu_driver_hung
      nodevet explain ib_port
      nodevet explain --list --json
    """
    import daemon.agent.codes
    import daemon.lanes.codes  # noqa: F401 - both declare codes of our own trouble
    from checks import CODES
    from checks.catalog import load

    known = load()
    if everything == (name is not None):
        raise click.UsageError("name a code or a check, or give --list")
    if name is None:
        show_all(known, site_policy(settings(ctx)), as_json)
    elif name in CODES:
        _code(CODES[name], known, site_policy(settings(ctx)), as_json)
    elif name in known:
        _check(known[name], site_policy(settings(ctx)), as_json)
    else:
        raise Refused(f"no code and no check {name!r}{_elsewhere(name) or nearest(name, [*CODES, *known])}")


def _elsewhere(name: str) -> str:
    """Where the number of an Xid is told, which people read in the kernel's log and ask for here."""
    found = re.fullmatch(r"(?:(xid|sxid)[ ._:-]?)?(\d{1,5})", name.strip().lower())
    return f"; of an Xid: nodevet policy show {found[1] or 'xid'}.{found[2]}" if found else ""


def _code(code: Code, known: dict[str, Check], policy: Policy, as_json: bool) -> None:
    from checks.judge.rules import TOLD

    rule = policy.rule(code.name, code.status, code.blame)
    default = f"defaults.{code.status}.{code.blame}"
    force = {}
    for field in rule.__struct_fields__:
        value = getattr(rule, field)
        if value is not None and field not in TOLD:
            own = policy.origin.get(f"codes.{code.name}.{field}")
            force[field] = {"value": value, "origin": own or policy.origin.get(f"{default}.{field}", "default")}
    givers = sorted(c.name for c in known.values() if code in c.codes)
    if as_json:
        text = {"code": code.name, "status": code.status, "blame": code.blame, "message": code.template}
        print_json({**text, "explain": code.explain, "checks": givers, "policy": force})
        return
    click.echo(f"{code.name}: {code.status}, blame {code.blame}\n  {code.template}\n")
    if code.explain:
        click.echo(inspect.cleandoc(code.explain) + "\n")
    if givers:
        click.echo(f"given by: {', '.join(givers)}")
    click.echo("policy in force:" if force else "policy in force: shown, nothing follows from it")
    for field, item in force.items():
        click.echo(f"  {field} = {item['value']}   ({item['origin']})")


def _check(declared: Check, policy: Policy, as_json: bool) -> None:
    from checks.judge.differ import outcome

    options = {name: "" if p.default is inspect.Parameter.empty else p.default for name, p in declared.options.items()}
    if as_json:
        facts = {k: getattr(declared, k) for k in ("name", "title", "lane", "cost", "scope", "interval", "timeout")}
        codes = [code.name for code in declared.codes]
        print_json({**facts, "needs": declared.needs, "explain": declared.explain, "codes": codes, "options": options})
        return
    click.echo(f"{declared.name}: {declared.title}\n")
    click.echo(declared.explain + "\n")
    click.echo(
        f"every {declared.interval:g} s, at most {declared.timeout:g} s, {declared.cost}, lane {declared.lane}"
        + (f", needs {', '.join(declared.needs)}" if declared.needs else "")
        + (", at a hook only" if declared.per_job else "")
    )
    for name, value in options.items():
        click.echo(f"setting {name} = {value!r} (default)")
    for code in declared.codes:
        found = outcome(policy, code.name, code.status, code.blame)
        click.echo(f"code {code.name}: {code.status}, blame {code.blame}; {_acts(found)}")
    click.echo("\nnodevet explain CODE says how to confirm a code and what to do")


def _acts(found: Mapping[str, object]) -> str:
    """What the policy in force makes of a code, in a few words."""
    if {found["prolog"], found["interval"]} <= {"admit"}:
        return "shown only" + (" (in shadow)" if found.get("shadow") else "")
    return f"at a job: {found['prolog']}, between jobs: {found['interval']}"
