"""Shells complete verbs and options by asking the command itself."""

from __future__ import annotations

import click

from daemon.cli.output import Refused


@click.command()
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@click.pass_context
def completion(ctx: click.Context, shell: str) -> None:
    """Print the completion script of a shell.

    \b
    Examples:
      nodevet completion bash > /etc/bash_completion.d/nodevet
      nodevet completion fish | source
    """
    from click.shell_completion import get_completion_class

    kind = get_completion_class(shell)
    if kind is None:
        raise Refused(f"shell {shell} is not known")
    root = ctx.find_root().command
    click.echo(kind.source_template % kind(root, {}, "nodevet", "_NODEVET_COMPLETE").source_vars())
