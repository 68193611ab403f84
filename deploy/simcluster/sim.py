"""nodevet sim: bring a simulated cluster up and down, break and heal its hosts, play the demo."""

from __future__ import annotations

import shutil
import sys
import threading
from collections.abc import Mapping
from pathlib import Path

import click

from daemon.cli.output import Refused, json_option, print_json, table
from deploy.simcluster.cluster import Options, SimCluster, new_base
from deploy.simcluster.demo import Demo, Result
from deploy.simcluster.ending import end_on_term, undisturbed
from deploy.simcluster.faults import FAULTS
from deploy.simcluster.host import UnknownFault
from deploy.simcluster.lab_ground import LabError, cannot_run
from deploy.simcluster.matrix.command import matrix

CURRENT = Path("/run/nodevet-sim")
LABEL = "SIMULATED hardware: real Slurm, server and agents over generated hosts"


@click.group()
def sim() -> None:
    """Run a real Slurm cluster whose hosts are simulated, on this machine, without GPUs.

    \b
    Examples:
      nodevet sim demo
      nodevet sim up --nodes 8
      nodevet sim inject gpu_lost n3 gpu=5
      nodevet sim heal n3
      nodevet sim down
    """


sim.add_command(matrix)


@sim.command(short_help="Play the main job step by step, on a cluster of its own.")
@click.option("--nodes", default=4, show_default=True, type=click.IntRange(4, 64), help="How many nodes.")
@click.option("--once", is_flag=True, help="End when the steps are done instead of staying up.")
@click.option("--keep", is_flag=True, help="Keep the files (logs) afterwards.")
@json_option
def demo(nodes: int, once: bool, keep: bool, as_json: bool) -> None:
    """Play the main job: vetted jobs, a drained node, a refused job, healing, a dead server.

    \b
    Examples:
      nodevet sim demo
      nodevet sim demo --once --json | jq .passed
    """
    _insist_possible()
    end_on_term()
    cluster = SimCluster(new_base(), Options(nodes=nodes, interval=15.0, prolog_age=1.0))
    _say(LABEL)
    result = Result(False, [], {}, {})
    try:
        result = Demo(cluster, _say).play()
        if not once and result.passed:
            _stay(cluster)
    finally:
        undisturbed()
        _say("ending every process of the cluster …")
        cluster.stop()
        if keep or not result.passed:
            _say(f"logs are in {cluster.base}/log")
        else:
            cluster.remove()
    if as_json:
        print_json(result)
    if not result.passed:
        raise Refused("the demo came out otherwise than it must")


def _stay(cluster: SimCluster) -> None:
    """Print the addresses and wait for Ctrl-C."""
    try:
        _say("\nAll steps came out right. The cluster stays up until Ctrl-C. Look around in another terminal:")
        if path := path_to_nodevet():
            _say(f"  export PATH={path}:$PATH")
        _say(f"  central service   {cluster.url}/api/v1/nodes (documentation at {cluster.url}/api/v1/docs)")
        _say(f"  export SLURM_CONF={cluster.lab.conf} NODEVET_SERVER={cluster.url}")
        _say(f"  export NODEVET_TOKEN=$(cat {cluster.base}/server/admin.token)")
        _say("  sinfo; sbatch -N2 --gres=gpu:2 --wrap hostname; nodevet nodes; nodevet drains; nodevet node n1")
        _say(f"  nodevet sim inject --dir {cluster.base} gpu_lost n1 gpu=5; nodevet sim heal --dir {cluster.base} n1")
        threading.Event().wait()
    except KeyboardInterrupt:
        _say("")


@sim.command()
@click.option("--nodes", default=4, show_default=True, type=click.IntRange(1, 64), help="How many nodes.")
@click.option("--interval", default=15.0, show_default=True, help="Seconds between two looks at a host.")
@json_option
def up(nodes: int, interval: float, as_json: bool) -> None:
    """Bring a cluster up in the background; `nodevet sim down` ends it.

    \b
    Example:
      nodevet sim up --nodes 8
    """
    _insist_possible()
    if CURRENT.exists():
        raise Refused(f"a cluster is up in {CURRENT.read_text().strip()}: nodevet sim down first")
    cluster = SimCluster(new_base(), Options(nodes=nodes, interval=interval))
    try:
        cluster.start(_say)
    except BaseException as error:
        cluster.stop()
        if isinstance(error, LabError):
            raise Refused(f"{error}; logs in {cluster.base}/log") from error
        raise
    CURRENT.write_text(f"{cluster.base}\n")
    seen = {"dir": str(cluster.base), "slurm_conf": str(cluster.lab.conf), "server": cluster.url, "simulated": True}
    if as_json:
        print_json(seen)
        return
    click.echo(LABEL)
    click.echo(f"export SLURM_CONF={cluster.lab.conf} NODEVET_SERVER={cluster.url}")
    click.echo(f"export NODEVET_TOKEN=$(cat {cluster.base}/server/admin.token)")


