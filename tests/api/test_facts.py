"""What slurmctld's own programs leave is stored once, laid together by attempt, and taken away only then."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import pytest
from sqlalchemy.exc import SQLAlchemyError
from starlette.testclient import TestClient

from api import spool
from api.spool import take
from api.store import facts
from api.store.database import Database
from api.store.facts import FactsView
from slurm.jobfacts import MAX_BYTES, JobFacts


@pytest.fixture
def box(tmp_path: Path) -> Path:
    """The spool, empty."""
    made = tmp_path / "box"
    made.mkdir(mode=0o770)
    return made


def leave(
    folder: Path, kind: str = "prologctld", /, job: int = 42, restart: int = 0, pid: int = 7, **more: str
) -> Path:
    """One file as the hook writes it."""
    values = {"SLURM_JOB_ID": str(job), "SLURM_JOB_RESTART_COUNT": str(restart), "SLURM_CLUSTER_NAME": "c", **more}
    path = folder / f"{kind}.{job}.{restart}.{pid}"
    path.write_bytes(b"1790000000\0" + b"\0".join(f"{k}={v}".encode() for k, v in values.items()))
    return path


def known(database: Database, job: int = 42) -> list[FactsView]:
    with database.read() as connection:
        return facts.facts_of(connection, "c", job)


def test_start_and_end_of_an_array_task(database: Database, box: Path) -> None:
    array = {"SLURM_ARRAY_JOB_ID": "40", "SLURM_ARRAY_TASK_ID": "2", "SLURM_JOB_NODELIST": "n[1-2]"}
    leave(box, "prologctld", 42, 0, 7, **array)
    assert take(database, "c", box) == 1 and os.listdir(box) == []
    leave(box, "epilogctld", 42, 0, 7, SLURM_JOB_EXIT_CODE="768", **array)
    leave(box, "epilogctld", 42, 0, 8, SLURM_JOB_EXIT_CODE="768", **array)
    assert take(database, "c", box) == 2
    (one,) = known(database)
    assert (one.array_job_id, one.array_task_id, one.nodelist, one.exit_status) == (40, 2, "n[1-2]", 768)
    assert one.started_at is not None and one.ended_at is not None and one.restart_count == 0
    assert known(database, 40) == [one], "an array's own id finds its tasks"


def test_attempts_are_apart_and_an_old_slurm_counts_none(database: Database, box: Path) -> None:
    leave(box, restart=0)
    leave(box, restart=1, SLURM_HET_JOB_ID="41", SLURM_HET_JOB_OFFSET="1")
    leave(box, job=43, SLURM_JOB_RESTART_COUNT="")
    take(database, "c", box)
    assert [(f.restart_count, f.het_offset) for f in known(database)] == [(0, None), (1, 1)]
    assert [f.restart_count for f in known(database, 43)] == [None]


@pytest.mark.parametrize(
    "data", [b"", b"\0", b"x" * 400_000, b"1\0SLURM_JOB_ID=-1", b"9" * 40 + b"\0SLURM_JOB_ID=42x", b"1\0=\0\xff=\xff"]
)
def test_what_is_garbled_is_nothing(database: Database, box: Path, data: bytes) -> None:
    (box / "prologctld.42.0.1").write_bytes(data)
    assert take(database, "c", box) == 1
    assert known(database) == [] and os.listdir(box) == []


def test_another_clusters_and_strange_files_are_left_out(database: Database, box: Path) -> None:
    leave(box, SLURM_CLUSTER_NAME="d")
    secret = box.parent / "secret"
    secret.write_bytes(b"1\0SLURM_JOB_ID=99")
    (box / "prologctld.99.0.1").symlink_to(secret)
    os.mkfifo(box / "prologctld.98.0.1")
    (box / ".prologctld.97.0.1").write_bytes(b"1\0SLURM_JOB_ID=97")
    (box / "notes").write_text("keep")
    assert take(database, "c", box) == 3
    assert [known(database, job) for job in (42, 97, 98, 99)] == [[]] * 4
    assert sorted(os.listdir(box)) == [".prologctld.97.0.1", "notes"] and secret.exists()


def test_nothing_is_taken_that_was_not_stored(database: Database, box: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> int:
        raise SQLAlchemyError("disk is full")

    path = leave(box)
    monkeypatch.setattr(facts, "keep", full)
    with pytest.raises(SQLAlchemyError):
        take(database, "c", box)
    assert path.exists()


def test_a_missing_folder_and_one_open_to_others(database: Database, box: Path) -> None:
    async def look() -> None:
        with pytest.raises(asyncio.TimeoutError):
            await asyncio.wait_for(spool.fetch(database, "c", folder), 0.5)

    folder = box / "none"
    asyncio.run(look())
    folder = box / "open"
    folder.mkdir()
    folder.chmod(0o1777)
    path = leave(folder)
    asyncio.run(look())
    assert path.exists() and known(database) == []
    folder.chmod(0o770)
    asyncio.run(look())
    assert not path.exists() and len(known(database)) == 1


def test_the_route_shows_every_attempt(
    client: TestClient, viewer: dict[str, str], database: Database, box: Path
) -> None:
    leave(box, SLURM_JOB_PARTITION="main")
    take(database, "c", box)
    (seen,) = client.get("/api/v1/jobs/c/42/facts", headers=viewer).json()["items"]
    assert (seen["job_id"], seen["partition"], seen["ended_at"]) == (42, "main", None)
    assert client.get("/api/v1/jobs/c/43/facts", headers=viewer).json()["items"] == []


def test_a_value_of_any_length_is_bounded() -> None:
    data = b"1\0SLURM_JOB_NODELIST=" + b"n" * 70_000 + b"\0SLURM_JOB_ID=4"
    assert JobFacts.parse(data).nodelist is None and JobFacts.parse(data).job_id == 4
    assert JobFacts.parse(data + b"x" * MAX_BYTES).job_id in (None, 4)
