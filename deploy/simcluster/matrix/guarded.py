"""With the guard at its ordinary limits automation stops itself, and Slurm's other settings are respected."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from deploy.simcluster.matrix import gate
from deploy.simcluster.matrix.rows import Outcome
from deploy.simcluster.matrix.scenario import ONCE, Act, Scenario, Turn
from deploy.simcluster.matrix.stage import Stage
from deploy.simcluster.matrix.trouble import loud

ALIKE = 5
SITES = "site-fails"


def many_alike(turn: Turn) -> None:
    """Five nodes show one fault at the same moment: an incident of the check, not of the nodes."""
    stage, nodes = turn.stage, turn.nodes
    stage.ask("silences", check="gpu_remap", nodes=",".join(nodes), seconds=600, reason="played by the matrix")
    for node in nodes:
        stage.host(node).nvml.change({"gpu.1.remap.failure": 1})
    for node in nodes:
        stage.finds(node, "gpu_remap_failed")
    turn.counts()
    listed = stage.cluster.get("silences")
    for item in listed["items"] if isinstance(listed, dict) else []:
        stage.cluster.delete(f"silences/{item['id']}")
    stage.opened("", "many_gpu_remap_failed", of_all=True)
    turn.also(lambda: f"{sum(stage.in_service(n) for n in nodes)} of {len(nodes)} in service; one incident")


def no_permit(turn: Turn) -> None:
    """A job meets one of those nodes: the guard gives no permit, so it is admitted, and that is loud."""
    stage, node = turn.stage, turn.node
    stage.host(node).nvml.change({"gpu.1.remap.failure": 1})
    stage.finds(node, "gpu_remap_failed")
    before = stage.status(node).hooks["admitted_without_permit"]
    turn.counts()
    turn.submit()
    turn.also(lambda: loud(turn, before))
    turn.also(lambda: "incident permit_denied" if "permit_denied" in stage.incidents(node) else "no incident")


def fewer_gpus(turn: Turn) -> None:
    """slurmd registers with fewer GPUs than slurm.conf promises: Slurm takes the node out, and it stays Slurm's."""
    stage, node = turn.stage, turn.node
    file = stage.lab.conf.parent / "gres.conf"
    lines = file.read_text().splitlines()
    file.write_text("\n".join(f"{line[:-2]}5]" if f"NodeName={node} " in line else line for line in lines) + "\n")
    stage.lab.kill_slurmd(node)
    stage.lab.start_slurmd(node)
    stage.wait(lambda: "INVAL" in stage.lab.node_state(node), 60, lambda: f"{node} is {stage.lab.node_state(node)}")
    stage.inject(node, "gpu_lost", gpu=1)
    stage.known(node)


def sites_prolog(turn: Turn) -> None:
    """Somebody else's program in prolog.d fails: no refusal of ours is on record, so the reason stays Slurm's."""
    stage, node = turn.stage, turn.node
    (stage.cluster.base / SITES / node).touch()
    job = turn.stage.batch(node)
    stage.wait(lambda: "DRAIN" in stage.lab.node_state(node), 30, f"{node} was not drained")
    stage.lab.run(["scancel", str(job)])
    stage.opened(node, "prolog_error_unexplained")
    turn.also(lambda: "incident prolog_error_unexplained")


@contextmanager
def chain(stage: Stage, _: Sequence[Turn]) -> Iterator[None]:
    """Prolog is a directory: Slurm runs a site's own program first, ours after it."""
    base = stage.cluster.base
    folder = base / "prolog.d"
    for each in (folder, base / SITES):
        each.mkdir(exist_ok=True)
    programs = {
        "90-site": f"test ! -e {base}/{SITES}/$SLURMD_NODENAME",
        "10-nodevet": f"exec {base}/hooks/nodevet-prolog",
    }
    for name, line in programs.items():
        (folder / name).write_text(f"#!/bin/sh\n{line}\n")
        (folder / name).chmod(0o755)
    hooks = stage.cluster.hooks
    stage.lab.configure(hooks={**hooks, "Prolog": folder / "*"}, reconfigure=True)
    try:
        yield
    finally:
        stage.lab.configure(hooks=hooks, reconfigure=True)


@dataclass(frozen=True, slots=True)
class Flags:
    """Slurm runs with another line of PrologFlags, or none, and every agent has learnt what it means for the gate."""

    line: str
    possible: bool = False

    @contextmanager
    def __call__(self, stage: Stage, _: Sequence[Turn]) -> Iterator[None]:
        """For the time of an act."""
        conf = stage.lab.conf
        before = conf.read_text()
        kept = [line for line in before.splitlines() if not line.startswith("PrologFlags=")]
        conf.write_text("\n".join([*kept[:1], self.line, *kept[1:], ""]))
        self._learn(stage)
        yield
        conf.write_text(before)

    def _learn(self, stage: Stage) -> None:
        stage.lab.run(["scontrol", "reconfigure"])
        stage.cluster.kill_server()
        stage.cluster.start_server()
        for node in stage.cluster.agents:

            def learned(node: str = node) -> bool:
                stage.ask(f"nodes/sim/{node}/check", kind="check", checks=["memory"])
                limits = stage.status(node).uplink.limits
                return limits is not None and limits.gate_possible == self.possible

            stage.wait(learned, 60, f"{node} has not learnt of {self.line or 'no PrologFlags'}")


CLOSED = Outcome(drained=False, owner="none", also=f"{ALIKE} of {ALIKE} in service; one incident")
ADMITTED = Outcome(
    drained=False,
    owner="none",
    job="COMPLETED",
    also=f"{ONCE}; admitted without permit once; incident permit_denied",
)
SLURMS = Outcome(drained=True, owner="slurm")
SITE = Outcome(drained=True, owner="slurm", also="incident prolog_error_unexplained")
ACTS = (
    Act((Scenario("registers with 6 of 8 GPUs", SLURMS, fewer_gpus),), settings="no config_overrides"),
    Act((Scenario("another tool's Prolog fails", SITE, sites_prolog),), chain, "Prolog=prolog.d/*"),
    Act((Scenario("five nodes alike at one moment", CLOSED, many_alike, nodes=ALIKE),), settings="guard as delivered"),
    Act((Scenario("job on a sixth such node", ADMITTED, no_permit),), settings="guard closed by the row above"),
    Act(gate.NO_HOLD, Flags("PrologFlags=Alloc,Serial"), "PrologFlags=Alloc,Serial"),
    Act(gate.NO_HOLD, Flags(""), "no PrologFlags"),
    Act(
        gate.DEFERRED,
        Flags("PrologFlags=Alloc,DeferBatch", possible=True),
        "PrologFlags=Alloc,DeferBatch",
        since="24.11",
    ),
)
