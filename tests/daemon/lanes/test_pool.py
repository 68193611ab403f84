"""A question to a lane always has an answer in time, and a stuck worker is never doubled."""

from __future__ import annotations

import asyncio
import dataclasses
import os
import time
from pathlib import Path

import pytest

from checks import Finding
from checks.runner import Outcome
from checks.wire import JobAttempt
from daemon.lanes import lane
from daemon.lanes.hang import judged
from daemon.lanes.lane import Hang
from daemon.lanes.memory import Stuck
from daemon.lanes.pool import LaneError, LanePool
from daemon.lanes.watch import Sight
from tests.daemon.lanes.harness import gone, instance, later, only, with_pool

FUNCTIONS = "tests.daemon.lanes.rogue"

pytestmark = pytest.mark.alone


def _pid(outcome: Outcome) -> int:
    finding = only(outcome.findings)
    assert finding.status == "ok", finding
    return int(finding.evidence["pid"] or 0)


def _trouble(outcome: Outcome) -> Finding:
    finding = only(outcome.findings)
    assert (finding.status, finding.blame) == ("unknown", "self"), finding
    return finding


def test_a_lane_answers_and_keeps_its_worker() -> None:
    async def body(pool: LanePool) -> None:
        first = await pool.run(instance("answer"), JobAttempt(job_id=7, restart_count=1))
        again = await pool.run(instance("answer"))
        other = await pool.run(instance("answer", lane="nvml"))
        assert _pid(first) == _pid(again) != _pid(other)
        assert first.findings[0].evidence["job"] == "7.1"
        assert again.findings[0].evidence["job"] is None
        assert first.findings[0].check == "rogue"
        assert pool.trouble == "" and pool.wedged() == ()

    with_pool(body)


def test_a_lane_holds_nothing_of_its_agent(tmp_path: Path) -> None:
    held = [os.open(tmp_path, os.O_RDONLY) for _ in range(3)]
    for descriptor in held:
        os.set_inheritable(descriptor, True)

    async def body(pool: LanePool) -> None:
        await pool.run(instance("answer", lane="other"))
        evidence = (await pool.run(instance("answer"))).findings[0].evidence
        # 0 to 2 are /dev/null, 3 the lane's own socket, 4 the listing itself.
        assert (evidence["fds"], evidence["cwd"]) == ("0,1,2,3,4", "/")

    try:
        with_pool(body)
    finally:
        for descriptor in held:
            os.close(descriptor)


def test_a_lane_that_misses_its_deadline_is_left_alone(fifo: Path) -> None:
    async def body(pool: LanePool) -> None:
        pid = _pid(await pool.run(instance("answer")))
        first = _trouble(await pool.run(instance("open", path=str(fifo))))
        assert first.code == "lane_silent" and first.evidence["pid"] == pid
        assert pool.wedged() == ("fs:/scratch",)
        started = time.monotonic()
        for _ in range(5):
            assert only((await pool.run(instance("answer"))).findings).status != "ok"
        assert time.monotonic() - started < 3.0
        assert not gone(pid)
        assert _pid(await pool.run(instance("answer", lane="nvml"))) != pid

    with_pool(body)


def test_the_second_look_makes_it_a_finding_about_the_mount(fifo: Path) -> None:
    async def body(pool: LanePool) -> None:
        assert _trouble(await pool.run(instance("open", path=str(fifo)))).evidence["observations"] == 1
        await asyncio.sleep(0.4)
        finding = only((await pool.run(instance("answer"))).findings)
        assert (finding.code, finding.status, finding.blame) == ("mount_hung", "fail", "shared")
        assert finding.target == "/scratch" and finding.check == "rogue"

    with_pool(body)


def test_a_worker_that_only_computes_or_sleeps_accuses_nobody() -> None:
    async def body(pool: LanePool) -> None:
        for _ in range(3):
            assert _trouble(await pool.run(instance("sleep", seconds=30.0, lane="nvml"))).code == "lane_silent"
            await asyncio.sleep(0.4)

    with_pool(body)


