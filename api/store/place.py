"""Where the database lies: its directory, whose it is, and that only one server works on it."""

from __future__ import annotations

import contextlib
import fcntl
import os
from collections.abc import Iterator
from pathlib import Path

from sqlalchemy.exc import ArgumentError, NoSuchModuleError

from api.store.database import Database


class NoPlace(Exception):
    """The database cannot be used where it is said to be."""


def open_database(url: str, *, make: bool = True) -> Database:
    """The database; a directory that is missing is made, for us alone, or with ``make`` off nothing is."""
    try:
        database = Database(url)
    except (ArgumentError, NoSuchModuleError, ModuleNotFoundError) as error:
        raise NoPlace(f"database {url.partition('://')[0][:32]!r}: {error}") from error
    if path := _file(database):
        if not make and not path.exists():
            raise NoPlace(f"database {path} does not exist: run nodevet db upgrade, or name the right one")
        try:
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        except OSError as error:
            raise NoPlace(f"database {path}: {error.strerror}") from error
    return database


@contextlib.contextmanager
def alone(database: Database) -> Iterator[None]:
    """Hold an SQLite database for one server: two would hand out the guard's head-room twice."""
    path = f"{_file(database)}.lock"
    try:
        handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    except OSError as error:
        raise NoPlace(f"lock {path}: {error.strerror}") from error
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield
    except BlockingIOError as error:
        raise NoPlace(f"database {_file(database)} is in use by another server") from error
    finally:
        os.close(handle)


def hand_over(database: Database) -> None:
    """What root makes in the directory of the server's account belongs to that account."""
    path = _file(database)
    if path is None or os.geteuid() != 0 or not path.exists():
        return
    owner = path.parent.stat()
    for file in (path, Path(f"{path}-wal"), Path(f"{path}-shm")):
        with contextlib.suppress(FileNotFoundError):
            os.chown(file, owner.st_uid, owner.st_gid, follow_symlinks=False)


def _file(database: Database) -> Path | None:
    path = database.engine.url.database
    return Path(path) if database.is_sqlite and path and path != ":memory:" else None
