"""A site's executable runs beside the server, once, as the account we are, and its exit status tells how it ended."""

from __future__ import annotations

import asyncio
import json
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec
import pytest

from api.remedy.settings import RemedySettings, Run
from tests.api.remedy.mending import Mending, mending


@pytest.fixture
def folder() -> Iterator[Path]:
    """Where nobody else can write."""
    with tempfile.TemporaryDirectory(prefix="nv-run-", dir="/tmp") as made:
        yield Path(made)


def script(folder: Path, text: str) -> None:
    path = folder / "mend"
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)


def settings(folder: Path, **changes: object) -> RemedySettings:
    run = msgspec.structs.replace(Run(mode="on", directory=str(folder), timeout=30.0), **changes)
    return RemedySettings(mode="on", run={"mend": run})


async def until(mend: Mending, condition: Callable[[], bool]) -> None:
    """Rounds until something holds."""
    for _ in range(400):
        if condition():
            return
        await mend.bench.tick()
        await asyncio.sleep(0.05)
    raise AssertionError(mend.states())


def over(mend: Mending) -> bool:
    return bool(mend.states()) and mend.states()[0][1] not in ("planned", "running")


@pytest.mark.parametrize(("status", "state"), [(0, "done"), (2, "busy"), (1, "failed"), (126, "failed")])
def test_it_reads_one_document_and_its_status_tells(tmp_path: Path, folder: Path, status: int, state: str) -> None:
    async def scene() -> None:
        with mending(tmp_path, settings(folder)) as mend:
            script(folder, f"cat > {folder}/got\nenv > {folder}/env\nprintf 'words\\033[2J'\nexit {status}")
            await mend.broken()
            assert (await mend.remedies.ask("n1", "run:mend", (), "ann")).outcome == "planned"
            await until(mend, lambda: over(mend))
            (only,) = mend.history()
            assert (only.state, only.why) == (state, f"mend ended with {status}: words [2J")
            told = json.loads((folder / "got").read_text())
            assert (told["node"], told["action"], told["actor"], told["automatic"]) == ("n1", "run:mend", "ann", False)
            names = {line.partition("=")[0] for line in (folder / "env").read_text().splitlines()}
            assert names <= {"PATH", "LC_ALL", "PWD", "SHLVL", "_", "OLDPWD"}

    asyncio.run(scene())


def test_a_server_that_starts_anew_does_not_run_it_again(tmp_path: Path, folder: Path) -> None:
    async def scene() -> None:
        with mending(tmp_path, settings(folder)) as mend:
            script(folder, f"echo x >> {folder}/runs\nexit 0")
            await mend.broken()
            await mend.remedies.ask("n1", "run:mend", (), "ann")
            await until(mend, lambda: mend.states()[0][1] == "running")
            mend.anew(settings(folder))
            await until(mend, lambda: over(mend))
            assert mend.states() == [("run:mend", "unknown")]
            for _ in range(100):
                if (folder / "runs").exists():
                    break
                await asyncio.sleep(0.05)
            await mend.bench.tick()
            assert (folder / "runs").read_text() == "x\n"

    asyncio.run(scene())


@pytest.mark.parametrize("mode", [0o777, 0o775, 0o644])
def test_what_others_can_write_or_nobody_can_run_is_refused(tmp_path: Path, folder: Path, mode: int) -> None:
    async def scene() -> None:
        with mending(tmp_path, settings(folder)) as mend:
            script(folder, f"touch {folder}/ran")
            (folder / "mend").chmod(mode)
            await mend.broken()
            await mend.remedies.ask("n1", "run:mend", (), "ann")
            await until(mend, lambda: over(mend))
            assert mend.states() == [("run:mend", "refused")] and not (folder / "ran").exists()

    asyncio.run(scene())


def test_one_that_does_not_end_is_asked_to_and_holds_nobody(tmp_path: Path, folder: Path) -> None:
    async def scene() -> None:
        with mending(tmp_path, settings(folder, timeout=1.0)) as mend:
            script(folder, "trap 'exit 9' TERM\nwhile :; do sleep 0.05; done")
            await mend.broken()
            await mend.remedies.ask("n1", "run:mend", (), "ann")
            await until(mend, lambda: over(mend))
            assert mend.states() == [("run:mend", "failed")] and "did not end within 1 s" in mend.history()[0].why

    asyncio.run(scene())
