"""A mount must be there and answer, and only named paths are touched."""

from __future__ import annotations

import errno
import os
from datetime import datetime, timezone
from pathlib import Path

import msgspec
import pytest

from checks import CHECKS, Host
from checks.fs.errors import said
from checks.fs.mount import mount
from checks.fs.mounts import Mount, holding, mounts, same_root
from checks.judge.context import Context
from checks.judge.decide import decide
from checks.judge.guard import Fleet, GuardLimits, NodeView, authorize
from checks.judge.policy import shipped
from checks.runner import run_check
from tests.fakes import Plant

INFO = "/proc/self/mountinfo"


def line(where: str, kind: str = "nfs4", source: str = "storage:/x", options: str = "rw,relatime") -> str:
    return f"40 22 0:45 / {where} {options} shared:7 - {kind} {source} {options}\n"


def test_says_nothing_of_a_mount_that_answers(plant: Plant) -> None:
    host = plant({INFO: line("/scratch"), "/scratch/file": ""})
    assert list(mount(host, paths=("/scratch",))) == []


def test_a_missing_mount_is_a_fault_of_the_node(plant: Plant) -> None:
    (found,) = mount(plant({INFO: line("/home"), "/scratch/file": ""}), paths=("/scratch",))
    assert (found.target, found.code, found.blame) == ("/scratch", "mount_absent", "node")


LUSTRE, NFS, GPFS, FUSE = "lustre", "nfs4", "gpfs", "fuse.sshfs"


@pytest.mark.parametrize(
    ("kind", "number", "expected"),
    [
        (GPFS, errno.ESTALE, ("mount_stale", "fail", "node")),
        (NFS, errno.ESTALE, ("mount_stale", "fail", "node")),
        (LUSTRE, errno.ESHUTDOWN, ("mount_evicted", "fail", "shared")),
        (LUSTRE, errno.ENOTCONN, ("mount_evicted", "fail", "shared")),
        ("ceph", errno.ESHUTDOWN, ("mount_evicted", "fail", "shared")),
        (LUSTRE, errno.EIO, ("mount_broken", "fail", "shared")),
        ("beegfs", errno.EREMOTEIO, ("mount_broken", "fail", "shared")),
        (NFS, errno.ETIMEDOUT, ("mount_unreachable", "fail", "shared")),
        ("cifs", errno.EHOSTDOWN, ("mount_unreachable", "fail", "shared")),
        (FUSE, errno.ENOTCONN, ("mount_client_dead", "fail", "node")),
        (FUSE, errno.EIO, ("mount_broken", "fail", "shared")),
        ("ext4", errno.EIO, ("disk_broken", "fail", "node")),
        ("xfs", errno.EUCLEAN, ("disk_broken", "fail", "node")),
        (NFS, errno.ENOMEM, ("mount_untold", "unknown", "self")),
        ("ext4", errno.ENOTCONN, ("mount_untold", "unknown", "self")),
        ("autofs", errno.ESTALE, ("mount_untold", "unknown", "self")),
    ],
)
def test_each_error_has_its_own_meaning(kind: str, number: int, expected: tuple[str, str, str]) -> None:
    """E16, E116: what is listed and does not serve is told by what it said, and the servers' errors blame no node."""
    found = said("/data", Mount("/data", kind, "server:/x", False), OSError(number, os.strerror(number)))
    assert (found.code, found.status, found.blame) == expected


def test_a_stale_mount_of_one_node_drains_it_and_never_from_one_look() -> None:
    """E16: fail and node, so the guard counts how many say the same; seen three times before anything follows."""
    found = said("/gpfs", Mount("/gpfs", "gpfs", "gpfs0", False), OSError(errno.ESTALE, "Stale file handle"))
    wanted = [
        decide([msgspec.structs.replace(found, check="mount", seen=seen)], shipped(), Context("interval")).wanted
        for seen in (1, 2, 3)
    ]
    assert wanted == ["admit", "admit", "drain"]


