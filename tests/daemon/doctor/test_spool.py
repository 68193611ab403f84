"""The directory between slurmctld and the central service is there, theirs, and nobody else's."""

from __future__ import annotations

import grp
import os
import pwd
from pathlib import Path

import pytest

from daemon.doctor.spool import spool_rules, wrong_with
from slurm.config import parse_limits
from slurm.doctor import Running

ME = pwd.getpwuid(os.geteuid()).pw_name
GROUP = grp.getgrgid(os.getegid()).gr_name


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "jobs"
    made.mkdir()
    made.chmod(0o2770)
    return made


def test_a_directory_of_the_two_is_well(folder: Path) -> None:
    assert wrong_with(folder, ME, GROUP) == ""


@pytest.mark.parametrize(
    ("mode", "user", "group", "says"),
    [
        (0o2777, ME, GROUP, "writable by others"),
        (0o2750, ME, GROUP, "not writable by group"),
        (0o2770, ME, "nobody-has-this", "not writable by group"),
        (0o2770, "nobody", GROUP, "belongs to"),
    ],
)
def test_each_thing_that_is_wrong_with_it(folder: Path, mode: int, user: str, group: str, says: str) -> None:
    folder.chmod(mode)
    assert says in wrong_with(folder, user, group)


def test_what_is_no_directory(folder: Path) -> None:
    assert wrong_with(folder / "none", ME, GROUP) == "is not there"
    (folder / "link").symlink_to(folder)
    assert wrong_with(folder / "link", ME, GROUP) == "is no directory"


def running(**settings: str) -> Running:
    return Running(parse_limits("SLURM_VERSION = 22.05.8\n"), {"SlurmctldHost[0]": "head1(10.0.0.1)", **settings})


@pytest.mark.parametrize(
    ("settings", "host", "levels"),
    [
        ({"PrologSlurmctld": "/x/nodevet-prologctld"}, "gpu017", []),
        ({"PrologSlurmctld": "/x/nodevet-prologctld"}, "head1.example", ["problem"]),
        ({"PrologSlurmctld": "(null)"}, "head1", ["ok"]),
    ],
)
def test_only_where_slurmctld_runs_and_only_where_it_is_wanted(
    settings: dict[str, str], host: str, levels: list[str], tmp_path: Path
) -> None:
    assert [a.level for a in spool_rules(running(**settings), tmp_path / "none", host)] == levels
