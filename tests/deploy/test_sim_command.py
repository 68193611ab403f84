"""`nodevet sim` names its faults, refuses what it cannot do, and leaves nothing when it fails."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from deploy.simcluster.faults import FAULTS
from deploy.simcluster.sim import path_to_nodevet, sim


def test_every_fault_is_listed_with_what_it_does() -> None:
    shown = CliRunner().invoke(sim, ["inject", "--list"])
    assert shown.exit_code == 0
    assert all(name in shown.output for name in FAULTS)
    assert all((fault.__doc__ or "").strip() for fault in FAULTS.values())


def test_a_folder_without_a_cluster_is_refused() -> None:
    gone = CliRunner().invoke(sim, ["heal", "--dir", "/proc", "n1"])
    assert gone.exit_code == 1 and "holds no simulated cluster" in gone.output


def test_a_shell_that_finds_no_nodevet_is_told_where_it_is(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "nodevet").touch(mode=0o755)
    monkeypatch.setattr("sys.executable", str(tmp_path / "python"))
    for path, told in (("/nonexistent", str(tmp_path)), (str(tmp_path), "")):
        monkeypatch.setenv("PATH", path)
        assert path_to_nodevet() == told
