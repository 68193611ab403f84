"""A tree that somebody kept tells what was mounted; nothing in it is measured, walked or written."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from checks import Host
from checks.catalog import load
from checks.profile import typed_options
from checks.runner import run_check
from tests.fakes import write_tree

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

INFO = "22 1 8:2 / / rw - ext4 /dev/sda2 rw\n40 22 0:45 / /scratch rw - lustre mgs:/l rw\n"
PAGE = Path(__file__).parents[3] / "docs/filesystems.md"


def look(root: Path, name: str, **options: object) -> list[tuple[str, str]]:
    return [(f.status, f.code) for f in run_check(load()[name], Host(root=root), options).findings]


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("disk_space", {"paths": ("/",)}),
        ("mount_space", {"paths": ("/scratch",)}),
        ("mount_write", {"folders": ("/scratch/probe",), "user": ""}),
        ("scratch", {"paths": ("/scratch",)}),
    ],
)
def test_what_cannot_be_seen_in_it_is_skipped(tmp_path: Path, name: str, options: dict[str, object]) -> None:
    """The free space of the machine that looks at it is not the node's."""
    write_tree(tmp_path, {"/proc/self/mountinfo": INFO, "/scratch/probe/file": ""})
    assert look(tmp_path, name, **options) == [("skipped", "not_applicable")]
    assert os.listdir(tmp_path / "scratch/probe") == ["file"]


def test_its_list_of_mounts_is_judged(tmp_path: Path) -> None:
    write_tree(tmp_path, {"/proc/self/mountinfo": INFO})
    assert look(tmp_path, "mount", paths=("/scratch",), types=("/scratch=lustre",)) == [("ok", "ok")]
    assert look(tmp_path, "mount", paths=("/home",)) == [("fail", "mount_absent")]
    assert look(tmp_path, "mount", paths=("/scratch",), types=("/scratch=nfs4",)) == [("warn", "mount_type_wrong")]


def test_the_page_on_file_systems_shows_settings_that_exist() -> None:
    block = PAGE.read_text().split("```toml\n", 1)[1].split("```", 1)[0]
    sections = tomllib.loads(block)["checks"]
    assert len(sections) >= 8
    for name, settings in sections.items():
        assert typed_options(name, settings, where="filesystems.md")


@pytest.mark.parametrize(
    ("automounter", "path"),
    [
        ("30 22 0:33 / /lustre rw - autofs systemd-1 rw,fd=29,direct\n", "/lustre"),
        ("30 22 0:33 / /home rw - autofs /etc/auto.home rw,fd=6,indirect\n", "/home/alice"),
    ],
)
def test_what_only_the_automounter_holds_cannot_be_told_from_it(tmp_path: Path, automounter: str, path: str) -> None:
    """Like E19: an automount that nobody had triggered when the tree was kept is no missing mount."""
    write_tree(tmp_path, {"/proc/self/mountinfo": INFO + automounter, f"{path}/file": ""})
    assert look(tmp_path, "mount", paths=(path,)) == [("unknown", "mount_untold")]
    assert look(tmp_path, "mount", paths=("/data",)) == [("fail", "mount_absent")]


@pytest.mark.parametrize("place", ["/proc/1/mounts", "/proc/self/mounts", "/proc/mounts"])
def test_the_older_list_of_mounts_will_do(tmp_path: Path, place: str) -> None:
    """Like E16: who keeps a tree by hand copies /proc/mounts, which has the topmost of several mounts last."""
    lines = (
        "rootfs / rootfs rw 0 0\n/dev/sda2 / ext4 rw,relatime 0 0\nsystemd-1 /home autofs rw,direct 0 0\n"
        "filer:/home /home nfs4 ro,vers=4.2 0 0\ngpfs0 /gpfs/my\\040data gpfs rw 0 0"
    )
    write_tree(tmp_path, {place: lines})
    assert look(tmp_path, "mount", paths=("/gpfs/my data",), types=("/gpfs/my data=gpfs",)) == [("ok", "ok")]
    assert look(tmp_path, "mount", paths=("/home",), options=("/home=rw",)) == [("fail", "mount_read_only")]
    assert look(tmp_path, "mount", paths=("/scratch",)) == [("fail", "mount_absent")]


def test_neither_list_is_our_trouble(tmp_path: Path) -> None:
    write_tree(tmp_path, {"/proc/mounts": "nonsense\n"})
    assert look(tmp_path, "mount", paths=("/scratch",)) == [("unknown", "check_error")]
