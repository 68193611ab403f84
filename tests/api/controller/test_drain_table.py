"""docs/drains.md tells the states and transitions that the code has, and the code makes no others."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import get_args

from api.controller.drain_record import MOVES, OPEN, DrainState

DOC = Path(__file__).resolve().parents[3] / "docs" / "drains.md"


def _rows() -> Iterator[list[str]]:
    for line in DOC.read_text(encoding="utf-8").split("\n"):
        if line.startswith("|") and not line.startswith("|---"):
            yield [cell.strip() for cell in line.strip("|").split("|")]


def test_the_table_of_states_is_the_codes() -> None:
    told = {re.sub("`", "", r[0]): set(re.findall("`([a-z_]+)`", r[2])) for r in _rows() if len(r) == 3}
    told.pop("state")
    assert told.keys() == set(get_args(DrainState))
    assert told == {state: set(MOVES.get(state, ())) for state in get_args(DrainState)}


def test_open_states_and_no_others_go_on() -> None:
    assert MOVES.keys() == OPEN


def test_every_transition_has_who_and_when() -> None:
    text = " ".join(r[0] for r in _rows() if len(r) == 4)
    for state in get_args(DrainState):
        assert f"`{state}`" in text, state


def test_every_audited_word_is_in_the_code() -> None:
    folder = DOC.parents[1] / "api"
    code = "\n".join(p.read_text(encoding="utf-8") for p in folder.rglob("*.py"))
    for row in (r for r in _rows() if len(r) == 4 and r[0] != "transition"):
        for word in re.findall("`([^`]+)`", row[3]):
            made = word.removeprefix("drain ").replace(" ", "_")
            assert f'"{word}' in code or made in get_args(DrainState), word
