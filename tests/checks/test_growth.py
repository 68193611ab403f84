"""A counter's growth is what came since we know it, whoever cleared it or restarted us meanwhile."""

from __future__ import annotations

import msgspec
import pytest

from checks.growth import MOST, RESTART, STEPS, Counters, Grown, Growth, counters, recalled
from tests.fakes import Plant

HOUR = 3600.0


def totals(values: list[int], *, wraps: bool = False, step: float = 60.0) -> list[int]:
    growth = Growth()
    return [growth.over(n * step, value, HOUR, wraps=wraps).count for n, value in enumerate(values)]


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([900], [0]),
        ([900, 900, 905], [0, 0, 5]),
        ([40, 0, 2], [0, 0, 2]),
        ([40, 3], [0, 3]),
        ([40, 60, 3, 4], [0, 20, 3, 4]),
        ([5, 9, 0, 0], [0, 4, 0, 0]),
    ],
)
def test_a_cleared_counter_counts_from_zero(values: list[int], expected: list[int]) -> None:
    """E78: what stands there when we come is no growth; after a clearing all that stands there is."""
    assert totals(values) == expected


@pytest.mark.parametrize(
    ("values", "wraps", "expected"),
    [
        ([2**32 - 10, 5], True, 15),
        ([2**64 - 10, 5], True, 15),
        ([2**32 - 10, 5], False, 5),
        ([2**31, 5], True, 5),
        ([1000, 5], True, 5),
    ],
)
def test_one_that_wraps_near_its_end_was_not_cleared(values: list[int], wraps: bool, expected: int) -> None:
    assert totals(values, wraps=wraps)[-1] == expected


def test_a_wrap_keeps_what_came_before_it() -> None:
    assert totals([2**32 - 100, 2**32 - 10, 5], wraps=True) == [0, 90, 105]


def test_growth_leaves_the_window_by_itself() -> None:
    """E78: what was sticky clears when it is quiet."""
    growth = Growth()
    growth.over(0.0, 0, HOUR)
    assert growth.over(60.0, 50, HOUR).count == 50
    assert growth.over(3000.0, 50, HOUR).count == 50
    assert growth.over(3700.0, 50, HOUR).count == 0


def test_a_long_time_between_two_looks_bears_as_many_times_more() -> None:
    assert not Grown(600, 60.0).beyond(600, 60.0)
    assert Grown(601, 60.0).beyond(600, 60.0)
    assert not Grown(6000, 600.0).beyond(600, 60.0)
    assert Grown(1, 86400.0).beyond(0, 60.0)


def test_a_counter_that_never_rests_is_kept_in_few_points() -> None:
    growth = Growth()
    for second in range(0, 7200, 10):
        grown = growth.over(float(second), second, HOUR)
    assert len(growth.came) <= STEPS + 3
    assert HOUR <= grown.seconds <= HOUR * (1 + 2 / STEPS)
    assert grown.count == grown.seconds


def remembered(last: int = 7, at: float = 100.0, boot: str = "b1") -> object:
    book = Counters(boot, {"p x": Growth()})
    book.series["p x"].over(at, last, HOUR)
    return book.plain()


@pytest.mark.parametrize(
    ("now", "boot", "expected"),
    [(160.0, "b1", 3), (160.0, "b2", 0), (100.0 + RESTART + 1, "b1", 0), (40.0, "b1", 0), (160.0, "", 0)],
)
def test_errors_during_a_restart_count_and_old_ones_never(now: float, boot: str, expected: int) -> None:
    """E73: of this boot and of late; a clock that went back is of another machine."""
    assert recalled(remembered(), boot, now).of("p x").over(now, 10, HOUR).count == expected


GARBAGE: list[object] = [
    None,
    5,
    "x",
    [],
    {"boot": "b1"},
    {"boot": "b1", "series": [["a"]]},
    {"boot": 3, "series": []},
    {"boot": "b1", "series": [["p x", "7", 1.0, []]]},
    {"boot": "b1", "series": [["p x", 7, 1.0, [[1.0]]]]},
]


@pytest.mark.parametrize("plain", GARBAGE)
def test_what_is_no_memory_is_none(plain: object) -> None:
    assert recalled(plain, "b1", 160.0).series == {}


def test_what_travels_is_plain_and_small() -> None:
    book = Counters("b1")
    for number in range(MOST + 10):
        book.of(f"port {number}").over(0.0, number, HOUR)
    data = msgspec.msgpack.encode(book.plain())
    assert len(msgspec.msgpack.decode(data)["series"]) == MOST


def test_a_new_boot_begins_anew(plant: Plant) -> None:
    host = plant({"/proc/sys/kernel/random/boot_id": "one\n"})
    counters(host, "t").of("a").over(0.0, 5, HOUR)
    assert counters(host, "t").series
    host.path("/proc/sys/kernel/random/boot_id").write_text("two\n")
    assert not counters(host, "t").series


def test_a_device_that_went_away_is_forgotten() -> None:
    book = Counters("b1", {"a": Growth(), "b": Growth()})
    book.only(["b", "c"])
    assert list(book.series) == ["b"]
