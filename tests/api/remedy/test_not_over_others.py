"""A remedy writes over nobody's reason, and is not carried out once it is switched off or the node is another's."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from api.remedy.settings import RemedySettings
from slurm.errors import Busy
from slurm.state import NodeState, Reason
from tests.api.remedy.mending import Mending, begun, on, play

CABLE = Reason("cable (bob)", "bob")


def foreign(mend: Mending, node: str = "n1") -> None:
    """Bob writes his own reason, by hand."""
    mend.slurm.table[node] = replace(mend.slurm.table[node], reason=CABLE)


def test_a_reason_written_between_the_look_and_the_reboot_stays(tmp_path: Path) -> None:
    async def scene(mend: Mending) -> None:
        await mend.broken("n1", "gpu_reboot_required", "node")
        real = mend.remedies._book.move

        def move(*given: object, **more: object) -> object:
            foreign(mend)
            return real(*given, **more)  # type: ignore[arg-type]

        mend.remedies._book.move = move  # type: ignore[method-assign, assignment]
        await mend.tick()
        assert mend.slurm.table["n1"].reason == CABLE and mend.reboots() == []
        assert mend.states() == [("reboot", "refused")]

    play(tmp_path, scene)


def test_a_reason_written_while_the_node_booted_stays(tmp_path: Path) -> None:
    async def scene(mend: Mending) -> None:
        await mend.broken("n1", "gpu_reboot_required", "node")
        await mend.tick()
        mend.booted()
        state = mend.slurm.table["n1"]
        mend.slurm.table["n1"] = replace(state, base="DOWN", flags=state.flags - {"DRAIN"})
        read = mend.slurm.nodes

        def nodes() -> dict[str, NodeState]:
            states = read()
            foreign(mend)
            return states

        mend.slurm.nodes = nodes  # type: ignore[method-assign]
        await mend.tick()
        assert mend.slurm.table["n1"].reason == CABLE

    play(tmp_path, scene)


def test_a_reboot_that_slurm_refuses_is_no_reboot(tmp_path: Path) -> None:
    async def scene(mend: Mending) -> None:
        await mend.broken("n1", "gpu_reboot_required", "node")

        def reboot(*_: object, **__: object) -> None:
            raise Busy("Slurm temporarily unable to accept job, sleeping and retrying")

        mend.slurm.reboot = reboot  # type: ignore[method-assign]
        await mend.tick()
        assert mend.states() == [("reboot", "failed")]

    play(tmp_path, scene)


def test_an_order_is_not_offered_again_once_it_is_switched_off(tmp_path: Path) -> None:
    """The site switches remedies off and restarts the server while an agent has not begun."""

    async def scene(mend: Mending) -> None:
        await begun(mend)
        mend.anew(RemedySettings())
        await mend.tick()
        assert [o.kind for o in mend.orders() if o.kind != "verify"] == []

    play(tmp_path, scene)


@pytest.mark.parametrize("hand", ["resumed", "taken over", "paused"])
def test_an_order_is_taken_back_once_the_node_is_somebody_elses(tmp_path: Path, hand: str) -> None:
    async def scene(mend: Mending) -> None:
        await begun(mend)
        if hand == "resumed":
            mend.slurm.resume("n1")
        elif hand == "taken over":
            foreign(mend)
        else:
            await mend.bench.control.pause("n1", 3600, "cable", "bob")
        await mend.tick()
        assert [o.kind for o in mend.orders() if o.kind != "verify"] == []
        assert mend.states() == [("reset-gpu", "unknown")]

    play(tmp_path, scene)


def test_what_was_seen_before_a_persons_own_reboot_leads_to_no_other(tmp_path: Path) -> None:
    async def scene(mend: Mending) -> None:
        mend.anew(RemedySettings())
        await mend.broken("n1", "gpu_reboot_required", "node")
        mend.later(60)
        mend.slurm.table["n1"] = replace(mend.slurm.table["n1"], boot_time=mend.bench.now())
        mend.later(20)
        mend.anew(on())
        await mend.tick()
        await mend.tick()
        assert mend.reboots() == []
        mend.bench.report("n1", mend.fault("gpu_reboot_required", "node"), boot_id="boot-b")
        await mend.tick()
        await mend.tick()
        assert mend.reboots() == ["n1"]

    play(tmp_path, scene)


def test_a_node_on_its_way_back_is_not_disturbed_for_a_person(tmp_path: Path) -> None:
    async def scene(mend: Mending) -> None:
        await mend.broken()
        record = mend.core.records.open_drains("sim")["n1"]
        record = mend.core.records.change(record, mend.bench.now(), state="verifying")
        mend.core.records.change(record, mend.bench.now(), state="testing")
        row = await mend.remedies.ask("n1", "reboot", (), "ann")
        assert row.outcome == "refused" and "testing" in row.why, row.why

    play(tmp_path, scene)


@pytest.mark.parametrize("begun_there", [True, False])
def test_a_server_that_starts_anew_waits_for_the_agents_word(tmp_path: Path, begun_there: bool) -> None:
    """A program of the site may take longer than a plan is kept; while it runs nothing else is done to the node."""

    async def scene(mend: Mending) -> None:
        await begun(mend)
        order = mend.reset_order()
        mend.later(950)
        mend.anew(on())
        await mend.bench.tick()
        assert mend.states() == [("reset-gpu", "running")] and mend.remedies.working("n1")
        if begun_there:
            mend.tells(order, "running")
        await mend.tick()
        assert mend.states()[0] == ("reset-gpu", "running" if begun_there else "expired")

    play(tmp_path, scene)
