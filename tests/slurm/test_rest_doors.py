"""A server that is told of several slurmrestd goes on with the next while one is away, and comes back to the first."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from slurm.errors import SlurmError, Timeout, Unreachable
from slurm.rest.backend import Rest
from slurm.rest.door import Answer, Door, NotConnected, parse_address
from slurm.rest.doors import BACK_SECONDS, Doors
from tests.slurm.contract import OURS
from tests.slurm.fake import FakeSlurm
from tests.slurm.fake_rest import TOKEN, FakeRest, serving


@dataclass
class FakeDoor:
    """A door whose answers the test decides."""

    name: str
    error: SlurmError | None = None
    asked: list[tuple[str, float]] = field(default_factory=list)
    address = "door"

    def ask(
        self, method: str, path: str, headers: Mapping[str, str], body: bytes | None, *, timeout: float, step: str
    ) -> Answer:
        self.asked.append((method, timeout))
        if self.error is not None:
            raise self.error
        return Answer(200, self.name.encode())


def of(*doors: FakeDoor, now: list[float]) -> Callable[..., str]:
    made = Doors(doors, lambda: now[0])  # type: ignore[arg-type]
    return lambda method="GET": made.ask(method, "/", {}, None, timeout=12.0, step="slurmrestd").body.decode()


def test_the_next_is_asked_and_kept_and_the_first_tried_again() -> None:
    now, one, two = [0.0], FakeDoor("one"), FakeDoor("two")
    ask = of(one, two, now=now)
    assert ask() == "one"
    one.error = NotConnected("refused")
    assert [ask(), ask()] == ["two", "two"]
    assert len(one.asked) == 2, "the one that is away is not asked each time"
    now[0] += BACK_SECONDS
    assert ask() == "two" and len(one.asked) == 3
    one.error = None
    assert ask() == "two"
    now[0] += BACK_SECONDS
    assert [ask(), ask()] == ["one", "one"]


def test_a_change_that_may_have_arrived_is_not_sent_twice() -> None:
    now, one, two = [0.0], FakeDoor("one", Unreachable("reset by peer")), FakeDoor("two")
    ask = of(one, two, now=now)
    for error in (Unreachable("reset by peer"), Timeout("slurmrestd", 6.0)):
        one.error = error
        with pytest.raises(type(error)):
            ask("POST")
    assert two.asked == []
    one.error = NotConnected("refused")
    assert ask("POST") == "two"


def test_a_door_that_hangs_leaves_time_for_the_next() -> None:
    now, one, two = [0.0], FakeDoor("one", Timeout("slurmrestd", 6.0)), FakeDoor("two")
    assert of(one, two, now=now)() == "two"
    assert (one.asked, two.asked) == ([("GET", 6.0)], [("GET", 12.0)])


def test_all_are_away() -> None:
    ask = of(FakeDoor("one", NotConnected("a")), FakeDoor("two", NotConnected("b")), now=[0.0])
    with pytest.raises(Unreachable, match="b"):
        ask()


def test_a_real_connection_that_is_refused_has_carried_nothing(tmp_path: Path) -> None:
    door = Door(parse_address(f"unix:{tmp_path}/none"))
    with pytest.raises(NotConnected):
        door.ask("GET", "/", {}, None, timeout=5.0, step="slurmrestd")


def test_reads_and_writes_go_on_over_the_other_socket(tmp_path: Path) -> None:
    slurm = FakeSlurm("26.05")
    with serving(FakeRest(slurm, ("v0.0.45",)), tmp_path / "b") as second:
        with serving(FakeRest(slurm, ("v0.0.45",))) as first:
            backend = Rest([first, second], token=lambda: TOKEN, user="root")
            assert backend.node("n2").base == "IDLE"
        backend.drain("n2", OURS)
        assert backend.node("n2").drained and backend.ping()