@sim.command()
@click.option("--dir", "folder", metavar="DIR", help="Another cluster than the one that `sim up` made.")
@click.option("--keep", is_flag=True, help="Keep the files.")
def down(folder: str | None, keep: bool) -> None:
    """End every process of the cluster and remove its files.

    \b
    Example:
      nodevet sim down
    """
    cluster = _attached(folder)
    cluster.stop()
    if not keep:
        cluster.remove()
    if folder is None:
        CURRENT.unlink(missing_ok=True)


@sim.command()
@click.option("--dir", "folder", metavar="DIR", help="Another cluster than the one that `sim up` made.")
@click.option("--list", "listed", is_flag=True, help="Show the faults and what they take.")
@click.argument("fault", required=False)
@click.argument("node", required=False)
@click.argument("target", nargs=-1)
def inject(folder: str | None, listed: bool, fault: str | None, node: str | None, target: tuple[str, ...]) -> None:
    """Break the simulated host of NODE; TARGET are words like gpu=5.

    \b
    Examples:
      nodevet sim inject --list
      nodevet sim inject gpu_lost n3 gpu=5
      nodevet sim inject hung_mount n2 path=/scratch
    """
    if listed or fault is None or node is None:
        table(("FAULT", "WHAT IT DOES"), [(n, (f.__doc__ or "").strip().splitlines()[0]) for n, f in FAULTS.items()])
        return
    cluster = _attached(folder)
    try:
        made = _host(cluster, node).inject(fault, **dict(_word(word) for word in target))
    except UnknownFault as error:
        raise Refused(str(error)) from error
    click.echo(f"{node}: {made.name} {_target(made.target)} (simulated)")


@sim.command()
@click.option("--dir", "folder", metavar="DIR", help="Another cluster than the one that `sim up` made.")
@click.argument("node")
@click.argument("fault", required=False)
def heal(folder: str | None, node: str, fault: str | None) -> None:
    """Take a fault of NODE away, or all of them.

    \b
    Examples:
      nodevet sim heal n3
      nodevet sim heal n3 gpu_lost
    """
    for gone in _host(_attached(folder), node).heal(fault):
        click.echo(f"{node}: {gone.name} {_target(gone.target)} healed (simulated)")


def path_to_nodevet() -> str:
    """The folder of this very command, where the shell's PATH leads to none or another."""
    here = Path(sys.executable).parent
    found = shutil.which("nodevet")
    return "" if found and Path(found).parent == here else str(here)


def _target(words: Mapping[str, object]) -> str:
    return " ".join(f"{key}={value}" for key, value in words.items()) or "node"


def _word(text: str) -> tuple[str, str | int | float]:
    key, equals, value = text.partition("=")
    if not equals:
        raise click.UsageError(f"target {text!r}: expected name=value such as gpu=5")
    for kind in (int, float):
        try:
            return key, kind(value)
        except ValueError:
            continue
    return key, value


def _host(cluster: SimCluster, node: str):  # type: ignore[no-untyped-def]
    if node not in cluster.hosts:
        raise Refused(f"no node {node}; there are {', '.join(cluster.hosts)}")
    return cluster.hosts[node]


def _attached(folder: str | None) -> SimCluster:
    if folder is None:
        if not CURRENT.exists():
            raise Refused("no cluster is up: nodevet sim up")
        folder = CURRENT.read_text().strip()
    base = Path(folder)
    names = sorted(p.name for p in (base / "nodes").iterdir()) if (base / "nodes").is_dir() else []
    if not names:
        raise Refused(f"{folder} holds no simulated cluster")
    cluster = SimCluster(base, Options(nodes=len(names)))
    return cluster


def _insist_possible() -> None:
    if why := cannot_run():
        raise Refused(why)


def _say(text: str) -> None:
    """Narration goes to standard error, so that --json stays one document."""
    print(text, file=sys.stderr, flush=True)  # noqa: T201 - click.echo would colour and buffer
