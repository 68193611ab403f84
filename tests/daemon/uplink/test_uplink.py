"""The uplink's worker may hang, die or be refused: the agent has its answer or its error in time."""

from __future__ import annotations

import asyncio
import os
import signal
import time
from collections.abc import Awaitable, Callable, Iterator
from datetime import datetime, timezone
from pathlib import Path

import pytest

from checks.wire import (
    Decision,
    JobAttempt,
    Order,
    PermitRequest,
    PollAnswer,
    PollRequest,
    Report,
)
from daemon.agent.identity import Identity
from daemon.agent.nursery import Nursery
from daemon.outbox import writer
from daemon.outbox.outbox import Outbox
from daemon.uplink import uplink as module
from daemon.uplink import worker
from daemon.uplink.uplink import Uplink, UplinkError
from daemon.uplink.worker import Address
from tests.daemon.agent.central_server import Mode, Service

JOB = JobAttempt(job_id=7, restart_count=0)


@pytest.fixture
def service() -> Iterator[Service]:
    made = Service()
    yield made
    if not made.ended.is_set():
        made.close()


@pytest.fixture
def nursery() -> Iterator[Nursery]:
    made = Nursery.start({"outbox": writer.serve, "uplink": worker.serve})
    yield made
    made.close()
    os.waitpid(made.pid, 0)


Body = Callable[[Uplink, Outbox], Awaitable[None]]


def run(nursery: Nursery, tmp_path: Path, url: str, body: Body, on_poll: list[PollAnswer] | None = None) -> None:
    token = tmp_path / "token"
    token.write_text("tok\n")

    async def inside() -> None:
        me = Identity("c", "n1")
        box = Outbox(nursery, tmp_path / "outbox", me.incarnation)
        await box.open()

        async def polled(answer: PollAnswer) -> None:
            if on_poll is not None:
                on_poll.append(answer)

        def beat() -> PollRequest:
            return PollRequest(cluster="c", node="n1", incarnation=me.incarnation, wait=0.3)

        link = Uplink(nursery, Address(url=url, token_file=str(token)), me, box, beat, polled)
        try:
            await body(link, box)
        finally:
            await link.stop(0.5)
            if box._channel is not None:
                box._channel.close()

    asyncio.run(inside())


def permit() -> PermitRequest:
    decision = Decision(verdict="faulty", wanted="refuse", codes=("gpu_lost",))
    return PermitRequest(cluster="c", node="n1", incarnation="i", job=JOB, decision=decision, findings=(), wait=1.0)


def report() -> Report:
    now = datetime.now(timezone.utc)
    return Report(cluster="c", node="n1", incarnation="", sequence=0, occasion="interval", started_at=now, seconds=0)


def test_reports_are_sent_as_they_come(nursery: Nursery, tmp_path: Path, service: Service) -> None:
    async def body(link: Uplink, box: Outbox) -> None:
        link.start()
        for _ in range(5):
            box.add(report())
        await _until(lambda: len(service.reports) == 5 and box.waiting == 0)
        assert link.connected

    run(nursery, tmp_path, service.url, body)


def test_reports_wait_out_an_absence(nursery: Nursery, tmp_path: Path, service: Service) -> None:
    service.mode = "500"

    async def body(link: Uplink, box: Outbox) -> None:
        link.start()
        box.add(report())
        await _until(lambda: link.state == "unreachable")
        assert "status 500" in link.last_error
        service.mode = "ok"
        await _until(lambda: box.waiting == 0)
        assert [r.sequence for r in service.reports] == [1]

    run(nursery, tmp_path, service.url, body)


@pytest.mark.parametrize("mode", ["hang", "drip", "500", "garbage", "forbidden", "close"])
def test_a_question_ends_in_its_time(nursery: Nursery, tmp_path: Path, service: Service, mode: Mode) -> None:
    service.mode = mode

    async def body(link: Uplink, box: Outbox) -> None:
        started = time.monotonic()
        with pytest.raises(UplinkError) as caught:
            await link.permit(permit(), 1.0)
        assert time.monotonic() - started < 2.5
        expected = {"garbage": "bad_answer", "forbidden": "not_allowed"}.get(mode, "unreachable")
        assert caught.value.kind == expected

    run(nursery, tmp_path, service.url, body)


def test_a_hung_worker_is_replaced(
    nursery: Nursery, tmp_path: Path, service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "REPLACE_AFTER", 0.0)
    monkeypatch.setattr(module, "GRACE", 0.2)

    async def body(link: Uplink, box: Outbox) -> None:
        assert (await link.permit(permit(), 5.0)).granted
        first = link._pid
        os.kill(first, signal.SIGSTOP)
        with pytest.raises(UplinkError):
            await link.permit(permit(), 0.5)
        await _until(lambda: link.replaced == 1)
        assert (await link.permit(permit(), 5.0)).granted
        assert link._pid != first
        await _until(lambda: not _alive(first))

    run(nursery, tmp_path, service.url, body)


def test_a_dead_worker_is_replaced(
    nursery: Nursery, tmp_path: Path, service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "REPLACE_AFTER", 0.0)

    async def body(link: Uplink, box: Outbox) -> None:
        await link.permit(permit(), 5.0)
        os.kill(link._pid, signal.SIGKILL)
        await _until(lambda: link._channel is not None and not link._channel.open)
        assert (await link.permit(permit(), 5.0)).granted

    run(nursery, tmp_path, service.url, body)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root has rights to give up")
def test_the_worker_gives_up_roots_rights(nursery: Nursery, tmp_path: Path, service: Service) -> None:
    async def body(link: Uplink, box: Outbox) -> None:
        await link.permit(permit(), 5.0)
        status = Path(f"/proc/{link._pid}/status").read_text()
        assert "\nUid:\t0" not in status
        assert "\nGroups:\t \n" in status

    run(nursery, tmp_path, service.url, body)


def test_without_a_token_file_nothing_is_asked(nursery: Nursery, tmp_path: Path, service: Service) -> None:
    async def body(link: Uplink, box: Outbox) -> None:
        (tmp_path / "token").unlink()
        with pytest.raises(UplinkError, match="not configured"):
            await link.permit(permit(), 2.0)
        assert service.permits == []

    run(nursery, tmp_path, service.url, body)


def test_polls_bring_orders_and_do_not_spin(nursery: Nursery, tmp_path: Path, service: Service) -> None:
    got: list[PollAnswer] = []
    service.poll = PollAnswer(orders=(Order(id="o1", kind="check"),))

    async def body(link: Uplink, box: Outbox) -> None:
        link.start()
        await _until(lambda: any(a.orders for a in got))
        before = len(service.polls)
        await asyncio.sleep(2.0)
        assert len(service.polls) - before <= 6

    run(nursery, tmp_path, service.url, body, got)


async def _until(condition: Callable[[], object], seconds: float = 15.0) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "condition did not come"
        await asyncio.sleep(0.02)


def _alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False
