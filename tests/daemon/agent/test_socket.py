"""The socket knows who asks, bounds what it takes, and lets Slurm in whatever users do."""

from __future__ import annotations

import contextlib
import json
import os
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

from daemon.agent.peers import Peer, Rights
from daemon.agent.socket_server import EVERYBODY, Doors, open_door
from tests.daemon.agent.central_server import until
from tests.daemon.agent.running import RunningAgent

NOBODY = 65534
ASK = """
import http.client, os, socket, sys
os.setgroups([]); os.setgid({gid}); os.setuid({uid})
c = http.client.HTTPConnection("agent"); c.sock = socket.socket(socket.AF_UNIX); c.sock.connect(sys.argv[1])
c.request(sys.argv[2], sys.argv[3], b""); a = c.getresponse(); print(a.status, a.read().decode())
"""
FLOOD = """
import os, socket, sys, time
os.setgroups([]); os.setgid(65534); os.setuid(65534)
held = []
print("flooding", flush=True)
end = time.monotonic() + float(sys.argv[2])
while time.monotonic() < end:
    s = socket.socket(socket.AF_UNIX)
    s.setblocking(False)
    try:
        s.connect(sys.argv[1]); s.send(b"POST /v1/prolog HTTP/1.1\\r\\n"); held.append(s)
    except OSError:
        s.close()
    if len(held) > 500:
        held = held[100:]
"""

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="another uid needs root")


def as_user(agent: RunningAgent, method: str, path: str, uid: int = NOBODY, gid: int = NOBODY) -> tuple[int, str]:
    code = ASK.format(uid=uid, gid=gid)
    done = subprocess.run(
        [sys.executable, "-I", "-c", code, str(agent.socket), method, path],
        capture_output=True, text=True, timeout=30, check=True,
    )  # fmt: skip
    status, _, body = done.stdout.partition(" ")
    return int(status), body


@needs_root
def test_rights_follow_the_peers_uid(agent: RunningAgent) -> None:
    for kind in ("prolog", "epilog", "health", "check"):
        assert as_user(agent, "POST", f"/v1/{kind}")[0] == 403
    status, body = as_user(agent, "GET", "/v1/status")
    assert status == 200
    assert json.loads(body)["simulated"] is True
    assert agent.status().hooks["admitted"] == 0


@needs_root
def test_users_cannot_crowd_out_a_hook(agent: RunningAgent) -> None:
    """A flood turns others of its kind away; on the socket that only root can reach nobody notices it."""
    flood = [
        subprocess.Popen([sys.executable, "-I", "-c", FLOOD, str(agent.socket), "20"], stdout=subprocess.PIPE)
        for _ in range(2)
    ]
    public, agent.socket_suffix = agent.socket_suffix, ".hook"
    try:
        for process in flood:
            assert process.stdout is not None and process.stdout.readline()
        until(lambda: agent.status().turned_away > 100, what="users turned away")
        answers = [agent.hook(SLURM_JOB_ID=str(100 + n)) for n in range(10)]
    finally:
        agent.socket_suffix = public
        for process in flood:
            process.kill()
            process.wait()
            assert process.stdout is not None
            process.stdout.close()
    assert {a.exit for a in answers} == {0}
    assert max(a.seconds for a in answers) < 5


@needs_root
def test_the_socket_for_hooks_is_roots_alone(agent: RunningAgent) -> None:
    hook = agent.base / "s.hook"
    assert hook.stat().st_mode & 0o777 == 0o600
    with pytest.raises(subprocess.CalledProcessError):
        subprocess.run(
            [sys.executable, "-I", "-c", ASK.format(uid=NOBODY, gid=NOBODY), str(hook), "GET", "/v1/status"],
            capture_output=True, timeout=30, check=True,
        )  # fmt: skip


def test_rights_read_local_files_only(tmp_path: Path) -> None:
    (tmp_path / "passwd").write_text("root:x:0:0::/:/bin/sh\nslurm:x:64030:64030::/:/bin/sh\n")
    (tmp_path / "group").write_text("nodevet:x:990:ann\nbroken line\nslurm:x:64030:\n")
    rights = Rights.read("slurm", "nodevet", own_uid=0, etc=tmp_path)
    assert rights.hooks(Peer(1, 64030, frozenset()))
    assert not rights.hooks(Peer(1, 1000, frozenset({0, 990})))
    assert rights.checks(Peer(1, 1000, frozenset({990})))
    assert not rights.checks(Peer(1, 1000, frozenset({991})))
    nobody = Rights.read("slurm", "nodevet", own_uid=0, etc=tmp_path / "missing")
    assert not nobody.checks(Peer(1, 1000, frozenset({990})))


