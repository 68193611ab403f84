"""Whatever is wrong with Slurm has one incident that names it and the step that failed, and no node is to blame."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from slurm import errors
from tests.api.controller.fake_slurm import bench

TROUBLES = {
    "slurm_clock_skew": errors.error_for("Munge decode failed: Expired credential", step="scontrol show node"),
    "slurm_denied": errors.error_for("slurm_load_node error: Access/permission denied", step="scontrol show node"),
    "slurm_busy": errors.error_for("Socket timed out on send/recv operation", step="scontrol show node"),
    "slurm_unreachable": errors.error_for("Unable to contact slurm controller", step="scontrol show node"),
    "slurm_timeout": errors.Timeout("scontrol show node", 10.0),
    "slurm_unreadable": errors.BadAnswer("scontrol show node: answer is not JSON"),
}


@pytest.mark.parametrize("code", TROUBLES)
def test_each_trouble_has_an_incident_of_its_own(tmp_path: Path, code: str) -> None:
    """E02, E118, E122: nothing is drained for it, the step is named, and it ends with its cause."""
    with bench(tmp_path) as b:
        b.report("n1", b.lost())
        b.slurm.error = TROUBLES[code]
        asyncio.run(b.tick())
        opened = [i for i in b.store.incidents() if i.closed_at is None and i.code.startswith("slurm_")]
        assert [(i.node, i.code) for i in opened] == [("", code)]
        assert "scontrol show node" in opened[0].message
        assert b.slurm.writes == []
        b.slurm.error = None
        asyncio.run(b.tick())
        assert not {c for _, c in b.incidents() if c.startswith("slurm_")}
        assert [name for _, name, _ in b.slurm.writes] == ["n1"]


def test_one_trouble_takes_the_place_of_another(tmp_path: Path) -> None:
    with bench(tmp_path) as b:
        for code, error in TROUBLES.items():
            b.slurm.error = error
            asyncio.run(b.tick())
            assert {c for _, c in b.incidents() if c.startswith("slurm_")} == {code}
