"""Zygote and lanes end with their agent, are collected, and a stuck one is remembered by the next agent."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import subprocess
import threading
import time
from pathlib import Path

import pytest

from daemon.lanes.pool import LanePool
from daemon.lanes.process import stat_fields
from daemon.lanes.wire import HostSpec
from daemon.lanes.zygote import Zygote
from tests.daemon.lanes.harness import PRELOAD, end, eventually, gone, instance, later, only, with_pool, zygote

pytestmark = pytest.mark.alone


async def _two_lanes(pool: LanePool, fifo: Path, state: Path | None = None) -> list[int]:
    """Pids of an idle lane and of one that hangs in ``fifo``."""
    idle = only((await pool.run(instance("answer", lane="nvml", timeout=10.0))).findings)
    stuck = only((await pool.run(instance("answer", timeout=10.0))).findings)
    await pool.run(instance("open", path=str(fifo)))
    if state is not None:
        await later(lambda: any((state / "lanes").glob("*.json")), "the stuck worker was not written down")
    return [int(f.evidence["pid"] or 0) for f in (idle, stuck)]


def _agent(tell: socket.socket, fifo: Path, state: Path | None) -> None:
    """An agent of its own process that reports its zygote and lanes and then only waits."""
    ancestor = Zygote.start(HostSpec(), PRELOAD)

    async def body() -> None:
        pids = await _two_lanes(LanePool(ancestor, state_dir=state), fifo, state)
        tell.sendall(" ".join(map(str, [ancestor.pid, *pids])).encode())
        await asyncio.sleep(60)

    try:
        asyncio.run(body())
    finally:
        os._exit(1)


def _start_agent(fifo: Path, state: Path | None = None) -> tuple[int, list[int]]:
    eventually(lambda: threading.active_count() == 1, "threads of another test are still there")
    ours, theirs = socket.socketpair()
    pid = os.fork()
    if pid == 0:
        _agent(theirs, fifo, state)
    theirs.close()
    with ours:
        ours.settimeout(30)
        return pid, [int(p) for p in ours.recv(200).split()]


def test_everything_ends_when_the_agent_is_killed(fifo: Path) -> None:
    agent, processes = _start_agent(fifo)
    assert len(processes) == 3
    os.kill(agent, signal.SIGKILL)
    os.waitpid(agent, 0)
    eventually(lambda: all(map(gone, processes)), "zygote or lanes outlived their agent")


def test_closing_ends_everything_without_waiting_for_the_stuck(fifo: Path) -> None:
    """E36, E114: a stuck holder of a driver is asked to end by TERM, and nobody waits for it."""
    seen: list[int] = []

    async def body(pool: LanePool) -> float:
        seen.extend(await _two_lanes(pool, fifo))
        return time.monotonic()

    closing = with_pool(body)
    assert time.monotonic() - closing < 5.0
    eventually(lambda: all(map(gone, seen)), "a lane outlived its pool")


def test_ended_workers_are_collected() -> None:
    async def body(pool: LanePool) -> None:
        for _ in range(3):
            finding = only((await pool.run(instance("answer", timeout=10.0))).findings)
            pid = int(finding.evidence["pid"] or 0)
            os.kill(pid, signal.SIGTERM)
            await later(lambda pid=pid: not stat_fields(pid), "a worker stayed a zombie")  # type: ignore[misc]

    with_pool(body)


def test_a_lost_zygote_is_told_and_breaks_nothing(fifo: Path) -> None:
    async def body(pool: LanePool) -> None:
        first = only((await pool.run(instance("answer"))).findings)
        os.kill(int(first.evidence["ppid"] or 0), signal.SIGKILL)
        await asyncio.wait_for(pool.lost.wait(), 10)
        await later(lambda: gone(int(first.evidence["pid"] or 0)), "a lane outlived its zygote")
        outcome = only((await pool.run(instance("answer"))).findings)
        assert (outcome.status, outcome.blame, outcome.code) == ("unknown", "self", "lane_broken")
        fresh = only((await pool.run(instance("answer", lane="new"))).findings)
        assert "zygote has ended" in fresh.message

    with_pool(body)


def test_the_next_agent_starts_no_second_worker(fifo: Path, tmp_path: Path) -> None:
    stranger = os.fork()
    if stranger == 0:
        signal.pause()
        os._exit(0)
    # What an earlier agent wrote about a worker that still lives.
    start, boot = int(stat_fields(stranger)[19]), Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    record = f'{{"lane":"fs:/scratch","pid":{stranger},"start":{start},"boot_id":"{boot}","check":"mount"}}'
    place = tmp_path / "lanes"
    place.mkdir()
    (place / f"{stranger}-{start}.json").write_text(record)
    (place / "1-1.json").write_text(record.replace(boot, "another boot"))
    (place / "2-2.json").write_text("{")

    async def body(pool: LanePool) -> None:
        finding = only((await pool.run(instance("answer"))).findings)
        assert finding.status != "ok" and finding.evidence["pid"] == stranger
        assert pool.wedged() == ("fs:/scratch",)
        assert [p.name for p in place.iterdir()] == [f"{stranger}-{start}.json"]
        os.kill(stranger, signal.SIGTERM)
        os.waitpid(stranger, 0)
        await asyncio.sleep(0.4)
        assert only((await pool.run(instance("answer"))).findings).status == "ok"
        assert pool.wedged() == ()
        await later(lambda: not list(place.glob("*.json")), "the ended worker was not forgotten")

    try:
        with_pool(body, tmp_path)
    finally:
        end(stranger)


def test_a_stuck_worker_is_written_down_and_forgotten(fifo: Path, tmp_path: Path) -> None:
    async def body(pool: LanePool) -> None:
        _, stuck = await _two_lanes(pool, fifo, tmp_path)
        assert [p.name.partition("-")[0] for p in (tmp_path / "lanes").glob("*.json")] == [str(stuck)]
        os.close(os.open(fifo, os.O_WRONLY))
        await later(lambda: not list((tmp_path / "lanes").glob("*.json")), "the late answer did not clear the record")

    with_pool(body, tmp_path)


@pytest.mark.parametrize("kind", ["missing", "file", "fifo"])
def test_a_useless_state_directory_breaks_no_check(kind: str, fifo: Path, tmp_path: Path) -> None:
    state = tmp_path / "state"
    if kind == "file":
        state.write_text("not a directory")
    elif kind == "fifo":
        # Reading what was written down hangs, as on a dead disk.
        (state / "lanes").mkdir(parents=True)
        os.mkfifo(state / "lanes" / "1-1.json")

    async def body(pool: LanePool) -> None:
        assert only((await pool.run(instance("answer", timeout=10.0))).findings).status == "ok"
        assert only((await pool.run(instance("open", path=str(fifo)))).findings).code == "lane_silent"
        assert only((await pool.run(instance("answer", lane="nvml", timeout=10.0))).findings).status == "ok"

    with_pool(body, state)


def test_a_zygote_starts_only_before_threads_and_loops() -> None:
    async def inside() -> None:
        zygote()

    with pytest.raises(RuntimeError, match="before any thread"):
        asyncio.run(inside())
    stop = threading.Event()
    thread = threading.Thread(target=stop.wait)
    thread.start()
    try:
        with pytest.raises(RuntimeError, match="before any thread"):
            Zygote.start(HostSpec())
    finally:
        stop.set()
        thread.join()


def test_the_lane_that_writes_down_rests_afterwards(fifo: Path, tmp_path: Path) -> None:
    async def body(pool: LanePool) -> None:
        await _two_lanes(pool, fifo, tmp_path)
        await later(lambda: "nv-memory" not in _names(pool), "the memory lane kept its worker")
        assert {"nv-nvml", "nv-fs:/scratch", "nv-control"} <= _names(pool)

    def _names(pool: LanePool) -> set[str]:
        children = Path(f"/proc/{ancestor[0]}/task/{ancestor[0]}/children").read_text().split()
        return {Path(f"/proc/{pid}/comm").read_text().strip() for pid in children if not gone(int(pid))}

    ancestor: list[int] = []

    async def found(pool: LanePool) -> None:
        finding = only((await pool.run(instance("answer", lane="nvml"))).findings)
        ancestor.append(int(finding.evidence["ppid"] or 0))
        await body(pool)

    with_pool(found, tmp_path)


@pytest.mark.faults
@pytest.mark.skipif(os.geteuid() != 0, reason="mounting needs root")
@pytest.mark.parametrize("options", ["size=4k,nr_inodes=1", "size=4k,ro"])
def test_a_full_or_read_only_disk_breaks_no_check(fifo: Path, tmp_path: Path, options: str) -> None:
    state = tmp_path / "disk"
    state.mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(state)], check=False).returncode != 0:
        pytest.skip("no tmpfs can be mounted here")

    async def body(pool: LanePool) -> None:
        assert only((await pool.run(instance("answer", timeout=10.0))).findings).status == "ok"
        assert only((await pool.run(instance("open", path=str(fifo)))).findings).code == "lane_silent"
        assert pool.wedged() == ("fs:/scratch",)
        assert only((await pool.run(instance("answer", lane="nvml", timeout=10.0))).findings).status == "ok"

    try:
        with_pool(body, state)
    finally:
        subprocess.run(["umount", "-l", str(state)], check=True)
