"""The pyslurm backend keeps the contract through a worker of its own, and survives whatever becomes of that one."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from slurm import errors
from slurm.commands import Commands
from slurm.proof import prove_writes
from slurm.pyslurm import process
from slurm.pyslurm.backend import WORKER, PySlurm
from slurm.pyslurm.process import Worker
from slurm.run import Ended, Run
from tests.slurm.contract import OURS, Contract
from tests.slurm.fake import FakeJob, FakeNode, FakeSlurm

STANDIN = Path(__file__).parent / "standin"
RUN = "import runpy, sys; sys.path.insert(0, sys.argv[1]); runpy.run_path(sys.argv[2], run_name='__main__')"
ARGV = [sys.executable, "-I", "-c", RUN, str(STANDIN), str(WORKER)]


@dataclass
class PyWorld:
    """A worker with the stand-in on its path; the commands' stand-in answers beside it."""

    conf: Path
    backend: PySlurm
    slurm: FakeSlurm
    node: str = "n2"

    def change(self, **settings: Any) -> None:
        self.conf.write_text(json.dumps({**json.loads(self.conf.read_text()), **settings}))

    def admin_drain(self, reason: str) -> None:
        nodes = json.loads(self.conf.read_text())["nodes"]
        nodes[self.node].update(state="IDLE+DRAIN", reason=reason, reason_user="root", reason_time=1796101828)
        self.change(nodes=nodes)

    def running_job(self) -> int:
        self.slurm.jobs[7] = FakeJob()
        return 7

    def pid(self) -> int:
        running = self.backend._worker._running
        assert running is not None
        return running.process.pid


def mirrored(slurm: FakeSlurm, conf: Path) -> Run:
    """The commands' stand-in over the same nodes as pyslurm's: both ask one slurmctld."""

    def run(argv: Sequence[str], *, env: Mapping[str, str], timeout: float, step: str) -> Ended:
        cluster = json.loads(conf.read_text())
        for name, kept in cluster["nodes"].items():
            base, *flags = kept["state"].split("+")
            slurm.nodes[name] = FakeNode(
                base, flags, kept["reason"] or "", comment=kept["comment"] or "", extra=kept["extra"] or ""
            )
        ended = slurm.run(argv, env=env, timeout=timeout, step=step)
        for name, node in slurm.nodes.items():
            words = {"state": "+".join([node.base, *node.flags]), "reason": node.reason or None}
            cluster["nodes"][name].update(words, comment=node.comment, extra=node.extra)
        conf.write_text(json.dumps(cluster))
        return ended

    return run


@pytest.fixture
def world(tmp_path: Path) -> Iterator[PyWorld]:
    conf = tmp_path / "slurm.conf"
    node = {"state": "IDLE", "reason": None, "partitions": ["main"], "configured_gres": {"gpu:h100": 8}}
    node |= {"extra": "", "comment": ""}
    conf.write_text(json.dumps({"nodes": {f"n{index}": node for index in (1, 2, 3)}}))
    slurm = FakeSlurm("24.11")
    backend = PySlurm(beside=Commands(mirrored(slurm, conf)), conf=conf, argv=ARGV)
    yield PyWorld(conf, backend, slurm)
    backend.close()


class TestStandIn(Contract):
    @pytest.fixture(name="world")
    def _world(self, world: PyWorld) -> PyWorld:
        return world


def test_pyslurm_never_enters_our_process(world: PyWorld) -> None:
    """DESIGN 6: its licence stays apart, and libslurm ends its process when it likes."""
    assert world.backend.node("n1").base == "IDLE"
    assert "pyslurm" not in sys.modules
    assert world.pid() != os.getpid()
    ours = [line for line in WORKER.read_text().splitlines() if line.lstrip().startswith(("import ", "from "))]
    assert not any(word in line for line in ours for word in ("slurm.", "msgspec", "checks", "daemon"))


def test_reads_what_pyslurm_tells(world: PyWorld) -> None:
    world.admin_drain("two\nlines")
    state = world.backend.node("n2")
    assert (state.gres, state.partitions, state.extra, state.version) == ("gpu:h100:8", ("main",), None, None)
    assert state.reason is not None and state.reason.at is not None
    assert (state.reason.text, int(state.reason.at.timestamp())) == ("two\nlines", 1796101828)