def test_a_worker_that_comes_forward_is_slow_not_hung(monkeypatch: pytest.MonkeyPatch) -> None:
    async def body(pool: LanePool) -> None:
        for _ in range(4):
            slow = _trouble(await pool.run(instance("crawl", lane="nvml")))
            assert slow.code == "lane_silent" and slow.evidence["observations"] == 1
            await asyncio.sleep(0.4)
        monkeypatch.setattr(lane, "MOVING_LIMIT", 1.0)
        assert only((await pool.run(instance("answer", lane="nvml"))).findings).code == "gpu_driver_hung"

    with_pool(body)


@pytest.mark.parametrize(
    ("name", "channel", "code"),
    [
        ("nvml", "os_acquire_mutex", "gpu_driver_hung"),
        ("nvml", "folio_wait_bit_common", "lane_silent"),
        ("fs:/scratch", "folio_wait_bit_common", "mount_hung"),
        ("rdma", "cmd_exec", "hca_driver_hung"),
        ("memory", "folio_wait_bit_common", "lane_silent"),
    ],
)
def test_waiting_for_memory_accuses_no_device(name: str, channel: str, code: str) -> None:
    seen = Sight(alive=True, state="D", channel=channel, in_kernel=True)
    hang = Hang(Stuck(lane=name, pid=1, start=1, check="c"), since=0.0, observations=2, sight=seen)
    finding = judged(hang, "x", 9.0)
    assert finding.code == code and (finding.blame == "self") == (code == "lane_silent")


def test_without_a_control_lane_nothing_is_accused() -> None:
    hang = Hang(Stuck(lane="nvml", pid=1, start=1), since=0.0, observations=9, sight=None)
    assert judged(hang, "node", 99.0).blame == "self"


def test_a_simulated_driver_hangs_in_a_sleep() -> None:
    async def body(pool: LanePool) -> None:
        await pool.run(instance("sleep", seconds=30.0, lane="nvml"))
        await asyncio.sleep(0.4)
        finding = only((await pool.run(instance("answer", lane="nvml"))).findings)
        assert (finding.code, finding.blame) == ("gpu_driver_hung", "node")

    with_pool(body, spec={"simulated": True})


def test_a_late_answer_frees_the_lane_and_its_worker_goes_on(fifo: Path) -> None:
    async def body(pool: LanePool) -> None:
        pid = _pid(await pool.run(instance("answer")))
        await pool.run(instance("open", path=str(fifo)))
        assert pool.wedged()
        os.close(os.open(fifo, os.O_WRONLY))
        await later(lambda: not pool.wedged(), "the lane did not recover")
        assert _pid(await pool.run(instance("answer"))) == pid

    with_pool(body)


def test_a_stuck_worker_that_ends_frees_the_lane(fifo: Path) -> None:
    async def body(pool: LanePool) -> None:
        pid = _pid(await pool.run(instance("answer")))
        await pool.run(instance("open", path=str(fifo)))
        os.kill(pid, 15)
        await later(lambda: not pool.wedged(), "the lane did not recover")
        assert _pid(await pool.run(instance("answer"))) != pid

    with_pool(body)


def test_waiting_behind_another_question_is_our_own_trouble() -> None:
    async def body(pool: LanePool) -> None:
        slow = asyncio.ensure_future(pool.run(instance("sleep", seconds=1.0, timeout=10.0)))
        await asyncio.sleep(0.3)
        busy = _trouble(await pool.run(instance("answer"), timeout=0.2))
        assert busy.code in ("lane_busy", "lane_slow")
        assert pool.wedged() == ()
        assert only((await slow).findings).status == "ok"

    with_pool(body)


def test_a_caller_short_of_time_does_not_condemn_the_lane() -> None:
    async def body(pool: LanePool) -> None:
        await pool.run(instance("answer"))
        short = _trouble(await pool.run(instance("sleep", seconds=0.5, timeout=10.0), timeout=0.1))
        assert short.code == "lane_slow"
        assert pool.wedged() == ()
        assert _pid(await pool.run(instance("answer", timeout=10.0)))

    with_pool(body)


