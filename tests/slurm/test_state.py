"""A node's state reads the same from every release and in every form."""

from __future__ import annotations

from datetime import datetime, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slurm.errors import BadAnswer, NotFound
from slurm.nodes import nodes_from_json, nodes_from_text
from slurm.state import NodeState
from slurm.words import BASES, state_text, state_words
from tests.slurm.recorded import DATA, MODERN, RELEASES, raw, text

# name of the recording -> state as 22.05 and later write it
STATES = {
    "IDLE": "IDLE",
    "MIXED": "MIXED",
    "ALLOCATED": "ALLOCATED",
    "COMPLETING": "IDLE+COMPLETING",
    "DOWN": "DOWN",
    "DOWN-notresponding": "DOWN+NOT_RESPONDING",
    "DOWN-DRAIN-notresponding": "DOWN+DRAIN+NOT_RESPONDING",
    "IDLE-notresponding": "IDLE+NOT_RESPONDING",
    "DRAINED-quotes": "IDLE+DRAIN",
    "DRAINED-unicode": "IDLE+DRAIN",
    "DRAINED-newline": "IDLE+DRAIN",
    "DRAINED-after-job": "IDLE+DRAIN",
    "DRAINING-MIXED": "MIXED+DRAIN",
    "DRAINING-ALLOC": "ALLOCATED+DRAIN",
    "FAIL": "IDLE+FAIL",
    "MAINT": "IDLE+MAINT+RESERVED",
    "RESERVED": "IDLE+RESERVED",
    "PROLOG-RUNNING": "MIXED",
    "INVAL-REG-gres": "UNKNOWN+DRAIN+INVALID_REG",
    "INVAL-REG-cpus": "UNKNOWN+DRAIN+INVALID_REG",
    "INVAL-REG-lowmem": "UNKNOWN+DRAIN+INVALID_REG",
    "REBOOT-requested-busy": "MIXED+REBOOT_REQUESTED",
    "REBOOT-n5-after-job": "DOWN+REBOOT_ISSUED",
    "REBOOT-timeout": "DOWN",
    "REBOOT-back": "IDLE",
}
# what 20.11 leaves out or writes in place of the base
STATES_20_11 = STATES | {
    "MAINT": "IDLE+MAINT",
    "INVAL-REG-gres": "IDLE+DRAIN",
    "INVAL-REG-cpus": "IDLE+DRAIN",
    "INVAL-REG-lowmem": "IDLE+DRAIN",
    "REBOOT-requested-busy": "MIXED+REBOOT_REQUESTED",
    "REBOOT-n5-after-job": "UNKNOWN+REBOOT_REQUESTED",
}


def _one(states: dict[str, NodeState]) -> NodeState:
    (state,) = states.values()
    return state


def _state(text_: str) -> NodeState:
    words = state_text(text_)
    return NodeState("n1", words.base, words.flags, known=words.known)


@pytest.mark.parametrize("release", RELEASES)
@pytest.mark.parametrize("name", STATES)
def test_reads_every_recorded_text(release: str, name: str) -> None:
    """E86, E89: DRAIN is a flag, and a value runs to its end, not to the next blank."""
    state = _one(nodes_from_text(text(release, f"nodes/{name}.txt")))
    expected = (STATES_20_11 if release == "20.11" else STATES)[name]
    assert str(state) == str(_state(expected))
    assert state.known
    assert (state.gres, state.partitions) == ("gpu:4", ("main",))


def _json_cases() -> list[tuple[str, str]]:
    # RESUMED was recorded while slurmd was registering again: text and JSON are of two moments.
    return [(r, f.stem) for r in MODERN for f in sorted((DATA / r / "nodes").glob("*.json")) if f.stem != "RESUMED"]


@pytest.mark.parametrize(("release", "name"), _json_cases())
def test_json_says_what_the_text_says(release: str, name: str) -> None:
    """E90: a string with flags beside it (22.05) and a list (24.11) mean the same."""
    data = raw(release, f"nodes/{name}.json")
    if release == "22.05":
        data = b'{"nodes": [' + data + b"]}"
    from_json, from_text = _one(nodes_from_json(data)), _one(nodes_from_text(text(release, f"nodes/{name}.txt")))
    for field in (
        "name",
        "base",
        "flags",
        "reason",
        "boot_time",
        "partitions",
        "gres",
        "cpus",
        "real_memory",
        "version",
    ):
        assert getattr(from_json, field) == getattr(from_text, field), field


