"""Each verb reads the configuration the same way and says clearly why it cannot."""

from __future__ import annotations

from pathlib import Path

import click

from daemon.cli.output import Refused
from daemon.config import Config, ConfigError, load_config


def settings(ctx: click.Context) -> Config:
    """The configuration in force; a broken one ends the verb with its message."""
    given = ctx.find_root().obj
    try:
        return load_config(Path(given) if given else None)
    except ConfigError as error:
        raise Refused(f"configuration: {error}") from error
