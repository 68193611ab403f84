"""Job facts that Slurm's own programs left beside slurmctld are stored, and only then taken away."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import re
import stat
from datetime import datetime, timezone
from pathlib import Path

from sqlalchemy.exc import SQLAlchemyError

from api.store import facts
from api.store.database import Database
from api.store.facts import Edge
from slurm.jobfacts import MAX_BYTES, JobFacts

log = logging.getLogger(__name__)
EVERY = 2.0
AT_ONCE = 500
_NAME = re.compile(r"(prologctld|epilogctld)\.[0-9]{1,20}\.[0-9]{1,20}\.[0-9]{1,10}")
_EDGES: dict[str, Edge] = {"prologctld": "start", "epilogctld": "end"}


async def fetch(database: Database, cluster: str, folder: Path) -> None:
    """Look every two seconds, for ever; a folder that is not there means that nobody leaves anything."""
    told = ""
    while True:
        try:
            trouble = await asyncio.to_thread(_trouble, folder)
            if not trouble:
                while await asyncio.to_thread(take, database, cluster, folder) == AT_ONCE:
                    continue
        except (OSError, SQLAlchemyError) as error:
            trouble = f"{type(error).__name__}: {error}"
        if trouble != told:
            log.log(logging.ERROR if trouble else logging.INFO, "job spool %s: %s", folder, trouble or "read again")
            told = trouble
        await asyncio.sleep(EVERY)


def _trouble(folder: Path) -> str:
    """Why the folder is not read: whoever can write there can tell us about jobs."""
    try:
        seen = folder.lstat()
    except FileNotFoundError:
        return ""
    if not stat.S_ISDIR(seen.st_mode) or seen.st_mode & stat.S_IWOTH:
        return "not a directory, or writable by others: not read"
    return ""


def take(database: Database, cluster: str, folder: Path) -> int:
    """Store what lies there, at most 500 files, and remove them; how many were looked at."""
    try:
        names = sorted(name for name in os.listdir(folder) if _NAME.fullmatch(name))[:AT_ONCE]
    except FileNotFoundError:
        return 0
    found = [(_EDGES[name.partition(".")[0]], JobFacts.parse(_read(folder / name))) for name in names]
    if found:
        now = datetime.now(timezone.utc)
        with database.begin() as connection:
            facts.keep(connection, cluster, found, now)
    for name in names:
        with contextlib.suppress(FileNotFoundError):
            (folder / name).unlink()
    return len(names)


def _read(path: Path) -> bytes:
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return b""
    with os.fdopen(fd, "rb") as file:
        return file.read(MAX_BYTES) if stat.S_ISREG(os.fstat(fd).st_mode) else b""
