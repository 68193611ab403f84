"""Not to see the kernel's log is said, and never taken for a log without errors."""

from __future__ import annotations

from pathlib import Path

import pytest

from checks import CHECKS, Host
from checks.gpu.pci import has_nvidia
from checks.log import kernel_xid as module
from checks.log import listening
from checks.log.kernel_xid import kernel_xid
from checks.log.kmsg import KernelLog
from checks.runner import run_check


def test_the_live_kernel_log_is_the_device(monkeypatch: pytest.MonkeyPatch) -> None:
    """Like E43: on a live node an ordinary file in place of /dev/kmsg is not believed."""
    monkeypatch.setattr(module, "has_nvidia", lambda host: True)
    asked: list[bool] = []

    class Watched(KernelLog):
        def __init__(self, path: Path, *, device: bool = False, file: bool = False, captured: bool = False) -> None:
            asked.append(device)
            raise OSError("seen enough")

    monkeypatch.setattr(listening, "KernelLog", Watched)
    monkeypatch.setattr(Host, "kept", lambda self, name, make: make())
    for host in (Host(), Host(kmsg=Path("/dev/kmsg"))):
        with pytest.raises(OSError, match="seen enough"):
            list(kernel_xid(host))
    assert asked == [True, True]


def test_the_configured_device_of_a_node_without_gpus_is_left_alone() -> None:
    if has_nvidia(Host()):
        pytest.skip("this machine has a GPU")
    (found,) = run_check(CHECKS["kernel_xid"], Host(kmsg=Path("/dev/kmsg"))).findings
    assert found.status == "skipped"


def test_blindness_is_no_health() -> None:
    """E43: where the kernel log cannot be read the node's verdict is unknown, never healthy."""
    assert CHECKS["kernel_xid"].required


def test_a_kept_log_of_another_machine_is_not_confirmed_on_this_ones_bus(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A GPU that this machine never had has not fallen off its bus."""
    monkeypatch.setattr(module, "on_bus", lambda host, bdf: False)
    (kept := tmp_path / "dmesg.txt").write_text("[ 99.0] NVRM: Xid (PCI:0000:3b:00): 79, GPU has fallen off the bus.\n")
    host = Host(kmsg=kept, captured=True)
    codes = {f.code for f in kernel_xid(host)}
    assert "gpu_lost" not in codes and codes > {"ok"}
    tree = Host(root=tmp_path, kmsg=kept, captured=True)
    assert "gpu_lost" in {f.code for f in kernel_xid(tree)}, "a captured tree has its own bus"
