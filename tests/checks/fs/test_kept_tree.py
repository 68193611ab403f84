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
