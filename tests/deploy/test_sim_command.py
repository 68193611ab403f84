"""`nodevet sim` names its faults, refuses what it cannot do, and leaves nothing when it fails."""

from __future__ import annotations

from click.testing import CliRunner

from deploy.simcluster.faults import FAULTS
from deploy.simcluster.sim import sim


def test_every_fault_is_listed_with_what_it_does() -> None:
    shown = CliRunner().invoke(sim, ["inject", "--list"])
    assert shown.exit_code == 0
    assert all(name in shown.output for name in FAULTS)
    assert all((fault.__doc__ or "").strip() for fault in FAULTS.values())


def test_a_folder_without_a_cluster_is_refused() -> None:
    gone = CliRunner().invoke(sim, ["heal", "--dir", "/proc", "n1"])
    assert gone.exit_code == 1 and "holds no simulated cluster" in gone.output
