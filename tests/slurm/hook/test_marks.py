"""Marks are few, new files of our own in a directory of our own, and never change the exit code."""

from __future__ import annotations

import os
import re
import stat
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.slurm.hook.rig import JOB, Hook


@pytest.fixture(autouse=True)
def quick(hook: Hook) -> None:
    """Nobody listens, and nobody is waited for."""
    hook.configure(restart_retry_s="0")


def test_mark_names_the_attempt_and_says_when_and_why(hook: Hook) -> None:
    hook.run("epilog")
    (path,) = hook.marks_dir.iterdir()
    assert re.fullmatch(r"epilog\.4242\.1\.[0-9]+", path.name)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    when, cause = path.read_text().split()
    assert abs(int(when) - time.time()) < 30
    assert (cause, path.read_text()[-1]) == ("no_agent", "\n")


@pytest.mark.parametrize(
    ("job", "restart", "begin"),
    [
        (None, None, "prolog.0.0."),
        ("", "", "prolog.0.0."),
        ("../../etc/x", "1/2", "prolog.0.0."),
        ("12;rm", "-1", "prolog.0.0."),
        ("1" * 21, "0x1", "prolog.0.0."),
        ("٣", "1 ", "prolog.0.0."),
        ("18446744073709551615", "7", "prolog.18446744073709551615.7."),
    ],
)
def test_only_digits_get_into_a_name(hook: Hook, job: str | None, restart: str | None, begin: str) -> None:
    env = {"SLURMD_NODENAME": "n1"}
    if job is not None:
        env["SLURM_JOB_ID"] = job
    if restart is not None:
        env["SLURM_JOB_RESTART_COUNT"] = restart
    assert hook.run(env=env).code == 0
    (mark,) = hook.marks()
    assert mark.name.startswith(begin)
    assert mark.name.removeprefix(begin).isdigit()


def test_old_spelling_of_the_job_id(hook: Hook) -> None:
    hook.run(env={"SLURM_JOBID": "77"})
    assert hook.marks()[0].name.startswith("prolog.77.0.")


@pytest.mark.parametrize(("there", "after"), [(255, 256), (256, 256), (300, 300)])
def test_marks_are_bounded(hook: Hook, there: int, after: int) -> None:
    for number in range(there):
        (hook.marks_dir / f"{'x' * 60}{number}").write_text("")
    assert hook.run().code == 0
    assert len(list(hook.marks_dir.iterdir())) == after


# A hook's pid cannot be known beforehand; an interpreter that sees its own plants the file and becomes the hook.
PLANT = """
import os, sys
marks, target, hook = sys.argv[1:]
name = f"{marks}/prolog.4242.1.{os.getpid()}"
os.symlink(target, name) if target else open(name, "w").close()
os.execve(hook, [hook], dict(os.environ))
"""


@pytest.mark.parametrize("link", [True, False], ids=["symlink", "file"])
def test_a_planted_mark_is_not_followed_or_overwritten(hook: Hook, link: bool) -> None:
    victim = hook.base / "victim"
    wrap = ("/usr/bin/python3", "-I", "-S", "-c", PLANT, str(hook.marks_dir), str(victim) if link else "")
    assert hook.run(env=JOB, wrap=wrap).code == 0
    assert not victim.exists()
    (name,) = os.listdir(hook.marks_dir)
    assert name.startswith("prolog.4242.1.")
    assert os.lstat(hook.marks_dir / name).st_size == (len(str(victim)) if link else 0)


def test_symlinked_directory_is_not_entered(hook: Hook) -> None:
    elsewhere = hook.base / "elsewhere"
    elsewhere.mkdir()
    hook.marks_dir.rmdir()
    hook.marks_dir.symlink_to(elsewhere)
    assert hook.run().code == 0
    assert list(elsewhere.iterdir()) == []


def test_directory_writable_by_others_is_not_used(hook: Hook) -> None:
    hook.marks_dir.chmod(0o1777)
    assert hook.run().code == 0
    assert list(hook.marks_dir.iterdir()) == []


def test_directory_of_somebody_else_is_not_used(hook: Hook, root: None) -> None:
    os.chown(hook.marks_dir, 65534, 65534)
    assert hook.run().code == 0
    assert list(hook.marks_dir.iterdir()) == []


def test_missing_directory_is_made(hook: Hook) -> None:
    hook.marks_dir.rmdir()
    hook.run()
    assert hook.causes() == ["no_agent"]
    assert stat.S_IMODE(hook.marks_dir.stat().st_mode) == 0o700


@pytest.mark.parametrize("kind", ["prolog", "epilog", "health", "unkillable"])
def test_no_place_for_a_mark_changes_nothing(hook: Hook, kind: str) -> None:
    hook.configure(restart_retry_s="0", marks="/proc/nodevet/marks")
    assert hook.run(kind).code == 0


def test_no_file_may_grow(hook: Hook) -> None:
    """A size limit of 0 comes with SIGXFSZ, whose default would end the hook with a drain."""
    with (hook.base / "out").open("wb") as out:
        result = hook.run(wrap=("/usr/bin/prlimit", "--fsize=0"), stdout=out.fileno())
    assert result.code == 0
    assert hook.causes() == [""], "the mark is there, by name only"


@pytest.fixture
def full(hook: Hook, root: None) -> Iterator[Path]:
    """Return a directory on a file system without a free block."""
    place = hook.base / "full"
    place.mkdir()
    mounted = subprocess.run(
        ["/usr/bin/mount", "-t", "tmpfs", "-o", "size=4k,mode=0700", "nodevet-test", str(place)],
        capture_output=True,
        text=True,
        check=False,
    )
    if mounted.returncode != 0:
        pytest.skip(f"cannot mount a tmpfs here: {mounted.stderr.strip()}")
    try:
        (place / "filler").write_bytes(b"x" * 4096)
        yield place
    finally:
        subprocess.run(["/usr/bin/umount", str(place)], check=True)


def test_full_disk(hook: Hook, full: Path) -> None:
    hook.configure(restart_retry_s="0", marks=str(full))
    with pytest.raises(OSError, match="No space left"):
        (full / "proof").write_bytes(b"x")
    result = hook.run()
    assert result.code == 0
    assert "No space left" in result.err
