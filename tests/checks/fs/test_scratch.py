"""What is left in scratch folders is counted at their top, never opened, and only of users who run nothing here."""

from __future__ import annotations

import os

import pytest

from checks import Host
from checks.catalog import load
from checks.fs.quota import Usage
from checks.fs.quota import judge as judge_quota
from checks.fs.scratch import Entry, judge
from checks.runner import run_check
from checks.wire import JobAttempt
from tests.fakes import Plant

GIB = 1 << 30
INFO = "/proc/self/mountinfo"
LOCAL = "22 1 8:2 / / rw - ext4 /dev/sda2 rw\n"
AS_ROOT = pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files to other accounts")


@pytest.mark.parametrize(
    ("left", "code"),
    [
        ([], "ok"),
        ([Entry(1001, GIB, 9e9)], "ok"),
        ([Entry(1001, GIB, 9e9), Entry(1002, 1, 9e9)], "scratch_not_clean"),
        ([Entry(1001, 0, 9e9)] * 1000, "ok"),
        ([Entry(1001, 0, 9e9)] * 1001, "scratch_not_clean"),
    ],
)
def test_judges_what_is_left(left: list[Entry], code: str) -> None:
    found = judge("/dev/shm", left, max_entries=1000, max_gib=1.0)
    assert found.code == code
    assert found.blame in (None, "job")


def counted(host: Host, **options: object) -> int:
    (found,) = run_check(load()["scratch"], host, {"paths": ("/tmp",), "max_entries": 0, **options}).findings
    return int(str(found.evidence.get("entries", -1)))


@AS_ROOT
def test_only_old_files_of_users_who_run_nothing_here_count(plant: Plant) -> None:
    """Rule 6: files of a job that runs are its own business."""
    names = ("gone", "runs", "job", "system", "new")
    host = plant({INFO: LOCAL, "/proc/77/comm": "python3\n", **{f"/tmp/{n}": "x" for n in names}})
    for name, uid in (("gone", 5001), ("runs", 5002), ("job", 5003), ("new", 5004)):
        os.chown(host.path(f"/tmp/{name}"), uid, uid)
    os.chown(host.path("/proc/77"), 5002, 5002)
    host.path("/tmp/link").symlink_to("/nowhere")
    host.job = JobAttempt(job_id=7, uid=5003)
    assert counted(host, min_hours=0.0) == 2  # gone, new
    assert counted(host, min_hours=1.0) == 0  # all are of this very minute


@pytest.mark.parametrize(
    ("tree", "text"),
    [
        ({INFO: LOCAL}, "does not exist"),
        ({INFO: LOCAL + "40 22 0:4 / /tmp rw - lustre m:/l rw\n", "/tmp/x": ""}, "shared file system"),
    ],
)
def test_a_folder_that_is_not_there_or_not_local_is_left_alone(
    plant: Plant, tree: dict[str, str | bytes], text: str
) -> None:
    """E17: a scratch folder on a file server is not walked."""
    (found,) = run_check(load()["scratch"], plant(tree), {"paths": ("/tmp",)}).findings
    assert (found.status, text in found.message) == ("skipped", True)


def space(free: int, inodes: int, total: int = 1000) -> os.statvfs_result:
    return os.statvfs_result((4096, 4096, total, free, free, total, inodes, inodes, 0, 255))


@pytest.mark.parametrize(
    ("free", "inodes", "expected"),
    [(500, 500, []), (19, 500, ["mount_space_low"]), (500, 19, ["mount_inodes_low"]), (0, 0, 2)],
)
def test_judges_the_space_of_a_shared_file_system(
    plant: Plant, monkeypatch: pytest.MonkeyPatch, free: int, inodes: int, expected: list[str] | int
) -> None:
    host = plant({INFO: LOCAL + "40 22 0:4 / /l rw - lustre m:/l rw\n", "/l/x": ""})
    monkeypatch.setattr(os, "statvfs", lambda path: space(free, inodes))
    found = [f for f in run_check(load()["mount_space"], host, {"paths": ("/l",)}).findings if f.status != "ok"]
    assert {(f.status, f.blame) for f in found} <= {("warn", "shared")}
    assert [f.code for f in found] == expected if isinstance(expected, list) else len(found) == expected


QUOTA = "/nodevet-commands/lfs_quota_-q_-u_1000_.scratch"
LUSTRE = LOCAL + "40 22 0:4 / /scratch rw - lustre m:/l rw\n"


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        ("       /scratch 1234    0       0       -      10       0       0       -\n", ["ok"]),
        ("       /scratch 940  900    1000       -      10       0     100       -\n", ["ok"]),
        ("       /scratch 1001* 900    1000       6d     96       0     100       -\n", ["quota_short"] * 2),
        ("       /scratch 960  1000      0       -      10       0       0       -\n", ["quota_short"]),
        ("Unexpected quotactl error: Operation not permitted\n", ["quota_unasked"]),
        (None, ["not_applicable"]),
    ],
)
def test_judges_the_quota_of_a_lustre_account(plant: Plant, answer: str | None, expected: list[str]) -> None:
    host = plant({INFO: LUSTRE} | ({} if answer is None else {QUOTA: answer}))
    found = run_check(load()["quota"], host, {"paths": ("/scratch",), "accounts": ("user:1000",)}).findings
    assert [f.code for f in found] == expected
    assert {f.status for f in found} <= {"ok", "warn", "unknown", "skipped"}


@pytest.mark.parametrize("account", ["1000", "user:alice", "owner:3", "user:"])
def test_an_account_that_is_none_is_our_trouble(plant: Plant, account: str) -> None:
    host = plant({INFO: LUSTRE})
    (found,) = run_check(load()["quota"], host, {"paths": ("/scratch",), "accounts": (account,)}).findings
    assert (found.status, found.blame) == ("unknown", "self")


def test_a_server_of_another_kind_is_not_asked(plant: Plant) -> None:
    host = plant({INFO: LOCAL + "40 22 0:4 / /home rw - nfs4 s:/h rw\n"})
    (found,) = run_check(load()["quota"], host, {"paths": ("/home",), "accounts": ("user:1",)}).findings
    assert found.status == "skipped"


def test_this_very_kernel_is_asked_and_answers_or_keeps_none() -> None:
    found = run_check(load()["quota"], Host(), {"paths": ("/",), "accounts": ("user:0",)}).findings
    assert {f.status for f in found} <= {"ok", "skipped", "unknown"}
    assert {f.code for f in found} <= {"ok", "not_applicable", "quota_unasked"}


def test_without_a_limit_nothing_is_short() -> None:
    assert [f.code for f in judge_quota("/x", "user:1", Usage(1 << 40, 0, 10**9, 0), 95)] == ["ok"]