def test_a_stale_mount_of_many_nodes_is_the_servers() -> None:
    """E16, E126: an export that was made anew is stale everywhere, and the guard lets no node go for it."""
    now = datetime(2026, 12, 1, tzinfo=timezone.utc)
    nodes = {f"n{i}": NodeView(in_service=True) for i in range(40)}
    alone, all_of_them = {"n1": now}, dict.fromkeys(nodes, now)
    rulings = [
        authorize("n1", "mount_stale", Fleet(now=now, nodes=nodes, failing={"mount_stale": failing}), GuardLimits())
        for failing in (alone, all_of_them)
    ]
    assert [r.kind for r in rulings] == ["allowed", "correlated"]


@pytest.mark.parametrize("number", [errno.EIO, errno.ESHUTDOWN, errno.ENOTCONN, errno.ETIMEDOUT])
def test_what_a_server_does_drains_nobody(number: int) -> None:
    """E116: an eviction is the server's word, however often it is seen."""
    found = said("/l", Mount("/l", "lustre", "mgs:/l", False), OSError(number, "x"))
    seen = msgspec.structs.replace(found, check="mount", seen=99)
    assert [decide([seen], shipped(), Context(o)).wanted for o in ("interval", "prolog")] == ["admit", "admit"]


@pytest.mark.parametrize("number", [errno.EIO, errno.ESHUTDOWN])
def test_a_mount_that_can_be_measured_and_not_opened_is_found(
    plant: Plant, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    """E116: statfs is answered, open() is not."""

    def refuse(path: object) -> None:
        raise OSError(number, os.strerror(number))

    host = plant({INFO: line("/lustre", "lustre", "mgs:/l"), "/lustre/file": ""})
    monkeypatch.setattr(os, "scandir", refuse)
    (found,) = mount(host, paths=("/lustre",))
    assert (found.status, found.blame) == ("fail", "shared")


def test_a_vanished_directory_behind_a_mount_is_no_verdict(plant: Plant) -> None:
    (found,) = mount(plant({INFO: line("/scratch")}), paths=("/scratch",))
    assert found.code == "mount_untold"


@pytest.mark.skipif(os.geteuid() == 0, reason="root may look anywhere")
def test_a_root_that_may_not_be_listed_still_answers(plant: Plant) -> None:
    host = plant({INFO: line("/scratch"), "/scratch/file": ""})
    host.path("/scratch").chmod(0)
    assert list(mount(host, paths=("/scratch",))) == []


def test_only_named_paths_are_touched(plant: Plant) -> None:
    """E17: /home hangs and only /scratch is asked about; a FIFO in place of /home would block whoever opens it."""
    host = plant({INFO: line("/home") + line("/scratch"), "/scratch/file": ""})
    os.mkfifo(host.path("/home"))
    assert list(mount(host, paths=("/scratch",))) == []


class Automounting(Host):
    """A host whose file system appears when its path is touched."""

    def read(self, path: str | Path) -> str:
        text = super().read(path)
        self.path(INFO).write_text(line("/lustre", "autofs", "systemd-1") + line("/lustre", "lustre", "mgs:/l"))
        return text


def test_an_automount_is_triggered_first(plant: Plant) -> None:
    """E19: only systemd-1 autofs is listed; after a look the file system appears."""
    planted = plant({INFO: line("/lustre", "autofs", "systemd-1"), "/lustre/file": ""})
    assert list(mount(Automounting(root=planted.root), paths=("/lustre",))) == []


def test_an_automount_that_stays_away_is_absent(plant: Plant) -> None:
    """E19: the automounter alone is no file system."""
    host = plant({INFO: line("/lustre", "autofs", "systemd-1"), "/lustre/file": ""})
    (found,) = mount(host, paths=("/lustre",))
    assert (found.code, "automounter" in found.message) == ("mount_absent", True)


def test_skips_when_nothing_is_named(plant: Plant) -> None:
    (found,) = run_check(CHECKS["mount"], plant({INFO: ""})).findings
    assert found.status == "skipped"


def test_an_unreadable_mount_list_is_our_trouble(plant: Plant) -> None:
    (found,) = run_check(CHECKS["mount"], plant(), {"paths": ("/scratch",)}).findings
    assert (found.status, found.blame) == ("unknown", "self")


def test_the_first_process_tells_what_is_mounted(plant: Plant) -> None:
    """A hardened unit shows its own disks as read-only; the node's are not."""
    ours, nodes = line("/", "ext4", "/dev/sda", "ro"), line("/", "ext4", "/dev/sda", "rw")
    assert not mounts(plant({INFO: ours, "/proc/1/mountinfo": nodes}))["/"].read_only


def test_the_list_of_mounts_survives_odd_lines(plant: Plant) -> None:
    host = plant({INFO: "garbage\n\n1 2 3 - \n" + line("/a\\040b", source="s\\011x") + line("/", "ext4", "/dev/sda")})
    known = mounts(host)
    assert (known["/a b"].source, known["/a b"].network) == ("s\tx", True)
    assert holding("/a b/c", known) == known["/a b"]
    assert holding("/a", known) == known["/"]


@pytest.mark.parametrize("path", ["/scratch/", "//scratch", "/./scratch", "/data", "/links/again"])
def test_other_spellings_and_links_mean_the_mount(plant: Plant, path: str) -> None:
    """Like E19: a last slash or a symbolic link in the configuration is no missing mount."""
    tree: dict[str, str | bytes] = {INFO: line("/scratch"), "/scratch/file": ""}
    host = plant(tree | {"/data": "-> /scratch", "/links/again": "-> ../data"})
    assert list(mount(host, paths=(path,))) == []


def test_a_loop_of_links_is_no_mount(plant: Plant) -> None:
    host = plant({INFO: line("/", "ext4"), "/a": "-> /b", "/b": "-> /a"})
    (found,) = mount(host, paths=("/a",))
    assert found.code == "mount_absent"


class AutomountingBelow(Host):
    """A host whose automounter adds a mount below itself when its path is touched."""

    def read(self, path: str | Path) -> str:
        text = super().read(path)
        self.path(INFO).write_text(text + line("/home/alice", "nfs4"))
        return text


def test_a_mount_below_an_automounter_is_triggered_first(plant: Plant) -> None:
    """Like E19: autofs's indirect map lists only /home until /home/alice is looked at."""
    home = line("/home", "autofs", "/etc/auto.home", "rw,indirect")
    planted = plant({INFO: home, "/home/alice/file": ""})
    assert list(mount(AutomountingBelow(root=planted.root), paths=("/home/alice",))) == []


def test_an_indirect_map_is_never_mounted_on_itself(plant: Plant) -> None:
    """Like E19: an operator names /home, which autofs holds with an indirect map: nothing is missing."""
    host = plant({INFO: line("/home", "autofs", "/etc/auto.home", "rw,fd=6,minproto=5,indirect"), "/home/x/f": ""})
    assert list(mount(host, paths=("/home",))) == []


def test_what_lies_there_instead_is_told(plant: Plant) -> None:
    host = plant({INFO: line("/", "ext4") + line("/scratch", "tmpfs"), "/scratch/jobs/file": ""})
    (found,) = mount(host, paths=("/scratch/jobs",))
    assert found.message == "nothing is mounted here, it lies on /scratch (tmpfs)"


@pytest.mark.parametrize("text", ["", "garbage\n", "\xff\x00\n", line("/home") + line("/scratch")[:40]])
def test_a_cut_list_of_mounts_is_our_trouble(plant: Plant, text: str) -> None:
    """Like E23: what cannot be read to its end says of no mount that it is missing."""
    (found,) = run_check(CHECKS["mount"], plant({INFO: text}), {"paths": ("/scratch",)}).findings
    assert (found.status, found.blame) == ("unknown", "self")


def test_the_first_process_under_another_root_is_not_asked(tmp_path: Path) -> None:
    """In a container its list names other paths, and a good mount would read as absent."""
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    (tmp_path / "again").symlink_to(tmp_path / "a")
    assert same_root(tmp_path / "a", tmp_path / "again")
    assert not same_root(tmp_path / "b", tmp_path / "a")
    assert not same_root(tmp_path / "gone", tmp_path / "a")
