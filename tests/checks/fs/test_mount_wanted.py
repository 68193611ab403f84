"""A mount is compared with what the site has named, and a canary with what the site put there."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from checks import CHECKS, Host
from checks.fs.mount import mount
from checks.runner import run_check
from tests.fakes import Plant

INFO = "/proc/self/mountinfo"
NFS = "40 22 0:45 / /home rw,nosuid,relatime - nfs4 filer1:/export/home rw,vers=4.2,hard\n"
BIND = "41 22 8:2 /local/scratch /scratch rw,noexec - xfs /dev/md0 rw\n"


def codes(host: Host, path: str, **named: tuple[str, ...]) -> list[str]:
    return [f.code for f in mount(host, paths=(path,), **named)]


@pytest.mark.parametrize(
    ("named", "expected"),
    [
        ({}, []),
        ({"types": ("/home=nfs4",)}, []),
        ({"types": ("/home=nfs*",)}, []),
        ({"types": ("/home=nfs|nfs4",)}, []),
        ({"types": ("/home/=lustre",)}, ["mount_type_wrong"]),
        ({"types": ("/scratch=lustre",)}, []),
        ({"sources": ("/home=filer1:/export/home",)}, []),
        ({"sources": ("/home=filer?:*",)}, []),
        ({"sources": ("/home=filer2:*",)}, ["mount_source_wrong"]),
        ({"options": ("/home=rw,nosuid,vers=4.2",)}, []),
        ({"options": ("/home=dev,exec",)}, []),
        ({"options": ("/home=suid",)}, ["mount_option_wrong"]),
        ({"options": ("/home=noexec,vers=3",)}, ["mount_option_wrong", "mount_option_wrong"]),
    ],
)
def test_compares_what_is_named_and_nothing_else(
    plant: Plant, named: dict[str, tuple[str, ...]], expected: list[str]
) -> None:
    host = plant({INFO: NFS + BIND, "/home/file": "", "/scratch/file": ""})
    assert codes(host, "/home", **named) == expected


def test_a_bind_mount_is_named_as_findmnt_writes_it(plant: Plant) -> None:
    host = plant({INFO: NFS + BIND, "/scratch/file": ""})
    assert codes(host, "/scratch", sources=("/scratch=/dev/md0[/local/scratch]",)) == []
    assert codes(host, "/scratch", sources=("/scratch=/dev/md0",)) == []
    (found,) = mount(host, paths=("/scratch",), sources=("/scratch=/dev/md1",))
    assert found.message == "mounted from /dev/md0[/local/scratch], expected /dev/md1"


def test_differences_are_settings_and_drain_nobody(plant: Plant) -> None:
    host = plant({INFO: NFS.replace("rw,nosuid", "ro,nosuid"), "/home/file": ""})
    named = {"types": ("/home=lustre",), "sources": ("/home=x:/y",), "options": ("/home=rw,noexec",)}
    found = run_check(CHECKS["mount"], host, {"paths": ("/home",), **named}).findings
    assert [(f.code, f.status) for f in found] == [
        ("mount_type_wrong", "warn"),
        ("mount_source_wrong", "warn"),
        ("mount_read_only", "fail"),
        ("mount_option_wrong", "warn"),
    ]
    assert {f.blame for f in found} == {"config"}


@pytest.mark.parametrize("entry", ["/home", "home=nfs4", "="])
def test_an_entry_that_says_nothing_is_our_trouble(plant: Plant, entry: str) -> None:
    host = plant({INFO: NFS, "/home/file": ""})
    (found,) = run_check(CHECKS["mount"], host, {"paths": ("/home",), "types": (entry,)}).findings
    assert (found.status, found.blame) == ("unknown", "self")


@pytest.mark.parametrize(
    ("mounted", "expected"), [(NFS, "mount_turned_read_only"), (BIND, "disk_turned_read_only")], ids=["nfs", "disk"]
)
def test_a_mount_that_turns_read_only_is_told(plant: Plant, mounted: str, expected: str) -> None:
    path = mounted.split()[4]
    host = plant({INFO: mounted, f"{path}/file": ""})
    assert codes(host, path) == []
    host.path(INFO).write_text(mounted.replace("- nfs4 filer1:/export/home rw", "- nfs4 filer1:/export/home ro"))
    if "xfs" in mounted:
        host.path(INFO).write_text(mounted.replace("/dev/md0 rw", "/dev/md0 ro"))
    assert codes(host, path) == [expected]


def test_a_canary_is_read_and_compared(plant: Plant) -> None:
    """E116: presence alone proves nothing; what lies there must come back."""
    host = plant({INFO: NFS, "/home/.canary": "still here\n", "/home/x": ""})
    assert codes(host, "/home", canaries=("/home/.canary=still here",)) == []
    assert codes(host, "/home", canaries=("/home/.canary=",)) == []
    assert codes(host, "/home", canaries=("/elsewhere/.canary=x",)) == []
    (found,) = mount(host, paths=("/home",), canaries=("/home/.canary=other text",))
    assert (found.code, found.status, found.blame) == ("mount_canary_wrong", "warn", "shared")


@pytest.mark.parametrize("kind", ["absent", "link", "pipe", "folder"])
def test_what_lies_in_place_of_a_canary_is_never_followed_or_waited_for(plant: Plant, kind: str) -> None:
    """Rule 8: whoever may write there puts a link to a secret or a pipe without an end in its place."""
    host = plant({INFO: NFS, "/home/x": "", "/secret": "text"})
    place: Path = host.path("/home/.canary")
    if kind == "link":
        place.symlink_to(host.path("/secret"))
    elif kind == "pipe":
        os.mkfifo(place)
    elif kind == "folder":
        place.mkdir()
    assert codes(host, "/home", canaries=("/home/.canary=text",)) == ["mount_canary_wrong"]
