"""The list of mounts is read as the kernel walks it: the topmost counts, and what is hidden is not there."""

from __future__ import annotations

import pytest

from checks.fs.mounts import mounts
from tests.fakes import Plant

INFO = "/proc/self/mountinfo"
ROOT = "1 0 8:2 / / rw - ext4 /dev/sda2 rw\n"


def kinds(plant: Plant, text: str) -> dict[str, str]:
    return {where: found.kind for where, found in mounts(plant({INFO: ROOT + text})).items()}


def test_the_topmost_of_several_on_one_path_counts_whatever_the_order(plant: Plant) -> None:
    """Like E19: an automounter below, the file system upon it, and the list the other way round."""
    lower, upper = "20 1 0:40 / /data rw - autofs systemd-1 rw\n", "30 20 0:45 / /data rw - nfs4 s:/x rw\n"
    assert kinds(plant, lower + upper) == kinds(plant, upper + lower) == {"/": "ext4", "/data": "nfs4"}


def test_three_upon_another(plant: Plant) -> None:
    text = "".join(f"{20 + i} {1 if i == 0 else 19 + i} 0:4{i} / /data rw - kind{i} s rw\n" for i in (2, 0, 1))
    assert kinds(plant, text)["/data"] == "kind2"


def test_what_lies_below_a_later_mount_of_its_folder_is_hidden(plant: Plant) -> None:
    """Somebody mounts a tmpfs over /scratch: the Lustre at /scratch/l stays in the list, and no process reaches it."""
    text = "20 1 0:40 / /scratch/l rw - lustre mgs:/l rw\n30 1 0:45 / /scratch rw - tmpfs tmpfs rw\n"
    assert kinds(plant, text) == {"/": "ext4", "/scratch": "tmpfs"}


def test_what_was_mounted_upon_the_later_one_is_there(plant: Plant) -> None:
    text = "30 1 0:45 / /scratch rw - tmpfs tmpfs rw\n31 30 0:40 / /scratch/l rw - lustre mgs:/l rw\n"
    assert kinds(plant, text)["/scratch/l"] == "lustre"


@pytest.mark.parametrize("parent", ["1", "0", "77"])
def test_a_root_that_hangs_from_itself_or_nothing(plant: Plant, parent: str) -> None:
    """Like E22: a diskless node's rootfs is its own parent, a chroot's is not in its list."""
    known = mounts(plant({INFO: f"1 {parent} 0:2 / / rw - rootfs rootfs rw\n2 1 0:3 / /proc rw - proc proc rw\n"}))
    assert set(known) == {"/", "/proc"}


def test_mounts_upon_each_other_in_a_ring_end(plant: Plant) -> None:
    assert kinds(plant, "20 21 0:1 / /a rw - x x rw\n21 20 0:2 / /a rw - y y rw\n") == {"/": "ext4"}


def test_fields_of_every_form(plant: Plant) -> None:
    """A bind mount's folder, octal blanks and backslashes, optional fields or none."""
    text = (
        "20 1 8:2 /local/my\\040scratch /scratch\\040one rw,nosuid,noexec shared:7 master:3 - ext4 /dev/sda2 rw,quota\n"
        "21 1 0:9 / /back\\134slash ro,relatime - cifs //filer/a\\040b rw,vers=3.1.1\n"
    )
    known = mounts(plant({INFO: ROOT + text}))
    bind, share = known["/scratch one"], known["/back\\slash"]
    assert (bind.root, bind.options >= {"nosuid", "noexec", "quota"}) == ("/local/my scratch", True)
    assert (share.source, share.read_only, "vers=3.1.1" in share.options) == ("//filer/a b", True, True)