def test_doors_count_per_user_and_in_all() -> None:
    doors = Doors(lambda peer: peer.uid == 0, per_user=2, all_users=3)
    ann, bob, root = (Peer(1, uid, frozenset()) for uid in (1, 2, 0))
    assert [doors.enter(p) for p in (ann, ann, ann, bob, bob)] == [True, True, False, True, False]
    assert all(doors.enter(root) for _ in range(10_000))
    doors.leave(ann)
    assert doors.enter(bob)
    assert doors.turned_away == 2


@pytest.mark.parametrize(
    "sent",
    [
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
        b"POST /v1/prolog HTTP/1.1\r\nHost: x\r\nContent-Length: -1\r\n\r\n",
        b"POST /v1/prolog HTTP/1.1\r\nHost: x\r\nX: " + b"a" * 40_000 + b"\r\n\r\n",
        b"GET " + b"/" * 40_000,
        b"\r\n" * 100,
    ],
)
def test_what_is_no_request_is_answered_or_dropped_and_costs_nothing(agent: RunningAgent, sent: bytes) -> None:
    with socket.socket(socket.AF_UNIX) as sock:
        sock.settimeout(15)
        sock.connect(str(agent.socket))
        sock.sendall(sent)
        sock.shutdown(socket.SHUT_WR)
        answer = sock.recv(65536)
    assert answer == b"" or b" 400 " in answer or b" 431 " in answer or b"Nodevet-Exit: 0" in answer, answer[:80]
    assert agent.hook().exit == 0


def test_one_byte_a_second_is_cut_off(agent: RunningAgent) -> None:
    with socket.socket(socket.AF_UNIX) as sock:
        sock.settimeout(20)
        sock.connect(str(agent.socket))
        started = time.monotonic()
        answer = b""
        while not answer and time.monotonic() - started < 18:
            sock.setblocking(False)
            try:
                sock.send(b"P")
                time.sleep(0.5)
                answer = sock.recv(4096)
            except BlockingIOError:
                continue
            except OSError:
                break
        assert time.monotonic() - started < 16
    assert agent.hook().exit == 0


def test_an_environment_that_is_too_large_is_admitted(agent: RunningAgent) -> None:
    answer = agent.raw("prolog", b"SLURM_JOB_ID=1\0" + b"X" * 300_000)
    assert (answer.status, answer.exit) == (200, 0)
    assert "262144 bytes" in answer.text
    # The answer may come, and the door be shut, while we are still sending.
    with contextlib.suppress(BrokenPipeError, ConnectionResetError):
        assert agent.request("POST", "/v1/prolog", b"X" * 20_000_000)[0] == 413
    assert agent.hook().exit == 0


def test_unknown_paths_and_methods_are_told(agent: RunningAgent) -> None:
    assert agent.request("GET", "/")[0] == 404
    assert agent.request("GET", "/v1/prolog")[0] == 405
    assert agent.request("POST", "/v1/status")[0] == 405
    assert agent.request("POST", "/v1/check", b'{"checks": "all"}')[0] == 400
    assert agent.request("POST", "/v1/check", b'{"checks": ["nope"]}')[0] == 400


def test_a_check_is_run_now_and_answered(agent: RunningAgent) -> None:
    status, _, body = agent.request("POST", "/v1/check", b'{"checks": ["gpu_count"]}')
    report = json.loads(body)
    assert status == 200
    assert (report["node"], report["verdict"], report["profile"]) == ("n1", "healthy", "hgx-h100")


def test_the_socket_is_open_to_all_and_its_folder_is_made(base: Path) -> None:
    before = os.umask(0o077)
    try:
        door = open_door(base / "run" / "s", mode=EVERYBODY)
    finally:
        os.umask(before)
    assert (base / "run").stat().st_mode & 0o777 == 0o755
    assert door.path.stat().st_mode & 0o777 == 0o666
    assert door.ours
    again = open_door(base / "run" / "s", mode=EVERYBODY)
    assert again.predecessor == os.getpid()
    assert (door.ours, again.ours) == (False, True)
    assert [p.name for p in (base / "run").iterdir()] == ["s"]
    for each in (door, again):
        each._sock.close()