@pytest.mark.parametrize("release", RELEASES)
@pytest.mark.parametrize("layout", ["ALL-mixture", "ALL-oneliner"])
def test_reads_reasons_literally(release: str, layout: str) -> None:
    """E89, E99: quotes, signs, unicode and line breaks in a reason come back as they were typed."""
    states = nodes_from_text(text(release, f"nodes/{layout}.txt"))
    assert sorted(states) == [f"n{i}" for i in range(1, 9)]
    reasons = {state.reason.text for state in states.values() if state.reason}
    assert {'he said "no" & it\'s 50% \\back', "GPU 3 überhitzt 温度 ✗", "line one\nline two\ttab"} <= reasons
    reason = states["n1"].reason
    assert reason is not None
    assert (reason.text, reason.user) == ("drain mixed", "root")
    assert reason.at is not None and reason.at.tzinfo is timezone.utc


@pytest.mark.parametrize("release", RELEASES)
def test_reads_signs_inside_a_reason(release: str) -> None:
    """E89: `=` and brackets inside a reason are part of it."""
    state = _one(nodes_from_text(text(release, "nodes/DOWN.txt")))
    assert state.reason is not None
    assert state.reason.text == "set down [x] = y | z, a@b"


def test_reads_times() -> None:
    state = _one(nodes_from_text(text("22.05", "nodes/REBOOT-issued.txt")))
    assert state.boot_time == datetime(2026, 12, 1, 4, 28, 21, tzinfo=timezone.utc)
    assert state.next_state == "RESUME"
    never = _one(nodes_from_json(raw("24.11", "nodes/DOWN-notresponding.json")))
    assert never.boot_time is None


@pytest.mark.parametrize("release", RELEASES)
def test_reads_comment_and_extra(release: str) -> None:
    """E89: braces and blanks inside Comment and Extra."""
    state = _one(nodes_from_text(text(release, "nodes/COMMENT-EXTRA.txt")))
    assert state.comment == 'c "1" ü'
    assert state.extra == (None if release == "20.11" else '{"a":1}')


def test_a_typed_value_cannot_forge_a_field() -> None:
    """E89: whoever may write a comment must not be able to write a state."""
    forged = text("22.05", "nodes/IDLE.txt").rstrip() + '\n   Extra={"a": "b c"} State=DOWN\n   State=DOWN+DRAIN\n\n'
    assert str(_one(nodes_from_text(forged))) == "IDLE"
    twice = text("22.05", "nodes/IDLE.txt") + "NodeName=n1 Arch=x\n   State=DOWN\n"
    assert str(nodes_from_text(twice)["n1"]) == "IDLE"


@pytest.mark.parametrize(
    ("word", "expected"),
    [
        ("idle*", "IDLE+NOT_RESPONDING"),
        ("idle~", "IDLE+POWERED_DOWN"),
        ("idle#", "IDLE+POWERING_UP"),
        ("idle!", "IDLE+POWER_DOWN"),
        ("idle%", "IDLE+POWERING_DOWN"),
        ("idle$", "IDLE+MAINT"),
        ("mix@", "MIXED+REBOOT_REQUESTED"),
        ("down^", "DOWN+REBOOT_ISSUED"),
        ("mixed-", "MIXED+PLANNED"),
        ("drain", "IDLE+DRAIN"),
        ("drained*", "IDLE+DRAIN+NOT_RESPONDING"),
        ("drng", "MIXED+DRAIN"),
        ("inval", "UNKNOWN+INVALID_REG"),
        ("maint", "IDLE+MAINT"),
        ("resv", "IDLE+RESERVED"),
        ("boot^", "UNKNOWN+REBOOT_ISSUED+REBOOT_REQUESTED"),
        ("comp", "IDLE+COMPLETING"),
        ("alloc", "ALLOCATED"),
        ("down*", "DOWN+NOT_RESPONDING"),
        ("DOWN*+DRAIN", "DOWN+DRAIN+NOT_RESPONDING"),
        ("REBOOT*+DRAIN", "UNKNOWN+DRAIN+NOT_RESPONDING+REBOOT_REQUESTED"),
        ("MIXED+DRAIN+DYNAMIC_NORM+MAINTENANCE+RESERVED", "MIXED+DRAIN+DYNAMIC_NORM+MAINT+RESERVED"),
        ("IDLE+CLOUD+POWER_DOWN+POWERED_DOWN", "IDLE+CLOUD+POWERED_DOWN+POWER_DOWN"),
        ("IDLE+CLOUD+POWER", "IDLE+CLOUD+POWERED_DOWN"),
        ("DOWN*+CLOUD+POWER", "DOWN+CLOUD+NOT_RESPONDING+POWERED_DOWN"),
        ("POWER_DOWN", "IDLE+POWER_DOWN"),
        ("reboot_issued*", "UNKNOWN+NOT_RESPONDING+REBOOT_ISSUED"),
        ("blocked", "IDLE+BLOCKED"),
        ("MIXED+BLOCKED", "MIXED+BLOCKED"),
        ("IDLE+DYNAMIC_NORM+INVALID_REG", "IDLE+DYNAMIC_NORM+INVALID_REG"),
        ("", "UNKNOWN"),
        ("surprised", "UNKNOWN"),
        ("surprised+DRAIN", "UNKNOWN+DRAIN"),
    ],
)
def test_reads_every_word_and_suffix(word: str, expected: str) -> None:
    """E05, E06, E87, E93: each suffix of sinfo, the words of 20.11, and words nobody knows."""
    assert str(_state(word)) == expected


