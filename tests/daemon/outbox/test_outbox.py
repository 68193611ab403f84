"""The outbox takes reports at once, and its process does the disk work."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Awaitable, Callable, Iterator
from datetime import datetime, timezone
from pathlib import Path

import msgspec
import pytest

from checks.wire import Decision, JobAttempt, Report
from daemon.agent.nursery import Nursery
from daemon.outbox import outbox as module
from daemon.outbox import writer
from daemon.outbox.outbox import Batch, Outbox
from daemon.outbox.segments import read

NOW = datetime(2026, 12, 1, tzinfo=timezone.utc)


def report(note: str = "", refuse: bool = False) -> Report:
    decision = Decision(verdict="faulty", wanted="refuse", allowed="refuse") if refuse else None
    job = JobAttempt(job_id=1, restart_count=0) if refuse else None
    return Report(
        cluster="c", node="n1", incarnation="", sequence=0, occasion="prolog", started_at=NOW, seconds=0,
        notes=(note,), decision=decision, job=job,
    )  # fmt: skip


@pytest.fixture
def nursery() -> Iterator[Nursery]:
    made = Nursery.start({"outbox": writer.serve})
    yield made
    made.close()
    os.waitpid(made.pid, 0)


def run(nursery: Nursery, root: Path, body: Callable[[Outbox], Awaitable[None]], name: str = "a") -> None:
    async def inside() -> None:
        box = Outbox(nursery, root, name)
        await box.open()
        await body(box)
        if box._channel is not None:
            box._channel.close()

    asyncio.run(inside())


async def gone(path: Path) -> None:
    """Wait for the disk: an acknowledgement reaches it in its own time."""
    while path.exists():
        await asyncio.sleep(0.01)


def notes(batch: Batch | None) -> list[str]:
    assert batch is not None
    return [msgspec.json.decode(raw, type=Report).notes[0] for _, raw in batch.reports]


def test_a_refusal_is_on_disk_when_it_is_said_to_be(nursery: Nursery, tmp_path: Path) -> None:
    async def body(box: Outbox) -> None:
        assert await box.durable(report("no", refuse=True))
        (path,) = (tmp_path / "a").glob("*.seg")
        (record,) = read(path)[1]
        assert record.keep
        assert msgspec.json.decode(record.payload, type=Report).sequence == 1

    run(nursery, tmp_path, body)


def test_reports_wait_in_order_until_acknowledged(nursery: Nursery, tmp_path: Path) -> None:
    async def body(box: Outbox) -> None:
        written = [box.add(report(str(n))) for n in range(5)]
        assert notes(await box.next_batch()) == ["0", "1", "2", "3", "4"]
        assert all(await asyncio.gather(*written))
        batch = await box.next_batch()
        assert batch is not None
        box.acknowledge(batch, 3)
        assert box.waiting == 2
        assert notes(await box.next_batch()) == ["3", "4"]
        box.acknowledge(batch, 5)
        assert await box.next_batch() is None
        await asyncio.sleep(0.1)

    run(nursery, tmp_path, body)


def test_earlier_incarnations_are_sent_first(nursery: Nursery, tmp_path: Path) -> None:
    async def first(box: Outbox) -> None:
        await asyncio.gather(*(box.add(report(f"old {n}")) for n in range(3)))

    async def second(box: Outbox) -> None:
        box.add(report("new"))
        batch = await box.next_batch()
        assert batch is not None and batch.incarnation == "a"
        assert notes(batch) == ["old 0", "old 1", "old 2"]
        box.acknowledge(batch, batch.last)
        assert notes(await box.next_batch()) == ["new"]
        await asyncio.wait_for(gone(tmp_path / "a"), 30)

    run(nursery, tmp_path, first, "a")
    run(nursery, tmp_path, second, "b")
    assert sorted(p.name for p in tmp_path.iterdir()) == ["b"]


def test_what_memory_cannot_hold_is_read_back_from_disk(
    nursery: Nursery, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "MEMORY_BYTES", 2000)

    async def body(box: Outbox) -> None:
        for n in range(60):
            assert await box.durable(report(str(n), refuse=True), 5)
        assert box.lost == 0
        seen: list[str] = []
        while (batch := await box.next_batch()) is not None:
            seen += notes(batch)
            box.acknowledge(batch, batch.last)
        assert seen == [str(n) for n in range(60)]

    run(nursery, tmp_path, body)


def test_without_a_disk_memory_is_bounded_and_loss_is_counted(
    nursery: Nursery, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "MEMORY_BYTES", 2000)
    (tmp_path / "file").write_text("in the way")

    async def body(box: Outbox) -> None:
        assert "ENOTDIR" in box.trouble or "EEXIST" in box.trouble
        written = [box.add(report(str(n))) for n in range(50)]
        assert not any(await asyncio.gather(*written))
        batch = await box.next_batch()
        assert box.lost == 50 - len(notes(batch))
        assert notes(batch)[-1] == "49"

    run(nursery, tmp_path / "file", body)


def test_a_dead_outbox_process_is_replaced(nursery: Nursery, tmp_path: Path) -> None:
    async def body(box: Outbox) -> None:
        assert await box.durable(report("before", refuse=True))
        children = Path(f"/proc/{nursery.pid}/task/{nursery.pid}/children").read_text().split()
        os.kill(int(children[0]), signal.SIGKILL)
        for _ in range(100):
            if await box.durable(report("after", refuse=True), 2):
                break
            await asyncio.sleep(0.05)
        else:
            pytest.fail("no outbox process came back")
        found = [n for p in sorted((tmp_path / "a").glob("*.seg")) for n in read(p)[1]]
        assert msgspec.json.decode(found[-1].payload, type=Report).notes == ("after",)

    run(nursery, tmp_path, body)


def test_small_documents_survive(nursery: Nursery, tmp_path: Path) -> None:
    async def first(box: Outbox) -> None:
        assert await box.put("leases", b"{}")
        assert not await box.put("../../etc/passwd", b"x")

    async def second(box: Outbox) -> None:
        assert box.opening.documents == {"leases": b"{}"}

    run(nursery, tmp_path, first, "a")
    run(nursery, tmp_path, second, "b")
