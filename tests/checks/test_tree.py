"""A kept tree is read as its node would read it, and nothing in it leads to the machine we run on."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from checks import Host
from checks.catalog import load
from checks.runner import run_check
from checks.system import walk
from checks.tree import matching
from tests.fakes import Plant

OUTSIDE = "of the machine we run on\n"


@pytest.fixture
def outside(tmp_path: Path) -> Path:
    folder = tmp_path.parent / f"{tmp_path.name}-outside"
    folder.mkdir()
    (folder / "state").write_text(OUTSIDE)
    return folder


def test_an_absolute_link_begins_at_the_root_of_the_tree(plant: Plant) -> None:
    host = plant({"/run/state": "inside\n", "/var/run": "-> /run", "/etc/state": "-> /var/run/state"})
    assert host.read("/var/run/state") == host.read("/etc/state") == "inside\n"
    assert host.path("/var/run/state") == host.root / "run/state"
    assert [host.name(p) for p in host.glob("/var/run/*")] == ["/var/run/state"]
    assert host.link("/etc/state") == "/var/run/state"


@pytest.mark.parametrize("climb", ["", "../../../../../../../../.."])
def test_no_link_leads_out(plant: Plant, outside: Path, climb: str) -> None:
    """A captured tree is anybody's: its links must not make a root user's check read this machine's files."""
    host = plant({"/sys/class/net/eth0/mtu": "1500\n", "/sys/class/net/far": f"-> {climb}{outside}",
                  "/sys/state": f"-> {climb}{outside}/state"})  # fmt: skip
    for path in ("/sys/class/net/far/state", "/sys/state"):
        with pytest.raises(FileNotFoundError):
            host.read(path)
        with pytest.raises(FileNotFoundError):
            host.read(host.root / path.lstrip("/"))
        assert not host.path(path).exists()
    assert host.glob("/sys/class/net/*/state") == []
    assert [p.name for p in host.glob("/sys/class/net/*")] == ["eth0", "far"]


def test_an_escape_into_a_namesake_is_seen(plant: Plant, outside: Path) -> None:
    """A folder whose name begins like the root's is another folder."""
    beside = Path(f"{outside.parent}/{plant({}).root.name}-beside")
    beside.mkdir()
    (beside / "state").write_text(OUTSIDE)
    host = plant({"/state": f"-> ../{beside.name}/state"})
    with pytest.raises(FileNotFoundError):
        host.read("/state")


def test_links_in_a_ring_are_an_error(plant: Plant) -> None:
    host = plant({"/a": "-> /b", "/b": "-> /a"})
    with pytest.raises(OSError, match="symbolic links"):
        host.read("/a")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can make a device")
def test_a_device_in_a_tree_is_not_this_machines(plant: Plant) -> None:
    """An archive that root unpacks makes real devices: one of them is the running kernel's log."""
    host = plant({"/dev/x": ""})
    os.mknod(host.root / "dev/kmsg", 0o600 | 0o020000, os.makedev(1, 11))
    with pytest.raises(OSError, match="a device in a tree"):
        host.read("/dev/kmsg")


def test_the_live_root_is_read_as_it_is() -> None:
    host = Host()
    assert not host.redirected
    assert host.path("/proc/self/stat") == Path("/proc/self/stat")
    assert host.read("/proc/self/comm") == Path("/proc/self/comm").read_text()
    assert Path("/proc/uptime") in host.glob("/proc/upt*")


def test_a_pattern_finds_what_pathlib_finds(plant: Plant) -> None:
    host = plant({f"/sys/class/infiniband/mlx5_{n}/ports/1/state": "4: ACTIVE\n" for n in (0, 1, 10)})
    (host.root / "sys/class/.hidden").mkdir()
    rdma = "sys/class/infiniband"
    for pattern in ("sys/class/*", f"{rdma}/mlx5_[01]/ports/*/state", "sys/*/*/mlx5_1?", "sys/no/*",
                    f"{rdma}/*/ports/1", "sys/class", "sys/none", f"{rdma}/*/state/*"):  # fmt: skip
        expected = sorted(str(p) for p in host.root.glob(pattern))
        assert sorted(matching(str(host.root), "/" + pattern, kept=True)) == expected
        assert sorted(matching(str(host.root), "/" + pattern, kept=False)) == expected


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can make a device")
def test_the_kernels_device_in_a_tree_is_this_machines_log(plant: Plant) -> None:
    """E101: an unpacked archive holds a real /dev/kmsg; what this machine's kernel wrote is not that node's."""
    host = plant({"/proc/uptime": "1.0 1.0\n", "/dev/x": ""})
    os.mknod(host.root / "dev/kmsg", 0o600 | 0o020000, os.makedev(1, 11))
    (found,) = run_check(load()["kernel_oom"], host).findings
    assert (found.code, found.blame, "device" in found.message) == ("kernel_log_unreadable", "self", True)


@pytest.mark.parametrize("name", ["proc/9/stat", "proc/meminfo", "proc/uptime"])
def test_a_pipe_in_a_tree_is_not_waited_for(plant: Plant, name: str) -> None:
    """A captured tree is anybody's: a pipe in the place of a file must not hold a worker for ever."""
    host = plant({"/proc/loadavg": "0 0 0 1/2 3\n", "/sys/devices/system/cpu/online": "0-3\n"})
    (host.root / name).parent.mkdir(parents=True, exist_ok=True)
    os.mkfifo(host.root / name)
    for check in ("processes", "idle_node", "memory", "boot"):
        assert {f.status for f in run_check(load()[check], host).findings} <= {"unknown", "skipped", "ok"}


def test_a_link_in_the_place_of_a_process_is_not_followed(plant: Plant) -> None:
    """It may lead to a process of the machine that we run on."""
    own = f"/proc/{os.getpid()}"
    host = plant({"/proc/77": f"-> {own}", "/proc/5/stat": Path(f"{own}/stat").read_text()})
    assert [p.pid for p in walk.processes(host)] == [5]


@pytest.mark.parametrize("place", ["state", "folder"])
def test_what_was_looked_at_and_exchanged_then_is_not_read(plant: Plant, outside: Path, place: str) -> None:
    """The owner of a tree that root looks at puts a link in the place of a folder whose way was proven before."""
    host = plant({"/sys/near/state": "inside\n"})
    assert host.read("/sys/near/state") == "inside\n"
    near = host.root / "sys/near"
    (near / "state").unlink()
    if place == "state":
        (near / "state").symlink_to(outside / "state")
    else:
        near.rmdir()
        near.symlink_to(outside)
    with pytest.raises(OSError, match="leads out of the tree since"):
        host.read("/sys/near/state")


def test_a_pipe_put_in_the_place_of_a_file_is_not_waited_for(plant: Plant) -> None:
    host = plant({"/sys/near/state": "inside\n"})
    assert host.read("/sys/near/state") == "inside\n"
    (host.root / "sys/near/state").unlink()
    os.mkfifo(host.root / "sys/near/state")
    with pytest.raises(OSError, match="no plain file any more"):
        host.read("/sys/near/state")