def test_one_worker_serves_many_questions_and_threads(world: PyWorld) -> None:
    """E122: few processes."""
    world.backend.nodes()
    pid = world.pid()
    threads = [threading.Thread(target=world.backend.node, args=("n1",)) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert world.pid() == pid


def test_a_worker_that_dies_is_replaced_after_a_pause(world: PyWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    """libslurm ends its process on a slurm.conf it cannot read: ours goes on and says so."""
    now = [0.0]
    world.backend._worker._clock = lambda: now[0]
    world.backend.nodes()
    world.change(fault="fatal")
    with pytest.raises(errors.Unreachable, match="ended with 1: fatal: Unable to process configuration file"):
        world.backend.nodes()
    world.change(fault="")
    with pytest.raises(errors.Unreachable, match="started again in 1 s"):
        world.backend.nodes()
    now[0] = 1.0
    assert len(world.backend.nodes()) == 3
    os.kill(world.pid(), signal.SIGKILL)
    with pytest.raises(errors.Unreachable, match="ended with -9"):
        world.backend.nodes()


def test_each_crash_doubles_the_pause(world: PyWorld) -> None:
    now = [0.0]
    world.backend._worker._clock = lambda: now[0]
    world.change(fault="fatal")
    pauses = []
    for _ in range(8):
        with pytest.raises(errors.Unreachable, match="ended with"):
            world.backend.nodes()
        pauses.append(world.backend._worker._not_before - now[0])
        now[0] += 60.0
    assert pauses == [1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 60.0, 60.0]


def test_a_worker_that_hangs_is_ended_at_the_deadline(world: PyWorld) -> None:
    world.backend.nodes()
    pid = world.pid()
    world.change(fault="hang")
    world.backend._timeout = 0.5
    start = time.monotonic()
    with pytest.raises(errors.Timeout, match=r"pyslurm node did not end within 0\.5 s"):
        world.backend.node("n1")
    assert time.monotonic() - start < 20
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


def test_what_libslurm_prints_is_no_answer(world: PyWorld) -> None:
    world.change(fault="prints")
    assert len(world.backend.nodes()) == 3


@pytest.mark.parametrize(
    ("settings", "kind", "words"),
    [
        ({"denied": True}, errors.PermissionDenied, "Invalid user id"),
        ({"fault": "unreachable"}, errors.Unreachable, "Unable to contact"),
        ({"fault": "huge"}, errors.SlurmError, "ValueError: x"),
        ({"nodes": {}}, errors.NotFound, "Invalid node name"),
    ],
)
def test_slurms_words_become_one_error(
    world: PyWorld, settings: dict[str, Any], kind: type[errors.SlurmError], words: str
) -> None:
    world.change(**settings)
    with pytest.raises(errors.SlurmError, match=words) as caught:
        world.backend.drain("n1", OURS)
    assert type(caught.value) is kind
    assert len(str(caught.value)) < 500
    if kind is errors.PermissionDenied:
        with pytest.raises(errors.PermissionDenied):
            prove_writes(world.backend)


def test_an_answer_without_nodes_is_our_trouble(world: PyWorld) -> None:
    world.change(nodes={})
    with pytest.raises(errors.BadAnswer):
        world.backend.nodes()


def test_a_python_without_pyslurm_is_named(world: PyWorld) -> None:
    world.change(fault="no import")
    with pytest.raises(errors.NoCommand, match=r"has no pyslurm: libslurmfull\.so"):
        world.backend.nodes()
    for argv in (["/nonexistent/python"], ["/bin/true"]):
        backend = PySlurm(beside=world.slurm.backend, argv=argv)
        with pytest.raises((errors.NoCommand, errors.Unreachable)):
            backend.nodes()


@pytest.mark.parametrize(
    ("script", "kind"),
    [
        ("printf '\\377\\377\\377\\377x'; sleep 20", errors.SlurmError),
        ("printf '\\0\\0\\0\\003abc'; sleep 20", errors.SlurmError),
        ("printf '\\0\\0\\0\\002[]'; sleep 20", errors.SlurmError),
        ("printf '\\0\\0'", errors.Unreachable),
    ],
)
def test_a_worker_that_answers_nonsense(script: str, kind: type[errors.SlurmError]) -> None:
    worker = Worker(["/bin/sh", "-c", script], {"PATH": "/usr/bin:/bin"})
    with pytest.raises(kind):
        worker.ask({"do": "load"}, timeout=10, step="pyslurm nodes")
    worker.close()


def test_a_worker_that_is_busy_with_others(world: PyWorld) -> None:
    world.backend.nodes()
    with world.backend._worker._lock, pytest.raises(errors.Busy, match="answered others"):
        world.backend._worker.ask({"do": "load"}, timeout=0.1, step="pyslurm nodes")


def test_the_worker_ends_with_us(world: PyWorld) -> None:
    """Its standard input closes when we are gone, however we went."""
    env = {"PATH": "/usr/bin:/bin", "SLURM_CONF": str(world.conf)}
    worker = subprocess.Popen(ARGV, env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert worker.stdin is not None and worker.stdout is not None
    worker.stdin.close()
    assert worker.wait(30) == 0
    worker.stdout.close()
    assert process.GRACE > 0
