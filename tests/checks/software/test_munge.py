"""A munged that is away, silent or refusing is told apart from a clock that stepped."""

from __future__ import annotations

import os
import pwd
import shutil
import struct
import subprocess
import time
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from checks import Finding, Host
from checks.catalog import load
from checks.runner import run_check
from checks.software.munge import DECODED, ENCODED, MAGIC, SOCKET, VERSION
from tests.checks.software.daemons import abandoned, serving
from tests.fakes import Plant

HEAD = struct.Struct(">IBBBI")


def found(host: Host, **options: object) -> Finding:
    (seen,) = run_check(load()["munge"], host, options).findings
    return seen


def message(kind: int, error: int, words: str, rest: bytes = b"") -> bytes:
    text = words.encode()
    body = bytes([error, len(text)]) + text + rest
    return HEAD.pack(MAGIC, VERSION, kind, 0, len(body)) + body


MADE = message(ENCODED, 0, "", struct.pack(">I", 5) + b"CRED:")


class Munged:
    """Answers a request to make a credential with MADE, one to read it with ``read``."""

    def __init__(self, read: bytes, made: bytes = MADE) -> None:
        self.read, self.made = read, made
        self.asked: list[tuple[int, bytes]] = []

    def __call__(self, request: bytes) -> bytes:
        kind = HEAD.unpack(request[: HEAD.size])[2]
        self.asked.append((kind, request[HEAD.size :]))
        return self.made if kind == 2 else self.read


def test_a_credential_is_made_and_the_same_is_read(plant: Plant) -> None:
    host, munged = plant(), Munged(message(DECODED, 0, ""))
    with serving(host.path(SOCKET), munged):
        assert found(host).status == "ok"
    assert [kind for kind, _ in munged.asked] == [2, 4]
    assert munged.asked[1][1] == struct.pack(">I", 5) + b"CRED:"


@pytest.mark.parametrize(
    ("error", "words", "code", "blame"),
    [
        (15, "Expired credential", "munge_clock_stepped", "config"),
        (16, "Rewound credential", "munge_clock_stepped", "config"),
        (17, "Replayed credential", "munge_refuses", "node"),
        (1, "Internal error", "munge_refuses", "node"),
    ],
)
def test_words_about_time_mean_the_clock(plant: Plant, error: int, words: str, code: str, blame: str) -> None:
    """E118: an expired or rewound credential is the clock's; what MUNGE itself refuses is another matter."""
    host = plant()
    with serving(host.path(SOCKET), Munged(message(DECODED, error, words))):
        seen = found(host)
    assert (seen.code, seen.status, seen.blame) == (code, "warn", blame)
    assert words in seen.message


def test_what_cannot_be_made_is_not_read(plant: Plant) -> None:
    host, munged = plant(), Munged(b"", made=message(ENCODED, 7, "Out of memory"))
    with serving(host.path(SOCKET), munged):
        assert found(host).message == "munged could not make a credential: Out of memory"
    assert len(munged.asked) == 1


def test_absent_is_not_failed(plant: Plant) -> None:
    """Like E22: a cluster with another method has no munged, and one that lost it says so only where it must run."""
    assert found(plant()).status == "skipped"
    seen = found(plant(), required=True)
    assert (seen.code, seen.status, seen.blame) == ("munge_down", "fail", "node")


def test_a_socket_that_nobody_serves_is_told(plant: Plant) -> None:
    host = plant()
    abandoned(host.path(SOCKET))
    assert (found(host).code, found(host).status) == ("munge_silent", "warn")
    assert found(host, required=True).code == "munge_down"


def test_one_that_never_answers_is_left_after_its_time(plant: Plant) -> None:
    host = plant()
    with serving(host.path(SOCKET), lambda request: None):
        seen = found(host, seconds=0.2, required=True)
    assert (seen.code, seen.status) == ("munge_silent", "warn")


@pytest.mark.parametrize(
    "said", [b"", b"HTTP/1.1 400\r\n\r\n", HEAD.pack(MAGIC, 9, 3, 0, 2) + b"\0\0", HEAD.pack(MAGIC, 4, 3, 0, 1 << 30)]
)
def test_an_answer_of_another_kind_is_no_verdict(plant: Plant, said: bytes) -> None:
    host = plant()
    with serving(host.path(SOCKET), lambda request: said):
        seen = found(host)
    assert seen.status in ("unknown", "warn")


@settings(max_examples=30, deadline=None)
@given(st.binary(max_size=80))
def test_no_answer_drains(tmp_path_factory: pytest.TempPathFactory, said: bytes) -> None:
    root = tmp_path_factory.mktemp("m")
    with serving(root / SOCKET.lstrip("/"), lambda request: said):
        assert found(Host(root=root, simulated=True), required=True).status != "fail"


@pytest.mark.skipif(not shutil.which("munged") or os.geteuid() != 0, reason="needs munged and root to run it")
def test_the_real_munged_is_spoken_to(tmp_path: Path) -> None:
    account = pwd.getpwnam("munge")
    root = Path("/tmp") / f"nv-mu-{os.urandom(4).hex()}"
    where = root / SOCKET.lstrip("/")
    where.parent.mkdir(parents=True)
    (root / "key").write_bytes(os.urandom(1024))
    for path in (root, root / "run", where.parent, root / "key"):
        os.chown(path, account.pw_uid, account.pw_gid)
        path.chmod(0o400 if path.name == "key" else 0o755)
    argv = ["setpriv", "--reuid=munge", "--regid=munge", "--clear-groups", "munged", "-F", f"--socket={where}"]
    argv += [f"--{name}-file={root / name}" for name in ("key", "pid", "log", "seed")]
    munged = subprocess.Popen(argv, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        until = time.monotonic() + 30
        while not where.exists() and time.monotonic() < until and munged.poll() is None:
            time.sleep(0.05)
        assert found(Host(root=root, simulated=True), seconds=10.0).message == "credential made and read"
    finally:
        munged.terminate()
        munged.wait(30)
        shutil.rmtree(root)
