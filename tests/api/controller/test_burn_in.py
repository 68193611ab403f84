"""A rule that asks for a burn-in gives the node back after clean looks in a row over a time, and not before."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.api.controller.fake_slurm import Bench, bench

SETTINGS: dict[str, Any] = {"burn_in_seconds": 300.0, "burn_in_rounds": 4}


def burning(b: Bench) -> None:
    """n2 is drained for a fault whose rule asks for a burn-in, and looks content since."""
    codes = {**b.core.policy.codes}
    codes["ecc_old"] = msgspec.structs.replace(codes["ecc_old"], resume="burn-in")
    b.core.policy = msgspec.structs.replace(b.core.policy, codes=codes)
    b.report("n2", b.lost(code="ecc_old"))
    asyncio.run(b.tick())
    asyncio.run(b.tick())
    assert b.slurm.table["n2"].drained
    b.report("n2", b.fine())


async def answered(b: Bench, *, clean: bool = True, boot: str = "boot-a") -> int:
    """One round in which the agent answers what it is asked; how many burn-in orders there were."""
    await b.tick()
    orders = await b.control.orders("sim", "n2", 0.0)
    assert all(o.deep for o in orders)
    for order in orders:
        finding = b.fine() if clean else b.lost(code="ecc_old")
        b.report("n2", finding, occasion="burn-in", notes=(f"order:{order.id}",), boot_id=boot, incarnation=boot)
        b.control.done((order.id,))
    return len(orders)


def rounds(b: Bench) -> int:
    return b.core.records.open_drains("sim")["n2"].rounds


def test_looks_are_spread_over_the_time_and_then_it_goes_back(tmp_path: Path) -> None:
    """E106: a node with a replaced GPU went to production 54 s after the fix, with no burn-in."""
    with bench(tmp_path, **SETTINGS) as b:
        burning(b)

        async def story() -> None:
            asked = []
            for _ in range(12):
                asked.append(await answered(b))
                await b.tick()
                assert b.slurm.table["n2"].out_of_service
                b.offset += timedelta(seconds=26)
            assert asked == [1, 0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0]
            assert await answered(b) == 1
            await b.tick()

        asyncio.run(story())
        assert not b.slurm.table["n2"].out_of_service
        last = b.core.records.last("sim", "n2")
        assert last is not None and last.state == "resumed" and last.why.startswith("burn-in of 4 clean looks within 3")


def test_rounds_enough_but_not_the_time_is_not_enough(tmp_path: Path) -> None:
    with bench(tmp_path, burn_in_seconds=300.0, burn_in_rounds=1) as b:
        burning(b)

        async def story() -> None:
            for _ in range(3):
                await answered(b)
            assert b.slurm.table["n2"].out_of_service
            b.offset += timedelta(seconds=301)
            b.report("n2", b.fine())
            await answered(b)
            await b.tick()

        asyncio.run(story())
        assert not b.slurm.table["n2"].out_of_service


@pytest.mark.parametrize("how", ["a bad look", "a fault between two looks", "another boot"])
def test_the_row_begins_anew(tmp_path: Path, how: str) -> None:
    with bench(tmp_path, **SETTINGS) as b:
        burning(b)

        async def story() -> None:
            await answered(b)
            b.offset += timedelta(seconds=101)
            if how == "a bad look":
                await answered(b, clean=False)
                await b.tick()
                b.report("n2", b.fine())
            elif how == "a fault between two looks":
                b.report("n2", b.lost(code="ecc_old"))
                await b.tick()
                b.report("n2", b.fine())
            else:
                await answered(b, boot="boot-b")
                await b.tick()
                assert rounds(b) == 1
                return
            assert rounds(b) == 0

        asyncio.run(story())
        assert b.slurm.table["n2"].out_of_service


def test_a_person_who_says_it_is_mended_gets_a_verification(tmp_path: Path) -> None:
    with bench(tmp_path, **SETTINGS) as b:
        burning(b)
        asyncio.run(b.control.resume("n2", "ann"))

        async def story() -> None:
            for _ in range(3):
                await b.tick()
                for order in await b.control.orders("sim", "n2", 0.0):
                    assert not order.deep
                    b.report("n2", b.fine(), occasion="manual", notes=(f"order:{order.id}",))
                    b.control.done((order.id,))

        asyncio.run(story())
        assert not b.slurm.table["n2"].out_of_service


def test_the_way_out_says_how_far_it_is(tmp_path: Path) -> None:
    with bench(tmp_path, **SETTINGS) as b:
        burning(b)
        assert b.control.drains()[0].exit == "mend it; burn-in: 4 clean looks over 300 s, then it is resumed"
        asyncio.run(answered(b))
        asyncio.run(b.tick())
        assert "; 1 in 0 s so far" in b.control.drains()[0].exit
