"""The one nodevet command: its verbs come from every part that is installed, and a missing part is only a hint."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable
from functools import partial
from typing import cast

import click

from daemon.cli.output import USAGE, escaped, nearest

GROUP = "nodevet.verbs"
# Where the parts keep their verbs when no distribution names them (a clone that is not installed).
PARTS = {
    "daemon": "daemon.cli.verbs",
    "central": "daemon.cli.central_verbs",
    "api": "api.cli",
    "simcluster": "deploy.simcluster.cli",
}
INTERRUPTED = 130
Register = Callable[[click.Group], None]
Loader = Callable[[], Register]


class Verbs(click.Group):
    """A group whose commands are imported when they are called; other parts are looked for when they are needed."""

    def __init__(self, *args: object, **kwargs: object) -> None:
        super().__init__(*args, **kwargs)  # type: ignore[arg-type]
        self.lazy: dict[str, tuple[str, str]] = {}
        self.hints: list[str] = []
        self._pending: dict[str, Loader] | None = None

    def add_lazy(self, name: str, target: str, short: str) -> None:
        """Add a command by ``module:attribute`` and one line of help."""
        self.lazy[name] = (target, short)

    def load_parts(self, wanted: str | None = None) -> None:
        """Have the parts register their verbs, until ``wanted`` is there; one that does not import leaves a hint."""
        if self._pending is None:
            self._pending = _parts()
        while self._pending and (wanted is None or (wanted not in self.commands and wanted not in self.lazy)):
            name = next(iter(self._pending))
            try:
                self._pending.pop(name)()(self)
            except ModuleNotFoundError as error:
                missing = error.name or str(error)
                if missing != PARTS.get(name):
                    self.hints.append(f"verbs of {name!r} are not available: {missing} is not installed")
            except Exception as error:
                self.hints.append(f"verbs of {name!r} are not available: {type(error).__name__}: {error}")

    def list_commands(self, ctx: click.Context) -> list[str]:
        """All verbs in alphabetical order."""
        self.load_parts()
        return sorted({*self.commands, *self.lazy})

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """The verb, imported now."""
        self.load_parts(cmd_name)
        if cmd_name in self.commands:
            return self.commands[cmd_name]
        if cmd_name not in self.lazy:
            return None
        module, _, attribute = self.lazy[cmd_name][0].partition(":")
        command = getattr(importlib.import_module(module), attribute)
        assert isinstance(command, click.Command)
        self.add_command(command, cmd_name)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Name the nearest verb where there is none of this name."""
        name = args[0]
        if self.get_command(ctx, name) is None and not name.startswith("-"):
            hints = "".join(f"\n{hint}" for hint in self.hints)
            ctx.fail(f"no verb {name!r}{nearest(name, self.list_commands(ctx))}{hints}")
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """One line a verb, without importing those that are not called."""
        rows = []
        for name in self.list_commands(ctx):
            command = self.commands.get(name)
            if command is None or not command.hidden:
                rows.append((name, command.get_short_help_str(80) if command else self.lazy[name][1]))
        with formatter.section("Verbs"):
            formatter.write_dl(rows)
        if self.hints:
            with formatter.section("Not installed"):
                for hint in self.hints:
                    formatter.write_text(hint)


def _parts() -> dict[str, Loader]:
    from importlib.metadata import entry_points

    found: dict[str, Loader] = {}
    found |= {point.name: point.load for point in entry_points(group=GROUP)}
    return {name: partial(_register_of, module) for name, module in PARTS.items()} | found


def _register_of(module: str) -> Register:
    register = importlib.import_module(module).register
    assert callable(register)
    return cast("Register", register)


def _version(ctx: click.Context, _: click.Parameter, wanted: bool) -> None:
    if not wanted:
        return
    from importlib.metadata import PackageNotFoundError, version

    try:
        click.echo(f"nodevet {version('nodevet')}")
    except PackageNotFoundError:
        click.echo("nodevet, not installed: runs from its source")
    ctx.exit()


@click.group(
    cls=Verbs,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog="Exit: 0 done, 1 refused or not found, 64 usage, 69 unreachable, 77 not allowed. "
    "`nodevet check` exits 2 if any check fails, else 3 if any is unknown, else 1 if any warns, else 0.",
)
@click.option("--config", "config_path", metavar="FILE", help="Instead of /etc/nodevet/nodevet.toml (NODEVET_CONFIG).")
@click.option("--version", is_flag=True, is_eager=True, expose_value=False, callback=_version, help="Show the version.")
@click.pass_context
def cli(ctx: click.Context, config_path: str | None) -> None:
    """Vets every node of a Slurm GPU cluster before every job.

    \b
    Examples:
      nodevet check                 is this node fit? (no agent, server or GPU needed)
      nodevet explain gpu_lost      what a code means and what to do
      nodevet status                what the agent on this node sees
    """
    ctx.obj = config_path


def run(arguments: list[str] | None = None) -> int:
    """Run the command and return its exit code."""
    from daemon.cli.verbs import register

    register(cli)
    try:
        value = cli.main(arguments, prog_name="nodevet", standalone_mode=False)
    except click.UsageError as error:
        error.show()
        return USAGE
    except click.ClickException as error:
        # It may repeat what a file, a node or a service said.
        click.echo(f"Error: {escaped(error.format_message())}", err=True)
        return error.exit_code
    except (click.Abort, KeyboardInterrupt):
        return INTERRUPTED
    return value if isinstance(value, int) and not isinstance(value, bool) else 0


def main() -> None:
    """Entry point of the nodevet command."""
    sys.exit(run())
