"""Nothing disturbs a node unless the site has switched it on, and each of the two switches is enough to keep it off."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from api.remedy.settings import Reboot, RemedySettings, ResetGpu, Run
from tests.api.remedy.mending import Mending, mending, on

ACTIONS = ("reset-gpu", "reboot", "run:mend")


async def everything(mend: Mending) -> None:
    """All that could ever set a remedy off: faults of every kind, many rounds, a person's wish for each."""
    await mend.broken("n1")
    await mend.broken("n2", "gpu_reboot_required", "node")
    for _ in range(4):
        for node in ("n1", "n2"):
            mend.heard(node, *ACTIONS)
        await mend.bench.tick()
        mend.later(400)
        mend.bench.report("n1", mend.fault())
        mend.bench.report("n2", mend.fault("gpu_reboot_required", "node"))
    for action in ACTIONS:
        row = await mend.remedies.ask("n1", action, (), "ann")
        assert row.outcome in ("refused", "would"), row
    await mend.bench.tick()


def touched(mend: Mending) -> list[object]:
    """Whatever would have disturbed a node."""
    orders = [o.kind for n in ("n1", "n2") for o in mend.orders(n) if o.kind in ("reset-gpu", "run")]
    return [*orders, *mend.reboots()]


@pytest.mark.parametrize(
    "settings",
    [
        RemedySettings(),
        RemedySettings(mode="on"),
        RemedySettings(reset_gpu=ResetGpu(mode="on"), reboot=Reboot(mode="on"), run={"mend": Run(mode="on")}),
        RemedySettings(mode="dry_run", reset_gpu=ResetGpu(mode="on"), reboot=Reboot(mode="on")),
        RemedySettings(mode="on", reset_gpu=ResetGpu(mode="dry_run"), reboot=Reboot(mode="dry_run")),
    ],
    ids=["untouched", "no action on", "not on in all", "dry run in all", "dry run each"],
)
def test_nothing_disruptive_happens(tmp_path: Path, settings: RemedySettings) -> None:
    async def play() -> None:
        with mending(tmp_path, settings) as mend:
            await everything(mend)
            assert touched(mend) == []
            assert {r.state for r in mend.history()} <= {"dry_run"}

    asyncio.run(play())


def test_the_same_ground_with_everything_on_is_not_left_alone(tmp_path: Path) -> None:
    async def play() -> None:
        with mending(tmp_path, on(at_once=4)) as mend:
            await mend.broken("n1")
            await mend.broken("n2", "gpu_reboot_required", "node")
            for _ in range(3):
                mend.heard("n2", *ACTIONS)
                await mend.tick()
            assert sorted(map(str, touched(mend))) == ["n2", "reset-gpu"]

    asyncio.run(play())


def test_a_dry_run_is_written_down_once(tmp_path: Path) -> None:
    async def play() -> None:
        with mending(tmp_path, on(mode="dry_run")) as mend:
            await mend.broken()
            for _ in range(3):
                await mend.tick()
            (only,) = mend.history()
            assert (only.state, only.action, only.gpus, only.automatic) == (
                "dry_run",
                "reset-gpu",
                ("0000:5d:00.0",),
                True,
            )
            assert "dry run" in mend.why()

    asyncio.run(play())


def test_what_is_switched_off_between_plan_and_deed_is_not_done(tmp_path: Path) -> None:
    async def play() -> None:
        with mending(tmp_path) as mend:
            await mend.broken()
            mend.anew(on())
            mend.heard()
            await mend.remedies.planner.propose()
            assert mend.states() == [("reset-gpu", "planned")]
            mend.anew(RemedySettings())
            await mend.tick()
            assert mend.states() == [("reset-gpu", "refused")]
            assert touched(mend) == []

    asyncio.run(play())
