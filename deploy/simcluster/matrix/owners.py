"""A drain belongs to whoever wrote its reason: nobody's but ours is changed or ended by us, and there is no duel."""

from __future__ import annotations

from dataclasses import dataclass

from deploy.simcluster.matrix.rows import Outcome
from deploy.simcluster.matrix.scenario import Scenario, Turn

FOREIGN = "ADMIN: fan 3 is noisy (alice)"
IN_SERVICE = Outcome(drained=False, owner="none")


@dataclass(frozen=True, slots=True)
class Foreign:
    """Somebody else's reason stands there when the fault comes."""

    reason: str

    def __call__(self, turn: Turn) -> None:
        stage, node = turn.stage, turn.node
        stage.scontrol("update", f"nodename={node}", "state=drain", f"reason={self.reason}")
        before = stage.lab.node_reason(node)
        stage.inject(node, "gpu_lost", gpu=3)
        stage.known(node)
        turn.also(lambda: "reason untouched" if stage.lab.node_reason(node) == before else "reason changed")


def through_us(turn: Turn) -> None:
    """Drained with our own command: a node that gets well meanwhile is still the person's."""
    stage, node = turn.stage, turn.node
    stage.inject(node, "gpu_reset_required", gpu=3)
    stage.drained(node)
    stage.ask("drains", nodes=node, reason="cable ordered")
    stage.drained(node, by="person")
    stage.host(node).heal()
    stage.well(node)
    turn.also(lambda: "asks for a person" if "nodevet resume" in stage.way_out(node) else "asks for nobody")


def maintenance(turn: Turn) -> None:
    """Hands off while the node is in a maintenance reservation."""
    stage, node = turn.stage, turn.node
    words = ("create", "reservation", f"reservationname=m-{node}", "starttime=now", "duration=60")
    stage.scontrol(*words, "users=root", "flags=maint,ignore_jobs", f"nodes={node}")
    stage.wait(lambda: "MAINT" in stage.lab.node_state(node), 30, f"{node} is not in maintenance")
    stage.steps(1)
    stage.inject(node, "gpu_lost", gpu=3)
    stage.known(node)


def foreign_resume(turn: Turn) -> None:
    """Given back by hand while the GPU is still lost: it is drained again."""
    resumed_behind_us(turn, 1)
    turn.also(lambda: "counted" if "1 foreign resume" in turn.stage.lab.node_reason(turn.node) else "not counted")


def contested(turn: Turn) -> None:
    """A tool resumes behind us: a few times it is drained again, then it is left alone and said."""
    stage, node = turn.stage, turn.node
    resumed_behind_us(turn, 1)
    stage.scontrol("update", f"nodename={node}", "state=resume")
    stage.opened(node, "contested")
    turn.also(lambda: "incident contested" if "contested" in stage.incidents(node) else "no incident")


def resumed_behind_us(turn: Turn, count: int) -> None:
    """Drain a node and have it resumed by hand, until it was drained anew so many times."""
    stage, node = turn.stage, turn.node
    stage.host(node).nvml.change({"gpu.3.recovery_action": 1})
    first = stage.drained(node)
    for _ in range(count):
        turn.counts()
        stage.scontrol("update", f"nodename={node}", "state=resume")
        first = stage.drained(node, other_than=first)


def reboot(turn: Turn) -> None:
    """A node of ours is rebooted by hand, which mends it: hands off while it is away, and it stays in service."""
    stage, node = turn.stage, turn.node
    stage.inject(node, "gpu_lost", gpu=3)
    stage.drained(node)
    stage.scontrol("reboot", "ASAP", "nextstate=resume", node)
    stage.wait(lambda: "REBOOT_ISSUED" in stage.lab.node_state(node), 60, "no reboot is issued")
    stage.lab.kill_slurmd(node)
    stage.cluster.kill_agent(node)
    stage.host(node).heal()
    stage.host(node).reboot()
    stage.cluster.start_agent(node)
    stage.lab.start_slurmd(node, booted=True)
    stage.back(node, timeout=90)


def not_responding(turn: Turn) -> None:
    """slurmd is silent until Slurm calls the node down: Slurm's own, and not ours to end."""
    stage, node = turn.stage, turn.node
    stage.lab.kill_slurmd(node)
    stage.wait(lambda: "DOWN" in stage.lab.node_state(node), 120, f"{node} is not down")
    stage.inject(node, "gpu_lost", gpu=3)
    stage.known(node)


KEPT = "reason untouched"
PERSONS = Outcome(drained=True, owner="person", also="asks for a person")
SCENARIOS = (
    Scenario("slurm calls the node down", Outcome(drained=False, owner="slurm"), not_responding),
    Scenario("administrator's drain", Outcome(drained=True, owner="other", also=KEPT), Foreign(FOREIGN)),
    Scenario("Kill task failed", Outcome(drained=True, owner="slurm", also=KEPT), Foreign("Kill task failed")),
    Scenario("drained by a person through us", PERSONS, through_us),
    Scenario("maintenance reservation", IN_SERVICE, maintenance),
    Scenario("foreign resume, fault stays", Outcome(drained=True, owner="ours", also="counted"), foreign_resume),
    Scenario("resumed behind us again", Outcome(drained=False, owner="none", also="incident contested"), contested),
    Scenario("rebooted through scontrol", IN_SERVICE, reboot),
)
