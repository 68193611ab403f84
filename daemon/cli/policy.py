"""What follows from findings: the shipped policy with the site's layers over it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import click

from daemon.cli.output import Refused, json_option, nearest, print_json, table
from daemon.cli.settings import settings

if TYPE_CHECKING:
    from checks.judge.policy import Policy
    from checks.judge.rules import Pack
    from daemon.config import Config

RULES = ("defaults", "codes")


def site_policy(config: Config) -> Policy:
    """The policy in force on this node; a directory that we may not read counts as absent."""
    return in_force(config)[0]


def in_force(config: Config) -> tuple[Policy, tuple[tuple[str, Pack], ...]]:
    """The policy in force on this node, and the files that make it."""
    from checks.judge.policy import PolicyError, load_packs, merge

    try:
        packs = load_packs(Path(config.agent.policy_dir))
    except PermissionError:
        click.echo(f"{config.agent.policy_dir}: not readable for this user, shown is the shipped policy", err=True)
        packs = load_packs(None)
    except (PolicyError, OSError) as error:
        raise Refused(f"policy: {error}") from error
    return merge(packs), packs


@click.group()
def policy() -> None:
    """Show, prove and compare what follows from findings."""


@policy.command()
@click.argument("name", metavar="[CODE|TABLE|TABLE.KEY]", required=False)
@click.option("--origin", "everything", is_flag=True, help="Also the version of each file, and where values come from.")
@json_option
@click.pass_context
def show(ctx: click.Context, name: str | None, everything: bool, as_json: bool) -> None:
    """Show the rules and tables in force, each value with its origin.

    Without a name: what follows from codes; as JSON every table too. Its last line names the tables.

    \b
    Examples:
      nodevet policy show
      nodevet policy show gpu_lost --origin
      nodevet policy show xid.79
      nodevet policy show dcgm --json
    """
    found, packs = in_force(settings(ctx))
    rows = list(_rows(found, name, tables=as_json))
    if not rows:
        raise Refused(_no_rule(name or "", found))
    told = Origins(found, packs)
    if as_json:
        files = [{"file": file, "version": pack.version} for file, pack in packs]
        values = {key: {"value": value, **told.of(key)} for key, value in rows}
        print_json({"version": found.version, "packs": files, "rules": values})
        return
    click.echo(f"version {found.version}")
    head = ("RULE", "VALUE", "ORIGIN")
    short = [(key, _word(value), told.of(key)["origin"]) for key, value in rows]
    if everything:
        more = ("VERSION", "SOURCE", "REASON")
        table((*head, *more), [(*row, *(told.of(row[0])[n] for n in ("version", "source", "reason"))) for row in short])
    else:
        table(head, short)
    if name is None:
        sizes = ", ".join(f"{part} ({len(getattr(found, part))})" for part in _parts() if part not in RULES)
        click.echo(f"tables, shown by their name: {sizes}")


def _parts() -> tuple[str, ...]:
    from checks.judge.policy import TABLES

    return tuple(TABLES)


def _rows(found: Policy, name: str | None, *, tables: bool) -> Iterator[tuple[str, object]]:
    """Each value with its key; all of one code, table or entry where one is named."""
    from checks.judge.rules import TOLD

    for part in _parts():
        if name is None and part not in RULES and not tables:
            continue
        for key, entry in getattr(found, part).items():
            if name is not None and name not in (part, f"{part}.{key}") and not (part in RULES and name == key):
                continue
            for field in entry.__struct_fields__:
                value = getattr(entry, field)
                if field not in TOLD and value is not None:
                    yield f"{part}.{key}.{field}", value


class Origins:
    """Who set a value: its file with its version, where it comes from, and why."""

    def __init__(self, found: Policy, packs: tuple[tuple[str, Pack], ...]) -> None:
        self._found, self._packs = found, dict(packs)

    def of(self, key: str) -> dict[str, str]:
        """All that is told of the value ``part.key.field``."""
        file = self._found.origin.get(key, "default")
        pack = self._packs.get(file)
        if pack is None:
            return {"origin": file, "version": "", "source": "", "reason": ""}
        part, _, rest = key.partition(".")
        entry = getattr(pack, part)[rest.rpartition(".")[0]]
        source, reason = entry.origin or pack.origin or "", entry.reason or pack.reason or ""
        return {"origin": file, "version": pack.version, "source": source, "reason": reason}


def _word(value: object) -> str:
    return ", ".join(map(str, value)) if isinstance(value, tuple) else str(value)


def _no_rule(name: str, found: Policy) -> str:
    """A code without a rule goes by its status and blame; another name is no code."""
    import daemon.agent.codes
    import daemon.lanes.codes  # noqa: F401 - both declare codes of our own trouble
    from checks import CODES
    from checks.catalog import load

    load()
    part, _, key = name.partition(".")
    if key and part in _parts():
        if key.isdigit() and "default" in getattr(found, part):
            return f"no entry {key!r} in the table {part}: {part}.default says what follows"
        return f"no entry {key!r} in the table {part}{nearest(key, getattr(found, part))}"
    if name not in CODES:
        return f"no code and no table {name!r}{nearest(name, [*CODES, *found.codes, *_parts()])}"
    return f"{name} has no rule of its own: nodevet explain {name} says what follows"
