"""A reboot is asked of Slurm once, under our reason, and ends in a node that is drained until it is verified."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from tests.api.remedy.mending import Mending, on, play


def test_the_reboot_is_asked_under_our_reason_and_leaves_the_node_drained(tmp_path: Path) -> None:
    async def scene(mend: Mending) -> None:
        await mend.broken("n1", "gpu_reboot_required", "node")
        token = mend.token()
        await mend.tick()
        assert mend.states() == [("reboot", "running")]
        assert mend.slurm.table["n1"].next_state is None
        await mend.tick()
        assert mend.states() == [("reboot", "running")]
        mend.booted()
        await mend.tick()
        assert mend.states() == [("reboot", "done")]
        assert mend.token() == token and mend.slurm.table["n1"].drained
        assert len(mend.reboots()) == 1

    play(tmp_path, scene)


def test_e05_a_node_that_slurm_leaves_down_after_the_boot_is_drained_until_it_is_verified(tmp_path: Path) -> None:
    """E05: what Slurm does after a reboot gave nodes jobs before they were looked at."""

    async def scene(mend: Mending) -> None:
        await mend.broken("n1", "gpu_reboot_required", "node")
        await mend.tick()
        mend.booted()
        state = mend.slurm.table["n1"]
        mend.slurm.table["n1"] = replace(state, base="DOWN", flags=state.flags - {"DRAIN"})
        await mend.tick()
        assert mend.states() == [("reboot", "done")]
        assert "DRAIN" in mend.slurm.table["n1"].flags and mend.token()

    play(tmp_path, scene)


def test_a_reboot_is_not_asked_twice_by_a_server_that_starts_anew(tmp_path: Path) -> None:
    async def scene(mend: Mending) -> None:
        await mend.broken("n1", "gpu_reboot_required", "node")
        await mend.tick()
        for _ in range(3):
            mend.anew(on())
            await mend.tick()
        assert mend.reboots() == ["n1"]
        state = mend.slurm.table["n1"]
        mend.slurm.table["n1"] = replace(state, flags=state.flags - {"REBOOT_REQUESTED"})
        mend.later(200)
        await mend.tick()
        assert mend.states()[0] == ("reboot", "unknown") and mend.reboots() == ["n1"]

    play(tmp_path, scene)


def test_somebody_who_resumes_in_that_moment_does_not_meet_the_reboot(tmp_path: Path) -> None:
    async def scene(mend: Mending) -> None:
        await mend.broken("n1", "gpu_reboot_required", "node")
        real = mend.slurm.reboot

        def reboot(name: str, reason: str, **how: object) -> None:
            mend.slurm.resume(name)
            real(name, reason, **how)  # type: ignore[arg-type]
            state = mend.slurm.table[name]
            mend.slurm.table[name] = replace(state, flags=state.flags | {"REBOOT_REQUESTED"}, reason=None)

        mend.slurm.reboot = reboot  # type: ignore[method-assign]
        await mend.tick()
        assert mend.states() == [("reboot", "refused")]
        assert "REBOOT_REQUESTED" not in mend.slurm.table["n1"].flags

    play(tmp_path, scene)
