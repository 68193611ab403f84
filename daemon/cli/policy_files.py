"""Policy files are proved before they reach a node, and two policies are compared by what follows from them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from daemon.cli.output import Refused, json_option, print_json, table, why
from daemon.cli.policy import in_force, policy
from daemon.cli.settings import settings

if TYPE_CHECKING:
    from checks.judge.examine import Known
    from checks.judge.policy import Policy
    from daemon.config import Config

SHIPPED, IN_FORCE = "shipped", "in-force"
GIVEN_BY = {"kernel": "kernel_events", "sxid": "kernel_events", "xid": "kernel_xid", "dcgm": "dcgm_diag"}


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
    from checks.judge.examine import examine
    from checks.judge.policy import load_packs, merge, read_pack

    chosen = files or tuple(sorted(Path(settings(ctx).agent.policy_dir).glob("*.toml")))
    known, below, told = declared(), list(load_packs(None)), []
    for path in chosen:
        try:
            text = path.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise Refused(f"{path}: {why(error)}") from error
        problems = examine(text, known, merge(below))
        bad = any(p.level == "error" for p in problems)
        if not bad:
            below.append((str(path), read_pack(text, str(path))))
        version = below[-1][1].version if not bad else ""
        told.append({"file": str(path), "version": version, "problems": problems})
        if not as_json:
            for p in problems:
                click.echo(f"{path}:{p.line}: {p.level}: {p.text}", err=p.level == "error")
            if not bad:
                click.echo(f"{path}: ok, version {version}")
    if as_json:
        print_json({"files": told})
    elif not chosen:
        click.echo("no site policy: the shipped one is in force")
    levels = {p.level for one in told for p in one["problems"]}  # type: ignore[attr-defined]
    if "error" in levels or (strict and levels):
        raise Refused("policy cannot be used as it is" if "error" in levels else "policy has warnings")


def declared() -> Known:
    """What the checks of this installation declare."""
    import daemon.agent.codes
    import daemon.lanes.codes  # noqa: F401 - both declare codes of our own trouble
    from checks import CODES
    from checks.catalog import load
    from checks.judge.examine import Known

    checks = load()
    return Known(
        codes={name: (code.status, code.blame) for name, code in CODES.items()},
        tables={table: frozenset(c.name for c in checks[name].codes) for table, name in GIVEN_BY.items()},
        checks=frozenset(checks),
    )


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
