"""A drain of ours follows what its node shows: codes, way back and reason, while the reason is ours, and once."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from pathlib import Path

from api.controller.drain_record import DrainRecord
from slurm.errors import PermissionDenied
from tests.api.controller.fake_slurm import Bench, bench
from tests.api.controller.test_verify import drained


def record(b: Bench) -> DrainRecord:
    return b.core.records.open_drains("sim")["n2"]


def reason(b: Bench) -> str:
    found = b.slurm.table["n2"].reason
    return found.text if found else ""


def test_a_graver_fault_is_shown_and_asks_for_its_own_way_back(tmp_path: Path) -> None:
    with bench(tmp_path) as b:
        drained(b, code="ecc_old")
        token = record(b).token
        b.slurm.writes.clear()
        b.report("n2", b.lost(code="ecc_old"), b.lost(code="part_broken", check="remap"))
        asyncio.run(b.tick())
        assert record(b).codes == ("part_broken", "ecc_old") and record(b).step == "person"
        assert record(b).checks == ("gpu_health", "remap")
        assert reason(b) == f"nodevet: part_broken GPU 3: fell off the bus; drained for ecc_old before [{token}]"
        b.report("n2", b.lost(code="gpu_lost"), b.lost(code="part_broken", check="remap"))
        for _ in range(3):
            asyncio.run(b.tick())
        assert record(b).codes[0] == "gpu_lost" and record(b).step == "person", "the stricter way back stays"
        assert [w[0] for w in b.slurm.writes] == ["reason", "reason"]
        assert len(b.core.records.listing("sim", all_states=True)) == 1


def test_a_fault_that_is_no_graver_is_kept_without_a_word_to_slurm(tmp_path: Path) -> None:
    with bench(tmp_path) as b:
        drained(b)
        b.slurm.writes.clear()
        b.report("n2", b.lost(), b.lost(code="ecc_old", check="ecc"))
        for _ in range(3):
            asyncio.run(b.tick())
        assert b.slurm.writes == [] and record(b).codes == ("gpu_lost", "ecc_old")
        assert record(b).checks == ("ecc", "gpu_health")


def test_a_reason_that_a_person_edited_is_not_followed_up(tmp_path: Path) -> None:
    with bench(tmp_path) as b:
        drained(b, code="ecc_old")
        b.slurm.set("n2", "reason", reason(b).replace("fell", "card ordered, fell"), user="root")
        before = reason(b)
        b.slurm.writes.clear()
        b.report("n2", b.lost())
        for _ in range(3):
            asyncio.run(b.tick())
        assert b.slurm.writes == [] and reason(b) == before


def test_a_reason_that_slurm_does_not_take_is_tried_once_a_minute_and_does_not_lose_the_drain(tmp_path: Path) -> None:
    with bench(tmp_path) as b:
        drained(b, code="ecc_old")
        tried = 0

        def refused(name: str, reason: str) -> None:
            nonlocal tried
            tried += 1
            raise PermissionDenied("Access/permission denied")

        real, b.slurm.set_reason = b.slurm.set_reason, refused  # type: ignore[method-assign]
        b.report("n2", b.lost())
        for _ in range(4):
            asyncio.run(b.tick())
        assert tried == 1 and record(b).open
        b.slurm.set_reason = real  # type: ignore[method-assign]
        b.offset = timedelta(seconds=61)
        asyncio.run(b.tick())
        assert "gpu_lost" in reason(b)


def test_a_reason_that_slurm_forgot_is_shown_again(tmp_path: Path) -> None:
    with bench(tmp_path) as b:
        drained(b, code="ecc_old")
        b.slurm.save()
        b.report("n2", b.lost())
        asyncio.run(b.tick())
        assert "gpu_lost" in reason(b)
        b.slurm.crash()
        asyncio.run(b.tick())
        b.offset = timedelta(seconds=61)
        for _ in range(2):
            asyncio.run(b.tick())
        assert "gpu_lost" in reason(b) and record(b).codes == ("gpu_lost", "ecc_old")


def test_a_person_drain_is_not_followed(tmp_path: Path) -> None:
    with bench(tmp_path) as b:
        asyncio.run(b.tick())
        asyncio.run(b.control.drain("n2", "fan", "alice"))
        b.slurm.writes.clear()
        b.report("n2", b.lost())
        for _ in range(3):
            asyncio.run(b.tick())
        assert b.slurm.writes == [] and record(b).codes == ()
