"""The tables of README.md and docs, the manual page and the JSON schema are made by ``python -m deploy.docs``."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import msgspec

from checks.catalog import load
from checks.declare import Check, Code
from checks.wire import CheckReport
from daemon.plan import SELDOM
from deploy import settings_page
from deploy.manpage import PAGE, page

README = Path(__file__).resolve().parent.parent / "README.md"
CHECKS = README.parent / "docs" / "checks.md"
SCHEMA = README.parent / "docs" / "schema" / "check.json"
_BLOCK = re.compile(r"(<!-- made: (\w+) -->\n).*?(\n<!-- end -->)", re.S)


def checks_table() -> str:
    """Every check: what is true of a healthy node, how often and where it is asked, what it can find."""
    rows = ["| check | on a healthy node | asked | can find |", "|---|---|---|---|"]
    rows += [f"| `{c.name}` | {_cell(c.title)} | {_asked(c)} | {_codes(c.codes)} |" for c in load().values()]
    return "\n".join(rows)


def _asked(check: Check) -> str:
    when = "at a job's hooks" if check.per_job else f"every {check.interval:g} s, before a job when older than 10 s"
    if not check.per_job and (check.scope != "node" or check.cost != "passive" or check.interval >= SELDOM):
        when = f"every {check.interval:g} s"
    if check.cost == "deep":
        when = "by hand or by order, on an idle node"
    return f"{when}{'; active' if check.cost == 'active' else ''}{'; required' if check.required else ''}"


def _codes(codes: tuple[Code, ...]) -> str:
    told = [c for c in codes if c.blame != "self"]
    return ", ".join(f"`{c.name}` ({c.status}, {c.blame})" for c in told) or "-"


def _cell(text: str) -> str:
    return text.replace("|", "\\|").rstrip(".")


def verbs_table() -> str:
    """Every verb of the nodevet command with its line of help."""
    import click

    from daemon.cli.main import cli
    from daemon.cli.verbs import register

    register(cli)
    context = click.Context(cli)
    rows = ["| verb | does |", "|---|---|"]
    for name in cli.list_commands(context):
        command = cli.get_command(context, name)
        if command is not None and not command.hidden:
            rows.append(f"| `nodevet {name}` | {_cell(command.get_short_help_str(120))} |")
    return "\n".join(rows)


def schema() -> str:
    """The JSON schema (2020-12) of what ``nodevet check --json`` prints.

    Every member is always written, so every member is required; a reader must bear members that are added later.
    """
    made: dict[str, Any] = msgspec.json.schema(CheckReport)
    for name, struct in made["$defs"].items():
        struct["required"] = list(struct["properties"])
        struct["description"] = _plain(struct["description"])
        for member in struct["properties"].values():
            member.pop("default", None)
        for time in ("observed_at", "since") if name == "Finding" else ():
            struct["properties"][time]["anyOf"][0]["format"] = "date-time"
    head = {"$schema": "https://json-schema.org/draft/2020-12/schema", "title": "nodevet check --json"}
    return json.dumps({**head, **made}, indent=2) + "\n"


def _plain(text: str) -> str:
    return " ".join(text.replace("``", "").split())


MADE = {"checks": checks_table, "verbs": verbs_table}


def rendered(text: str) -> str:
    """The text with every made block as the declarations say it now."""
    return _BLOCK.sub(lambda m: f"{m[1]}{MADE[m[2]]()}{m[3]}", text)


if __name__ == "__main__":
    PAGE.parent.mkdir(exist_ok=True)
    PAGE.write_text(page(), encoding="utf-8")
    settings_page.PAGE.write_text(settings_page.page(), encoding="utf-8")
    SCHEMA.parent.mkdir(exist_ok=True)
    SCHEMA.write_text(schema(), encoding="utf-8")
    for path in (README, CHECKS):
        path.write_text(rendered(path.read_text(encoding="utf-8")), encoding="utf-8")
