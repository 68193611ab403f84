"""Whoever dies at whatever step of a drain and its way back: nothing is lost, nothing is done twice.

The steps are every transaction of the controller and every write to Slurm between a fault and the node's return. At
each of them the server dies, or the database takes no more; at each write slurmctld dies, with it or without it, or
forgets it afterwards. A new server, or the same one a little later, brings the story to the same end.
"""

from __future__ import annotations

import asyncio
import shutil
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import event
from sqlalchemy.exc import OperationalError

from slurm.errors import SlurmError, Timeout
from tests.api.controller.crash_story import STORIES, Crash, Story
from tests.api.controller.fake_slurm import bench

CHUNKS = 6
REFUSALS = ("database is locked", "database or disk is full", "attempt to write a readonly database")


@cache
def template(base: Path) -> Path:
    """An empty database that every story begins with a copy of."""
    (base / "empty").mkdir()
    with bench(base / "empty"):
        return base / "empty/nodevet.db"


@contextmanager
def told(base: Path, number: int) -> Iterator[Story]:
    folder = base / f"story-{number}-{len(list(base.iterdir()))}"
    folder.mkdir()
    shutil.copy(template(base), folder / "nodevet.db")
    # A look on probation is ordered every quarter of an hour, which is no part of these stories.
    with bench(folder, probation=0.0) as b:
        event.listen(b.database.engine, "connect", lambda c, _: c.execute("PRAGMA synchronous=OFF"))
        yield Story(b)


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("stories")


@cache
def steps_of(name: str, base: Path) -> tuple[int, int]:
    """How many steps a story has where nothing goes wrong, and how many of them are writes to Slurm."""
    with told(base, 0) as story:
        asyncio.run(getattr(story, name)())
        return story.steps.count, story.steps.writes


def play(story: Story, name: str) -> None:
    asyncio.run(getattr(story, name)())


def ends_well(story: Story, name: str, *, lost: bool = False) -> str:
    """What is wrong with the end; ``lost``: Slurm lost a write, so one more of it is right."""
    b, node = story.b, STORIES[name]
    records = [r for r in b.core.records.listing("sim", all_states=True) if r.node == node]
    stood = [r for r in records if r.state != "failed"]
    writes = Counter(verb for verb, where, _ in b.slurm.writes if where == node)
    said, open_ = story.audited(node), {i for i in b.incidents() if i[1] != "drain_failed" or not lost}
    wrong = []
    if [r.state for r in stood] != ["resumed"] or any(r.open for r in records):
        wrong.append(f"records {[(r.state, r.why) for r in records]}")
    if stood and (stood[0].weight != 1 or stood[0].owner.startswith("person") != (name == "person")):
        wrong.append(f"record {stood[0]}")
    if not lost and writes != {"drain": 1, "resume": 1}:
        wrong.append(f"writes {writes}")
    if len({reason for verb, where, reason in b.slurm.writes if (verb, where) == ("drain", node)}) != 1 and not lost:
        wrong.append("drained under two reasons")
    if said["drain"] != 1 or said["drain resumed outside"] or said["drain taken over"]:
        wrong.append(f"audit {said}")
    if not lost and said["resume"] != 1:
        wrong.append(f"audit {said}")
    if open_:
        wrong.append(f"incidents {open_}")
    return "; ".join(wrong)


def each(base: Path, name: str, numbers: range, arm: Callable[[Story, int], None], *, lost: bool = False) -> None:
    """Play the story once for each number; all that end badly are told together."""
    wrong = []
    for number in numbers:
        with told(base, number) as story:
            arm(story, number)
            try:
                play(story, name)
                bad = ends_well(story, name, lost=lost)
            except AssertionError as error:
                bad = str(error)[:600]
            if bad:
                wrong.append(f"step {number}: {bad}")
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("name", STORIES)
@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_the_server_dies_after_every_step(base: Path, name: str, chunk: int) -> None:
    def arm(story: Story, number: int) -> None:
        def die(step: int) -> None:
            if step == number:
                raise Crash

        story.steps.after = die

    count, _ = steps_of(name, base)
    each(base, name, range(1 + chunk, count + 1, CHUNKS), arm)


@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_the_database_takes_nothing_from_every_step_on(base: Path, chunk: int) -> None:
    """For the rest of that round, as a full disk or somebody's long transaction does; then it is mended."""

    def arm(story: Story, number: int) -> None:
        refusing: list[bool] = []

        def refuse(step: int) -> None:
            if step == number:
                refusing.append(True)
            if step >= number and refusing and story.steps.working:
                raise OperationalError("UPDATE", {}, Exception(REFUSALS[number % len(REFUSALS)]))

        real = story.round

        async def round_() -> None:
            try:
                await real()
            except OperationalError:
                story.steps.working = False
            if refusing:
                story.steps.before = lambda _: None

        story.round = round_  # type: ignore[method-assign]
        story.steps.before = refuse
        work = story.steps.work

        async def asked(doing: Any) -> bool:
            try:
                return await work(doing)
            except OperationalError:
                story.steps.before = lambda _: None
                return False

        story.steps.work = asked  # type: ignore[method-assign]

    count, _ = steps_of("automatic", base)
    each(base, "automatic", range(1 + chunk, count + 1, CHUNKS), arm)


MISHAPS = ["not landed", "answer lost", "forgotten", "answer lost and forgotten"]


@pytest.mark.parametrize("name", STORIES)
@pytest.mark.parametrize("mishap", MISHAPS)
def test_slurmctld_dies_at_every_write(base: Path, name: str, mishap: str) -> None:
    def arm(story: Story, number: int) -> None:
        slurm, struck = story.b.slurm, False

        def write(count: int, do: Callable[[], None]) -> None:
            nonlocal struck
            if count != number or struck:
                slurm.save()
                do()
                return
            slurm.save()
            struck = True
            if mishap != "not landed":
                do()
            if mishap != "forgotten":
                slurm.down()
                raise lost()

        def lost() -> SlurmError:
            return Timeout("scontrol update", 10.0)

        real = story.round

        async def round_() -> None:
            nonlocal struck
            await real()
            if struck and slurm.error is not None:
                await real()
            if struck:
                slurm.error = None
                if mishap.endswith("forgotten") and not forgotten:
                    forgotten.append(True)
                    slurm.crash()

        forgotten: list[bool] = []
        story.round = round_  # type: ignore[method-assign]
        story.steps.write = write

    _, writes = steps_of(name, base)
    assert writes == 2
    each(base, name, range(1, writes + 1), arm, lost=True)
