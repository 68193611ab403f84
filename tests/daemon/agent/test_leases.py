"""A lease allows one refusal while the service is away, and never a second one."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta, timezone

import pytest

from checks.wire import Lease, PollAnswer
from daemon.agent.leases import LeaseBook
from deploy.simcluster.host import SimHost
from tests.daemon.agent.central_server import Service, until
from tests.daemon.agent.running import RunningAgent

NOW = datetime(2026, 12, 1, tzinfo=timezone.utc)


def lease(permit: str = "L1", codes: tuple[str, ...] = ("gpu_lost",), minutes: float = 10) -> Lease:
    return Lease(permit=permit, codes=codes, expires_at=NOW + timedelta(minutes=minutes))


@pytest.fixture
def clock() -> list[float]:
    return [1000.0]


@pytest.fixture
def book(clock: list[float]) -> LeaseBook:
    made = LeaseBook("boot-1", lambda: clock[0])
    made.offer([lease()], NOW)
    return made


def test_a_lease_is_used_up_once(book: LeaseBook) -> None:
    assert book.take(["other", "gpu_lost"]) == lease()
    assert book.take(["gpu_lost"]) is None
    assert book.offer([lease()], NOW) is False
    assert book.take(["gpu_lost"]) is None


def test_a_used_lease_is_still_told_of_and_a_dropped_one_is_not(book: LeaseBook) -> None:
    """Rule 7: a server that hears nothing of it would hand out another before it knows of the refusal."""
    assert book.permits == ("L1",)
    assert book.take(["gpu_lost"]) is not None
    assert (book.permits, book.good) == (("L1",), 0)
    fresh = LeaseBook("boot-1", lambda: 1000.0)
    fresh.load(book.document)
    assert fresh.permits == ("L1",)
    book.offer([lease("L2")], NOW)
    book.offer([], NOW)
    assert book.permits == ("L1",)


def test_a_lease_is_for_its_codes_only(book: LeaseBook) -> None:
    assert book.take(["gpu_count_low"]) is None
    assert book.good == 1


def test_a_lease_ends_by_the_boot_clock_whatever_the_wall_clock_does(book: LeaseBook, clock: list[float]) -> None:
    clock[0] += 601
    book.offer([lease()], NOW - timedelta(days=1))
    assert book.take(["gpu_lost"]) is None


def test_no_lease_is_longer_than_ten_minutes(clock: list[float]) -> None:
    book = LeaseBook("boot-1", lambda: clock[0])
    book.offer([lease(minutes=60 * 24)], NOW)
    clock[0] += 601
    assert book.take(["gpu_lost"]) is None


def test_leases_survive_a_restart_but_not_a_reboot(book: LeaseBook, clock: list[float]) -> None:
    same, other = LeaseBook("boot-1", lambda: clock[0]), LeaseBook("boot-2", lambda: clock[0])
    same.load(book.document)
    other.load(book.document)
    assert (same.good, other.good) == (1, 0)
    same.take(["gpu_lost"])
    after = LeaseBook("boot-1", lambda: clock[0])
    after.load(same.document)
    assert after.offer([lease()], NOW) is False


@pytest.mark.parametrize("document", [b"", b"{", b"[]", b'{"boot_id": 3}', b"\xff\xfe"])
def test_a_garbled_document_holds_no_lease(document: bytes, clock: list[float]) -> None:
    book = LeaseBook("boot-1", lambda: clock[0])
    book.load(document)
    assert book.good == 0


def test_the_service_is_away_and_a_lease_refuses_once_across_restarts(
    make_agent: Callable[..., RunningAgent], service: Service, host: SimHost
) -> None:
    agent = make_agent(service.url)
    soon = datetime.now(timezone.utc) + timedelta(minutes=5)
    codes = ("gpu_lost", "gpu_count_low")
    service.poll = PollAnswer(leases=(Lease(permit="L7", codes=codes, expires_at=soon),))
    agent.start()
    until(lambda: agent.status().uplink.leases == 1, what="lease")
    until(lambda: (agent.base / "state/outbox/leases").exists(), what="lease on disk")
    service.close()
    agent.stop(9)
    agent.start()
    assert agent.status().uplink.leases == 1
    host.inject("gpu_lost", gpu=3)
    agent.request("POST", "/v1/check")
    assert agent.hook().exit == 1
    decision = next(r.decision for r in agent.on_disk() if r.occasion == "prolog")
    assert decision is not None and decision.permit == "L7"
    assert agent.hook(SLURM_JOB_ID="43").exit == 0
    agent.stop(9)
    agent.start()
    agent.request("POST", "/v1/check")
    assert agent.hook(SLURM_JOB_ID="44").exit == 0
