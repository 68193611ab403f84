"""Policy files are proved before they reach a node, and two policies are compared by what follows from them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from daemon.cli.output import Refused, json_option, print_json, table, why
from daemon.cli.policy import in_force, policy
from daemon.cli.settings import settings

if TYPE_CHECKING:
    from checks.judge.policy import Policy
    from daemon.config import Config

SHIPPED, IN_FORCE = "shipped", "in-force"


@policy.command()
@click.argument("files", nargs=-1, type=click.Path(path_type=Path))
@click.option("--strict", is_flag=True, help="Refuse for a warning too.")
@json_option
@click.pass_context
def validate(ctx: click.Context, files: tuple[Path, ...], strict: bool, as_json: bool) -> None:
    """Prove policy files, or those in force, before they reach a node.

    Each file is laid over the shipped packs and those before it. Named by line: what cannot be read, codes, checks
    and entries that nobody knows (errors); values that never act, and contradictions (warnings). Exit 1 for an error.

    \b
    Examples:
      nodevet policy validate policy.d/*.toml
      nodevet policy validate --strict --json site.toml
    """
    from daemon.proving import prove

    chosen = files or tuple(sorted(Path(settings(ctx).agent.policy_dir).glob("*.toml")))
    for path in chosen:
        try:
            path.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise Refused(f"{path}: {why(error)}") from error
    told = prove(chosen)
    for one in () if as_json else told:
        for p in one.problems:
            click.echo(f"{one.file}:{p.line}: {p.level}: {p.text}", err=p.level == "error")
        if one.usable:
            click.echo(f"{one.file}: ok, version {one.version}")
    if as_json:
        print_json({"files": told})
    elif not chosen:
        click.echo("no site policy: the shipped one is in force")
    if not all(one.usable for one in told):
        raise Refused("policy cannot be used as it is")
    if strict and any(one.problems for one in told):
        raise Refused("policy has warnings")


@policy.command()
@click.argument("a", metavar="A")
@click.argument("b", metavar="[B]", default=IN_FORCE)
@click.option("--exit-code", is_flag=True, help="Exit 1 where they differ.")
@json_option
@click.pass_context
def diff(ctx: click.Context, a: str, b: str, exit_code: bool, as_json: bool) -> int:
    """Show what would follow otherwise by policy B than by policy A.

    A and B: a file or a folder of files, each laid over the shipped packs, or "shipped", or "in-force" (the default).
    Compared are status, blame and action of every code, and every entry of every table with what follows from it.

    \b
    Examples:
      nodevet policy diff shipped
      nodevet policy diff in-force ./new-policy.d
      nodevet policy diff old.toml new.toml --json --exit-code
    """
    from checks.judge.differ import differences
    from daemon.proving import declared

    one, other = (_named(settings(ctx), name) for name in (a, b))
    found = list(differences(one, other, declared().codes))
    if as_json:
        sides = {"a": {"name": a, "version": one.version}, "b": {"name": b, "version": other.version}}
        print_json({**sides, "differences": found})
    elif found:
        rows = [(f"{d.table}.{d.key}", d.value, _shown(d.a), _shown(d.b)) for d in found]
        table(("RULE", "VALUE", f"A ({a})", f"B ({b})"), rows)
    else:
        click.echo("the same follows from both")
    return 1 if exit_code and found else 0


def _shown(value: object) -> str:
    return "-" if value is None else ", ".join(map(str, value)) if isinstance(value, tuple) else str(value)


def _named(config: Config, name: str) -> Policy:
    from checks.judge.policy import PolicyError, load_packs, merge, read_pack, shipped

    if name == SHIPPED:
        return shipped()
    if name == IN_FORCE:
        return in_force(config)[0]
    path = Path(name)
    try:
        if path.is_dir():
            return merge(load_packs(path))
        return merge((*load_packs(None), (name, read_pack(path.read_text(encoding="utf-8"), name))))
    except PolicyError as error:
        raise Refused(str(error)) from error
    except (OSError, UnicodeDecodeError) as error:
        raise Refused(f"{name}: {why(error)}; expected a file, a folder, {SHIPPED} or {IN_FORCE}") from error
