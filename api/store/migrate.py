"""The schema is brought up by code, in one transaction, and never by a program older than the database."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from alembic import command
from alembic.config import Config
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Connection
from sqlalchemy.exc import SQLAlchemyError

import api.alerts.tables
import api.controller.operation_tables
import api.controller.service_tables
import api.controller.tables
import api.remedy.tables
import api.store.job_tables
import api.store.part_tables
import api.store.past_tables
import api.store.tables  # noqa: F401 - all put their tables on the metadata
from api.store.base import metadata as metadata
from api.store.database import Database

_SCRIPTS = Path(__file__).parent / "migrations"


class SchemaError(Exception):
    """The database's schema is not one that this program can work with."""


def head() -> str:
    """The revision that this program works with."""
    return ScriptDirectory(str(_SCRIPTS)).get_current_head() or ""


def revision(database: Database) -> str | None:
    """The database's revision, None when it is empty; raises SchemaError where it cannot be read."""
    try:
        with database.read() as connection:
            return MigrationContext.configure(connection).get_current_revision()
    except SQLAlchemyError as error:
        raise SchemaError(f"database cannot be read: {error.__cause__ or error}") from error


def check(database: Database) -> None:
    """Raise SchemaError unless the database is at this program's revision."""
    found = revision(database)
    if found == head():
        return
    _refuse_newer(found)
    raise SchemaError(f"database is at revision {found or 'none'}, expected {head()}: run nodevet db upgrade")


def upgrade(database: Database) -> bool:
    """Bring the schema up; whether there was anything to do."""
    found = revision(database)
    if found == head():
        return False
    _refuse_newer(found)
    with _exclusive(database) as connection:
        command.upgrade(_config(connection), "head")
    return True


def downgrade(database: Database, to: str) -> None:
    """Take the schema back to a revision, ``base`` for nothing; what only newer tables held is lost."""
    with _exclusive(database) as connection:
        command.downgrade(_config(connection), to)


def _refuse_newer(found: str | None) -> None:
    known = {script.revision for script in ScriptDirectory(str(_SCRIPTS)).walk_revisions()}
    if found is not None and found not in known:
        raise SchemaError(f"database is at revision {found}, newer than this program ({head()})")


@contextmanager
def _exclusive(database: Database) -> Iterator[Connection]:
    """A write transaction that holds schema changes too, and keeps other processes out meanwhile."""
    try:
        with database.begin() as connection:
            if database.is_sqlite:
                connection.exec_driver_sql("BEGIN IMMEDIATE")
            yield connection
    except SQLAlchemyError as error:
        raise SchemaError(f"schema was not changed: {error.__cause__ or error}") from error


def _config(connection: Connection) -> Config:
    config = Config()
    config.set_main_option("script_location", str(_SCRIPTS).replace("%", "%%"))
    config.set_main_option("path_separator", "os")
    config.attributes["connection"] = connection
    return config
