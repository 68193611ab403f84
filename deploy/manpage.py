"""The manual page nodevet(8) is made from the command's own help, so that it cannot say anything else."""

from __future__ import annotations

import inspect
from pathlib import Path

import click

PAGE = Path(__file__).resolve().parent.parent / "docs" / "nodevet.8"

_FILES = (
    ("/etc/nodevet/nodevet.toml", "the node's side: agent, paths, checks, remedies"),
    ("/etc/nodevet/server.toml", "the central service: listening, controller, guard, remedies, alerts"),
    ("/etc/nodevet/hook.conf", "what the programs that Slurm runs read"),
    ("/etc/nodevet/policy.d/*.toml", "site rules over the shipped ones"),
    ("/etc/nodevet/profiles.d/*.toml", "site profiles of node shapes"),
    ("/etc/nodevet/STOP", "while it exists every hook exits 0 at once"),
    ("/run/nodevet/agent.sock", "the agent's socket for everybody; agent.sock.hook beside it is for the hooks alone"),
    ("/var/lib/nodevet/", "the agent's state"),
)
_STATUS = (
    ("0", "done; nodevet check: nothing is wrong"),
    ("1", "refused or not found; nodevet check: a warning"),
    ("2", "nodevet check: a check failed"),
    ("3", "nodevet check: a check could not be answered"),
    ("64", "usage"),
    ("69", "nobody answers"),
    ("77", "not allowed"),
)


def page() -> str:
    """The whole page in man(7) macros."""
    from daemon.cli.main import cli
    from daemon.cli.verbs import register

    register(cli)
    top = click.Context(cli, info_name="nodevet")
    parts = [
        '.\\" made by python -m deploy.docs',
        '.TH NODEVET 8 "" "Nodevet" "System administration"',
        ".SH NAME",
        "nodevet \\- vets every node of a Slurm GPU cluster before every job",
        ".SH SYNOPSIS",
        "\\fBnodevet\\fR [\\fIoptions\\fR] \\fIverb\\fR [\\fIarguments\\fR]",
        ".SH DESCRIPTION",
        *_help(cli),
        ".SH VERBS",
        *_verbs(top, cli),
        ".SH EXIT STATUS",
        *_listed(_STATUS),
        ".SH FILES",
        *_listed(_FILES),
        ".SH SEE ALSO",
        "slurm.conf(5), scontrol(1), sinfo(1)",
    ]
    return "\n".join(parts) + "\n"


def _verbs(parent: click.Context, group: click.Group) -> list[str]:
    lines: list[str] = []
    for name in group.list_commands(parent):
        command = group.get_command(parent, name)
        if command is None or command.hidden:
            continue
        context = click.Context(command, info_name=name, parent=parent)
        if isinstance(command, click.Group):
            lines += _verbs(context, command)
            continue
        lines += [".SS " + _roff(context.command_path), *_help(command), *_options(context, command)]
    return lines


def _help(command: click.Command) -> list[str]:
    """Paragraphs of the help text; what stands behind \\b is kept line by line."""
    lines: list[str] = []
    for block in inspect.cleandoc(command.help or "").split("\n\n"):
        if block.startswith("\b"):
            lines += [".nf", *(_roff(line) for line in block.split("\n")[1:]), ".fi"]
        else:
            lines += [".PP", _roff(" ".join(block.split()))]
    return lines


def _options(context: click.Context, command: click.Command) -> list[str]:
    lines: list[str] = []
    for parameter in command.get_params(context):
        if parameter is command.get_help_option(context):
            continue  # every verb has it, and click remembers its names from whoever asked first
        record = parameter.get_help_record(context)
        if record is not None:
            lines += [".TP", f"\\fB{_roff(record[0])}\\fR", _roff(record[1]) or "\\&"]
    return lines


def _listed(rows: tuple[tuple[str, str], ...]) -> list[str]:
    return [line for name, text in rows for line in (".TP", f"\\fB{_roff(name)}\\fR", _roff(text))]


def _roff(text: str) -> str:
    """Text in which nothing is a macro."""
    safe = text.replace("\\", "\\e").replace("-", "\\-").replace("…", "...").replace("'", "\\(aq")
    return f"\\&{safe}" if safe.startswith((".", "\\(aq")) else safe
