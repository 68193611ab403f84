"""The door to a node can be pointed at a tree, and never leads to the machine we run on by mistake."""

from __future__ import annotations

import tracemalloc
from pathlib import Path

import pytest

from checks import Host
from checks.host import READ_LIMIT, NotRecorded
from tests.fakes import Plant


def test_paths_lie_below_the_root_and_back(plant: Plant) -> None:
    host = plant({"/sys/class/infiniband/mlx5_0/fw_ver": "28.43\n"})
    (found,) = host.glob("/sys/class/infiniband/*/fw_ver")
    assert host.name(found) == "/sys/class/infiniband/mlx5_0/fw_ver"
    assert host.read(found) == host.read("/sys/class/infiniband/mlx5_0/fw_ver") == "28.43\n"
    assert host.redirected


def test_a_command_is_taken_from_its_recording(plant: Plant) -> None:
    host = plant({"/nodevet-commands/lspci_-d_10de:_.x.y": "one\n"})
    assert host.run(["lspci", "-d", "10de:", "/x/y"]) == "one\n"
    with pytest.raises(NotRecorded, match="lspci has no recording"):
        host.run(["lspci"])


def test_a_real_command_runs_without_a_shell_and_with_a_fixed_path() -> None:
    host = Host()
    assert host.run(["printf", "%s", "$(id) `id` ;id"]) == "$(id) `id` ;id"
    assert host.run(["sh", "-c", "echo $PATH $HOME"]).strip() == "/usr/sbin:/usr/bin:/sbin:/bin"


def test_a_command_that_fails_late_or_is_missing_says_so() -> None:
    host = Host()
    with pytest.raises(TimeoutError, match=r"did not end within 0\.2 s"):
        host.run(["sleep", "5"], timeout=0.2)
    with pytest.raises(FileNotFoundError):
        host.run(["nodevet-no-such-command"])
    with pytest.raises(OSError, match="ended with 3"):
        host.run(["sh", "-c", "echo trouble >&2; exit 3"])
    assert host.run(["sh", "-c", "echo 506 no; exit 1"]) == "506 no\n"


def test_reading_is_bounded_and_never_fails_on_bytes(plant: Plant, tmp_path: Path) -> None:
    host = plant({"/a": b"\xff\xfe\x00ok"})
    assert host.read("/a").endswith("ok")
    host.path("/big").write_bytes(b"x" * (READ_LIMIT + 10))
    assert len(host.read("/big")) == READ_LIMIT


def test_the_kernels_own_settings_are_read() -> None:
    """One read that asks for megabytes of a file below /proc/sys is refused with ENOMEM."""
    here = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    assert Host().boot_id() == here != ""
    assert int(Host().read("/proc/sys/kernel/pid_max")) > 0


@pytest.mark.parametrize(("text", "expected"), [("12.5 3.0\n", 12.5), ("", None), ("soon", None)])
def test_uptime_and_boot_id_may_be_unknown(plant: Plant, text: str, expected: float | None) -> None:
    host = plant({"/proc/uptime": text})
    assert host.uptime() == expected
    assert host.boot_id() == ""


def test_what_is_kept_belongs_to_one_root(plant: Plant, tmp_path: Path) -> None:
    first = plant()
    first.kept("x", list[int]).append(1)
    assert first.kept("x", list[int]) == [1]
    assert Host(root=first.root).kept("x", list[int]) == [1]
    assert Host(root=tmp_path / "other").kept("x", list[int]) == []


def test_what_a_command_floods_is_not_held(monkeypatch: pytest.MonkeyPatch) -> None:
    """A directory server, a controller or a driver decides how much a command prints: 60 MB are not kept for 1 MB."""
    monkeypatch.setattr("checks.host.READ_LIMIT", 1 << 20)
    tracemalloc.start()
    try:
        ended = Host().outcome(["dd", "if=/dev/zero", "bs=1M", "count=60"], timeout=60.0)
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert (ended.status, len(ended.output)) == (0, 1 << 20)
    assert "60+0 records out" in ended.error
    assert most < 16 << 20
