"""A node's state follows from what is known of it, and moves only as docs/service.md tells."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime, timezone
from pathlib import Path

import pytest

from api.controller.drain_record import DrainRecord
from api.controller.service_state import MOVES, Seen, standing, way
from api.ports import PauseView
from api.service_port import STATES, ServiceState
from slurm.state import NodeState, Reason

DOC = Path(__file__).resolve().parents[3] / "docs" / "service.md"
NOW = datetime(2026, 12, 1, 12, 0, tzinfo=timezone.utc)
IDLE = NodeState("n1", "IDLE")
OURS = Reason("nodevet: gpu_lost GPU 3 [aabbccdd]", "slurm", NOW)
PERSON = Reason("nodevet/person: swap the fan [aabbccdd]", "slurm", NOW)
BOB = Reason("bob is inside the rack", "bob", NOW)
PAUSE = PauseView(cluster="sim", node="n1", until=NOW, reason="driver", actor="ann", created_at=NOW)
REPAIR = PauseView(cluster="sim", node="n1", until=NOW, reason="swap", actor="ann", created_at=NOW, ticket="4711")


def out(reason: Reason, base: str = "IDLE", *flags: str) -> NodeState:
    return NodeState("n1", base, frozenset({"DRAIN", *flags}), reason)


def record(state: str = "drained", **changes: object) -> DrainRecord:
    given: dict[str, object] = dict.fromkeys(DrainRecord.__dataclass_fields__, None)
    given |= {"node": "n1", "state": state, "rounds": 1, "actor": "ann", "step": "verify", **changes}
    return DrainRecord(**given)  # type: ignore[arg-type]


CASES: dict[str, tuple[Seen, str, str]] = {
    "nothing is against it": (Seen(IDLE), "in_service", ""),
    "running a job": (Seen(replace(IDLE, base="ALLOCATED")), "in_service", ""),
    "failing and not drained": (Seen(IDLE, suspect="gpu_lost; guard"), "suspect", "gpu_lost; guard"),
    "jobs still end": (Seen(out(OURS, "MIXED"), record("draining")), "draining", OURS.text),
    "no job left": (Seen(out(OURS), record()), "drained", OURS.text),
    "Slurm's own drain": (Seen(out(Reason("Kill task failed", "root", NOW))), "drained", "Kill task failed"),
    "down without a reason": (Seen(NodeState("n1", "DOWN")), "drained", "DOWN"),
    "verification under way": (
        Seen(out(OURS), record("verifying")),
        "verifying",
        f"{OURS.text}; 1 clean looks so far",
    ),
    "tested in a reservation of ours": (
        Seen(replace(IDLE, flags=frozenset({"MAINT", "RESERVED"})), record("testing")),
        "verifying",
        "burn-in as a job in a reservation of ours",
    ),
    "a look is owed": (Seen(IDLE, look="booted since"), "verifying", "booted since"),
    "a look is owed to a drained node": (Seen(out(OURS), record(), look="booted since"), "drained", OURS.text),
    "on probation": (
        Seen(IDLE, probation_until=NOW),
        "probation",
        "watched until 2026-12-01 12:00 UTC",
    ),
    "failing on probation": (Seen(IDLE, suspect="x", probation_until=NOW), "suspect", "x"),
    "drained by somebody": (Seen(out(BOB)), "held", "drained by bob: bob is inside the rack"),
    "drained by a person through us": (Seen(out(PERSON), record()), "held", f"drained by ann: {PERSON.text}"),
    "a person wants it verified": (
        Seen(out(PERSON), record("verifying")),
        "verifying",
        f"{PERSON.text}; 1 clean looks so far",
    ),
    "paused": (Seen(IDLE, pause=PAUSE), "held", "paused by ann: driver"),
    "drained and paused": (Seen(out(OURS), record(), PAUSE), "held", "paused by ann: driver"),
    "in a maintenance": (
        Seen(replace(IDLE, flags=frozenset({"MAINT", "RESERVED"}))),
        "held",
        "maintenance reservation",
    ),
    "rebooting": (Seen(replace(IDLE, flags=frozenset({"REBOOT_ISSUED"})), suspect="x"), "held", "reboot issued"),
    "in repair": (Seen(out(OURS), record(), REPAIR), "repairing", "ticket 4711, ann: swap"),
    "in repair within a maintenance": (
        Seen(out(BOB, "IDLE", "MAINT"), pause=REPAIR),
        "repairing",
        "ticket 4711, ann: swap",
    ),
    "gone for a week": (Seen(None, gone="not known since then"), "retired", "not known since then"),
}


@pytest.mark.parametrize("case", CASES)
def test_where_a_node_stands(case: str) -> None:
    seen, state, why = CASES[case]
    found = standing(seen)
    assert found is not None and (found.state, found.why) == (state, why)


def test_a_node_that_slurm_does_not_name_for_a_moment_stands_where_it_stood() -> None:
    assert standing(Seen(None, record("drained"))) is None


def test_every_state_is_reached_by_a_case() -> None:
    assert {state for _, state, _ in CASES.values()} == set(STATES)


def test_every_way_is_made_of_allowed_moves() -> None:
    for old, new in itertools.product(STATES, STATES):
        steps = way(old, new)
        assert steps == () if old == new else steps[-1] == new
        for here, there in itertools.pairwise((old, *steps)):
            assert there in MOVES[here], f"{old} to {new} over {here} -> {there}"


@pytest.mark.parametrize(
    ("old", "new", "steps"),
    [
        ("draining", "verifying", ("drained", "verifying")),
        ("in_service", "probation", ("suspect", "probation")),
        ("in_service", "drained", ("draining", "drained")),
        ("repairing", "in_service", ("verifying", "in_service")),
        ("retired", "drained", ("held", "drained")),
        ("held", "suspect", ("verifying", "suspect")),
    ],
)
def test_what_lies_between_two_looks_is_told(old: ServiceState, new: ServiceState, steps: tuple[str, ...]) -> None:
    assert way(old, new) == steps


@pytest.mark.parametrize("old", ["in_service", "suspect", "probation"])
@pytest.mark.parametrize("case", ["verification under way", "tested in a reservation of ours"])
def test_a_node_on_trial_was_drained_however_short(old: ServiceState, case: str) -> None:
    found = standing(CASES[case][0])
    assert found is not None
    steps = way(old, found.state, found.over)
    assert steps[-2:] == ("drained", "verifying")
    assert all(there in MOVES[here] for here, there in itertools.pairwise((old, *steps)))


def test_a_node_looked_at_while_it_serves_was_not_drained() -> None:
    found = standing(CASES["a look is owed"][0])
    assert found is not None and way("in_service", found.state, found.over) == ("verifying",)


def _rows() -> Iterator[list[str]]:
    for line in DOC.read_text(encoding="utf-8").split("\n"):
        if line.startswith("| `"):
            yield [cell.strip() for cell in line.strip("|").split("|")]


def test_the_table_in_the_docs_is_the_codes() -> None:
    told = {r[0].strip("`"): tuple(re.findall("`([a-z_]+)`", r[2])) for r in _rows()}
    assert told == MOVES


def test_a_node_never_goes_to_verification_while_jobs_run() -> None:
    """E10: only a drained one is verified, and nothing but a verification or a doubt leads to probation."""
    assert "verifying" not in MOVES["draining"]
    assert {old for old, moves in MOVES.items() if "probation" in moves} == {"verifying", "suspect"}
