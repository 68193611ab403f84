"""Automation begins no more remedies than the site allows, where and when it allows them, and says why."""

from __future__ import annotations

from pathlib import Path

from tests.api.remedy.mending import Mending, play


def test_limits_and_quiet_hours_hold_and_are_said(tmp_path: Path) -> None:
    async def scene(mend: Mending) -> None:
        await mend.broken("n1")
        await mend.tick()
        await mend.broken("n2")
        mend.heard("n2")
        await mend.tick()
        assert [r.node for r in mend.history()] == ["n1"]
        assert "at most 1 at once" in mend.why("n2")
        mend.tells(mend.reset_order("n1"), "done")
        await mend.tick()
        mend.heard("n2")
        await mend.tick()
        assert "for gpu_reset_required within an hour, at most 1" in mend.why("n2")

    play(tmp_path, scene, per_code_per_hour=1)


def test_quiet_hours_and_partitions(tmp_path: Path) -> None:
    async def quiet(mend: Mending) -> None:
        await mend.broken()
        await mend.tick()
        assert mend.states() == [] and mend.why() == "quiet hours"

    async def elsewhere(mend: Mending) -> None:
        await mend.broken()
        await mend.tick()
        assert mend.states() == [] and "none of its partitions" in mend.why()

    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    play(tmp_path / "a", quiet, quiet_hours=("00:00-23:59", "23:59-00:00"))
    play(tmp_path / "b", elsewhere, partitions=("debug",))