def test_a_lane_that_is_asked_once_an_hour_keeps_no_worker() -> None:
    async def body(pool: LanePool) -> None:
        hourly = dataclasses.replace(instance("answer", lane="disk", timeout=10.0), interval=3600.0)
        often = instance("answer", lane="nvml", timeout=10.0)
        pids = [_pid(await pool.run(each)) for each in (hourly, hourly, often, often)]
        assert pids[0] != pids[1] and pids[2] == pids[3]
        await later(lambda: gone(pids[1]), "the worker was kept")

    with_pool(body)


def test_many_are_asked_at_once_and_the_missing_are_unknown() -> None:
    async def body(pool: LanePool) -> None:
        lanes = [instance("sleep", seconds=0.5, timeout=30.0, lane=f"l{n}") for n in range(6)]
        for each in lanes:
            await pool.run(instance("answer", lane=each.lane, timeout=10.0))
        started = time.monotonic()
        outcomes = await pool.run_many([*lanes, instance("sleep", seconds=60.0, timeout=90.0)], None, 2.0)
        assert time.monotonic() - started < 2.9
        assert [only(o.findings).status for o in outcomes] == ["ok"] * 6 + ["unknown"]

    with_pool(body)


@pytest.mark.parametrize(
    ("do", "words"),
    [
        ("crash", "ended during rogue by signal 11"),
        ("end", "ended during rogue with status 3"),
        ("garble", "reply is not one"),
        ("flood", "4294967295 bytes, at most"),
    ],
)
def test_a_broken_worker_is_replaced_after_a_pause(do: str, words: str) -> None:
    async def body(pool: LanePool) -> None:
        first = _pid(await pool.run(instance("answer")))
        assert words in _trouble(await pool.run(instance(do))).message
        assert _trouble(await pool.run(instance("answer"))).code == "lane_broken"
        await later(lambda: gone(first), "the broken worker did not end")
        await asyncio.sleep(0.3)
        assert _pid(await pool.run(instance("answer"))) != first

    with_pool(body)


def test_what_a_check_raises_and_too_large_replies_are_unknown() -> None:
    async def body(pool: LanePool) -> None:
        assert _trouble(await pool.run(instance("raise"))).code == "check_error"
        assert "are taken" in _trouble(await pool.run(instance("huge", timeout=20.0))).message
        assert "rouge" in _trouble(await pool.run(instance("answer", rouge="x"))).message
        assert only((await pool.run(instance("answer"))).findings).status == "ok"

    with_pool(body)


def test_a_function_is_called_in_a_lane() -> None:
    async def body(pool: LanePool) -> None:
        look = "daemon.lanes.watch:look"
        assert await pool.call("control", look, {"pid": 1, "start": 0}, timeout=5.0) == {"alive": False}
        for function, words in ((f"{FUNCTIONS}:cut_short", "not one of ours"), ("daemon.lanes.watch:no", "no")):
            with pytest.raises(LaneError, match=words):
                await pool.call("control", function, timeout=5.0)

    with_pool(body)


def test_a_caller_that_gives_up_leaves_the_lane_in_order() -> None:
    async def body(pool: LanePool) -> None:
        await pool.run(instance("answer"))
        for asking in (
            asyncio.ensure_future(pool.run(instance("sleep", seconds=0.3, timeout=10.0))),
            asyncio.ensure_future(
                pool.call("fs:/scratch", "daemon.lanes.watch:look", {"pid": 1, "start": 0}, timeout=5.0)
            ),
        ):
            await asyncio.sleep(0.05)
            asking.cancel()
        assert _pid(await pool.run(instance("answer", timeout=10.0)))

    with_pool(body)


def test_a_lane_in_which_nothing_applies_holds_no_worker() -> None:
    """A node without parallel filesystems has no process that waits for them."""

    async def body(pool: LanePool) -> None:
        seldom = dataclasses.replace(instance("skip", lane="storage", timeout=30.0), interval=120.0)
        often = dataclasses.replace(instance("skip", lane="rdma", timeout=30.0), interval=30.0)
        told = [only((await pool.run(one)).findings).message for one in (seldom, seldom, often, often)]
        assert told[0] != told[1]
        assert told[2] == told[3]
        applies = dataclasses.replace(seldom, name="rogue:other", options={"do": "answer"})
        pid = only((await pool.run(applies)).findings).evidence["pid"]
        assert only((await pool.run(seldom)).findings).message == f"pid {pid}"

    with_pool(body)
