"""New limits of Slurm reach agents through their open polls, not at the next beat of some clock."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

from api.controller.slurm_view import CONFIG_SECONDS
from slurm.config import SlurmLimits
from slurm.errors import PermissionDenied
from tests.api.controller.fake_slurm import Bench, bench


def reconfigured(b: Bench, **changes: object) -> list[int]:
    """From now on slurmctld has these settings; gives a list that grows with each time it is asked."""
    now, asked = replace(b.slurm.limits(), **changes), list[int]()  # type: ignore[arg-type]

    def limits() -> SlurmLimits:
        asked.append(1)
        return now

    b.slurm.limits = limits  # type: ignore[method-assign]
    return asked


async def polls(b: Bench) -> list[asyncio.Task[object]]:
    made = [asyncio.create_task(b.control.orders("sim", f"n{i}", 60.0)) for i in (1, 2, 3)]
    await asyncio.sleep(0.05)
    return made  # type: ignore[return-value]


def test_new_limits_are_pushed_to_everybody_and_the_same_ones_wake_nobody(tmp_path: Path) -> None:
    with bench(tmp_path) as b:

        async def story() -> None:
            await b.tick()
            waiting = await polls(b)
            await b.tick()
            await asyncio.sleep(0.05)
            assert not any(p.done() for p in waiting)
            reconfigured(b, prolog_epilog_timeout=4.0)
            await b.tick()
            await asyncio.wait_for(asyncio.gather(*waiting), 30)
            assert b.control.limits().budget == 2.0

        asyncio.run(story())


def test_slurm_is_asked_again_at_once_after_it_was_away_and_after_a_drain_that_failed(tmp_path: Path) -> None:
    with bench(tmp_path) as b:

        async def story() -> None:
            await b.tick()
            asked = reconfigured(b)
            view = b.core.view
            await view.refresh()
            assert asked == [], "not due"
            b.slurm.down()
            await view.refresh()
            b.slurm.error = None
            await view.refresh()
            assert len(asked) == 1
            b.slurm.drain = lambda *_: (_ for _ in ()).throw(PermissionDenied("no"))  # type: ignore
            b.report("n2", b.lost())
            await b.control.tick()
            await view.refresh()
            assert len(asked) == 2

        asyncio.run(story())


def test_limits_are_read_with_every_regular_look_at_slurm(tmp_path: Path) -> None:
    with bench(tmp_path) as b:
        assert timedelta(seconds=CONFIG_SECONDS) <= timedelta(seconds=b.core.settings.poll)
