"""The hooks are installed and proved here, before Slurm runs them: there an error would cost a node."""

from __future__ import annotations

import os
from pathlib import Path

import click

from daemon.cli.output import NotAllowed, Refused, json_option, print_json
from daemon.cli.settings import settings

DIRECTORY = Path("/usr/libexec/nodevet")


@click.group()
def hook() -> None:
    """Install and test what Slurm runs."""


@hook.command()
@click.argument("directory", default=DIRECTORY, type=click.Path(file_okay=False, path_type=Path))
@click.option("--conf", type=click.Path(path_type=Path), help="hook.conf that is compiled in (/etc/nodevet/hook.conf).")
def install(directory: Path, conf: Path | None) -> None:
    """Compile the hook and put its names into DIRECTORY.

    \b
    Examples:
      nodevet hook install
      nodevet hook install /opt/site/hooks --conf /etc/site/hook.conf
    """
    from slurm.hook.build import PROGRAMS, BuildError, build

    try:
        build(directory.absolute(), conf=conf)
    except PermissionError as error:
        raise NotAllowed(f"{directory}: {error.strerror}") from error
    except (BuildError, OSError) as error:
        raise Refused(f"hook not built: {error}") from error
    for name in PROGRAMS.values():
        click.echo(f"{directory.absolute() / name}")
    click.echo("slurm.conf (no arguments there: Slurm would take them as part of the path and drain the node):")
    for key, name in PROGRAMS.items():
        optional = "" if key in ("Prolog", "Epilog", "HealthCheckProgram") else "   # optional"
        click.echo(f"  {key}={directory.absolute() / name}{optional}")


@hook.command(short_help="Prove files, slurm.conf and the way to the agent.")
@click.option("--dir", "directory", default=DIRECTORY, type=click.Path(path_type=Path), help="Where the hooks lie.")
@click.option("--slurm-conf", type=click.Path(path_type=Path), help="The slurm.conf to look into.")
@click.option("--node", help="SLURMD_NODENAME for the trial, instead of the configured node.")
@json_option
@click.pass_context
def test(ctx: click.Context, directory: Path, slurm_conf: Path | None, node: str | None, as_json: bool) -> int:
    """Prove the hooks: their files, slurm.conf's lines, and the way to the agent.

    Runs the real program with the environment that Slurm gives it and nothing else. No job is asked about, so
    nothing can be refused or drained by it. Exit 1 if anything is wrong.

    \b
    Examples:
      nodevet hook test
      nodevet hook test --slurm-conf /etc/slurm/slurm.conf --node gpu001
    """
    from daemon.cli.hook_proof import prove

    config = settings(ctx)
    conf = slurm_conf or Path(config.slurm.conf or os.environ.get("SLURM_CONF") or "/etc/slurm/slurm.conf")
    proofs = prove(directory.absolute(), conf, node or config.agent.node or "", required=slurm_conf is not None)
    if as_json:
        print_json([{"what": p.what, "result": p.result, "seen": p.seen} for p in proofs])
    else:
        for proof in proofs:
            click.echo(f"{proof.result:5} {proof.what}: {proof.seen}")
    return int(any(p.result == "wrong" for p in proofs))
