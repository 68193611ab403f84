"""No script runs before every node of its job was vetted, and the gate keeps no job for ever."""

from __future__ import annotations

from dataclasses import dataclass

from deploy.simcluster.matrix.rows import Outcome
from deploy.simcluster.matrix.scenario import NEVER, ONCE, Scenario, Turn, often

GATED = "two nodes, fault on the second"
OTHERS_KEPT = "all other nodes in service"


@dataclass(frozen=True, slots=True)
class Fault:
    """A batch job over all nodes of the scenario, one of which its own Prolog finds broken."""

    at: int

    def __call__(self, turn: Turn) -> None:
        turn.judged = bad = turn.nodes[self.at]
        turn.breaks(bad, "gpu_reset_required", gpu=1)
        turn.submit()
        others = [n for n in turn.nodes if n != bad]
        turn.also(
            lambda: (
                OTHERS_KEPT
                if all(turn.stage.in_service(n) for n in others)
                else "; ".join(f"{n} {turn.stage.where(n)}" for n in others)
            )
        )


def opens(turn: Turn) -> None:
    """Every node is well: the gate opens as soon as all have answered."""
    held(turn)
    turn.also(lambda: gate(turn, "opened"))


def not_used(turn: Turn) -> None:
    """Where there is nothing to wait for, or the others could not answer, nobody holds."""
    held(turn)
    turn.also(lambda: gate(turn, "opened", "expired", none="nobody held the job"))


def absent(turn: Turn) -> None:
    """A member has no agent: it is named absent after a second, and keeps nobody."""
    turn.stage.cluster.kill_agent(turn.nodes[-1])
    held(turn)
    turn.also(lambda: gate(turn, "absent"))


def expires(turn: Turn) -> None:
    """Nobody keeps the gate: the first node waits out its budget and lets the job start, which is counted."""
    held(turn)
    turn.also(lambda: gate(turn, "expired"))
    turn.also(lambda: "counted in coverage" if turn.stage.missed("gate_expired") else "not counted in coverage")


def held(turn: Turn) -> None:
    """Submit, and remember what the first node's gate had counted before."""
    before = turn.stage.status(turn.node).gate
    turn.submit()
    turn.gate_before = dict(before)


def gate(turn: Turn, *kinds: str, none: str = "") -> str:
    """How the first node's gate ended for this job."""
    now = turn.stage.status(turn.node).gate
    seen = {kind: now[kind] - turn.gate_before.get(kind, 0) for kind in kinds}
    words = ", ".join(f"gate {kind} {often(count)}" for kind, count in seen.items() if count)
    return words or none or f"gate never {' or '.join(kinds)}"


STOPPED = Outcome(drained=True, owner="ours", job="PENDING", also=f"{NEVER}; {OTHERS_KEPT}")


def ran(also: str) -> Outcome:
    """The job ran and no node is drained."""
    return Outcome(drained=False, owner="none", job="COMPLETED", also=f"{ONCE}; {also}")


SCENARIOS = (
    Scenario(GATED, STOPPED, Fault(1), nodes=2),
    Scenario("two nodes, fault on the first", STOPPED, Fault(0), nodes=2),
    Scenario("three nodes, fault on the last", STOPPED, Fault(2), nodes=3),
    Scenario("three nodes, all well", ran("gate opened once"), opens, nodes=3),
    Scenario("second node without agent", ran("gate absent once"), absent, nodes=2),
    Scenario("one node", ran("nobody held the job"), not_used),
)
AWAY = (Scenario("two nodes, server away", ran("gate expired once; counted in coverage"), expires, nodes=2),)
# Slurm waits for every prolog there, and then starts the script of a refused job for a moment: the gate is kept.
DEFERRED = (
    Scenario("two nodes, Slurm waits as well", ran("gate opened once"), opens, nodes=2),
    Scenario("two nodes, Slurm waits as well, fault on the second", STOPPED, Fault(1), nodes=2),
)
NO_HOLD = (Scenario("two nodes, nobody may hold", ran("nobody held the job"), not_used, nodes=2),)
