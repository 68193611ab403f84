"""A service that may not drain says so before the first bad node, and touches no node to find out."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest

from slurm.errors import NoCommand, NotFound, PermissionDenied, SlurmError, Unreachable
from tests.api.controller.fake_slurm import Bench, bench


def drains_end_in(b: Bench, monkeypatch: pytest.MonkeyPatch, error: SlurmError | None) -> Callable[[], None]:
    """From now on every drain ends so; gives what takes it back."""
    asked: list[str] = []

    def drain(name: str, _: str) -> None:
        asked.append(name)
        if error is not None:
            raise error

    def back() -> None:
        monkeypatch.undo()
        b.control.right._next = float("-inf")
        assert asked and not set(asked) & set(b.slurm.table), "a node was touched"

    monkeypatch.setattr(b.slurm, "drain", drain)
    b.control.right._next = float("-inf")
    return back


@pytest.mark.parametrize("error", [PermissionDenied("Invalid user id"), NoCommand("scontrol is not there"), None])
def test_a_right_that_is_missing_is_loud_until_it_is_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: SlurmError | None
) -> None:
    """E107: detected, but never drained; an accepted drain of a node that does not exist is no good sign either."""
    with bench(tmp_path) as b:
        back = drains_end_in(b, monkeypatch, error)
        asyncio.run(b.tick())
        assert ("", "cannot_drain") in b.incidents()
        back()
        asyncio.run(b.tick())
        assert b.incidents() == set() and b.slurm.writes == []


@pytest.mark.parametrize("error", [NotFound("no such node"), Unreachable("busy")])
def test_what_proves_nothing_says_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: SlurmError) -> None:
    with bench(tmp_path) as b:
        drains_end_in(b, monkeypatch, error)
        asyncio.run(b.tick())
        assert b.incidents() == set()


def test_it_is_asked_rarely_and_not_without_automation(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with bench(tmp_path, automation=False) as b:
        drains_end_in(b, monkeypatch, PermissionDenied("no"))
        asyncio.run(b.tick())
        assert b.incidents() == set()
    with bench(tmp_path) as b:
        asyncio.run(b.tick())
        calls: list[str] = []
        monkeypatch.setattr(b.slurm, "drain", lambda name, _: calls.append(name))
        for _ in range(3):
            asyncio.run(b.tick())
        assert calls == []