@pytest.mark.parametrize(
    ("state", "drained"),
    [
        ("ALLOCATED+DRAIN", False),
        ("MIXED+DRAIN", False),
        ("IDLE+DRAIN+COMPLETING", False),
        ("UNKNOWN+DRAIN", False),
        ("REBOOT+DRAIN", False),
        ("IDLE", False),
        ("IDLE+DRAIN", True),
        ("DOWN+DRAIN", True),
    ],
)
def test_drained_means_no_job_is_left(state: str, drained: bool) -> None:
    """E10: a drained node that still runs a job must not be disturbed."""
    assert _state(state).drained is drained


@pytest.mark.parametrize(
    ("state", "hands_off"),
    [
        ("IDLE", None),
        ("IDLE+RESERVED", None),
        ("IDLE+CLOUD", None),
        ("IDLE+PLANNED", None),
        ("MIXED+DRAIN", None),
        ("UNKNOWN+DRAIN", None),
        ("IDLE+MAINTENANCE", "maintenance reservation"),
        ("idle#", "powering up"),
        ("MIXED+CLOUD+NOT_RESPONDING+POWERING_UP", "powering up"),
        ("IDLE+CLOUD+POWER_DOWN+POWERED_DOWN", "powered down"),
        ("IDLE+CLOUD+POWER", "powered down"),
        ("IDLE+BLOCKED", None),
        ("IDLE+DRAIN+REBOOT_ISSUED", "reboot issued"),
        ("REBOOT*+DRAIN", "reboot requested"),
        ("UNKNOWN+DRAIN+INVALID_REG", "registration refused by slurmctld"),
        ("FUTURE", "node does not exist yet"),
        ("surprised+DRAIN", "state UNKNOWN+DRAIN is not understood"),
    ],
)
def test_keeps_its_hands_off_while_others_work(state: str, hands_off: str | None) -> None:
    """E05, E06, E93, E94: planned reboots, power saving and maintenance are left alone; RESERVED alone is not."""
    assert _state(state).hands_off == hands_off


@pytest.mark.parametrize("name", ["RESUMED", "REBOOT-back", "RESERVED"])
def test_a_left_over_reason_is_not_active(name: str) -> None:
    """E01: 24.11 keeps the old reason after a resume; it says nothing about the present."""
    state = _one(nodes_from_json(raw("24.11", f"nodes/{name}.json")))
    assert state.reason is not None
    assert (state.out_of_service, state.active_reason) == (False, None)


@pytest.mark.parametrize("data", [b"", b"[]", b"nul", b'{"nodes": 3}', b'{"nodes"', b"[" * 100_000, b"{}"])
def test_refuses_an_answer_of_another_shape(data: bytes) -> None:
    """E90: another shape of JSON is a bad answer, not a node without faults."""
    with pytest.raises(BadAnswer):
        nodes_from_json(data)


def test_survives_fields_of_another_shape() -> None:
    data = b'{"nodes": [3, {"name": 4}, {"name": "n1", "state": {"a": 1}, "cpus": "x", "reason": 5, "boot_time": []}]}'
    assert nodes_from_json(data) == {"n1": NodeState("n1", "UNKNOWN", known=False)}


@given(st.text())
def test_any_text_gives_a_state(word: str) -> None:
    words = state_text(word)
    assert words.base in BASES
    assert all(len(flag) <= 40 for flag in words.flags)


@given(st.lists(st.one_of(st.text(), st.integers(), st.none())))
def test_any_list_gives_a_state(words: list[object]) -> None:
    assert state_words(words).base in BASES


@given(st.text(alphabet=st.characters(), max_size=400))
def test_any_answer_can_be_read(answer: str) -> None:
    for state in nodes_from_text("NodeName=n1 " + answer).values():
        assert state.base in BASES


def test_an_answer_that_complains_raises_what_it_says() -> None:
    """An error may come with HTTP 200 or exit 0 (24.11 and later)."""
    with pytest.raises(NotFound):
        nodes_from_json(b'{"nodes": [], "errors": [{"error": "Failure to query node zz", "error_number": 0}]}')
    assert nodes_from_json(b'{"nodes": [], "errors": []}') == {}


@given(st.binary(max_size=400))
def test_any_bytes_are_an_answer_or_a_bad_answer(data: bytes) -> None:
    try:
        nodes_from_json(data)
    except BadAnswer:
        return
