"""The schema goes up and down, is what the tables say, and is never touched by an older program."""

from __future__ import annotations

from pathlib import Path

import pytest
from alembic.autogenerate import compare_metadata
from alembic.runtime.migration import MigrationContext
from sqlalchemy import inspect, text
from sqlalchemy.exc import IntegrityError

from api.store import migrate
from api.store.database import Database
from api.store.migrate import SchemaError, check, downgrade, head, revision, upgrade
from api.store.store import Store


@pytest.fixture
def empty(tmp_path: Path) -> Database:
    return Database(f"sqlite:///{tmp_path}/empty.db")


def test_the_migrated_schema_is_what_the_tables_say(database: Database) -> None:
    with database.read() as connection:
        context = MigrationContext.configure(connection, opts={"compare_type": True})
        assert compare_metadata(context, migrate.metadata) == []


def test_every_step_goes_up_and_down_again(empty: Database) -> None:
    with pytest.raises(SchemaError, match="run nodevet db upgrade"):
        check(empty)
    assert upgrade(empty)
    check(empty)
    assert not upgrade(empty)
    downgrade(empty, "0001")
    assert revision(empty) == "0001"
    assert "drains" not in inspect(empty.engine).get_table_names()
    assert upgrade(empty)
    downgrade(empty, "base")
    assert inspect(empty.engine).get_table_names() == ["alembic_version"]
    assert revision(empty) is None
    empty.close()


def test_rows_survive_the_upgrade_from_an_older_schema(empty: Database) -> None:
    upgrade(empty)
    downgrade(empty, "0001")
    Store(empty).audit("ann", "test", "row")
    upgrade(empty)
    assert [a.actor for a in Store(empty).audit_log()] == ["ann"]
    empty.close()


def test_a_newer_schema_is_refused(database: Database) -> None:
    with database.begin() as connection:
        connection.execute(text("UPDATE alembic_version SET version_num = '9999'"))
    for attempt in (check, upgrade):
        with pytest.raises(SchemaError, match="9999, newer than this program"):
            attempt(database)


def test_a_step_that_fails_leaves_nothing_behind(empty: Database) -> None:
    with empty.begin() as connection:
        connection.execute(text("CREATE TABLE reports (a INTEGER)"))
    with pytest.raises(SchemaError, match="reports already exists"):
        upgrade(empty)
    assert inspect(empty.engine).get_table_names() == ["reports"]
    empty.close()


def test_a_file_that_is_no_database_is_said_so(tmp_path: Path) -> None:
    (tmp_path / "x.db").write_text("this is no database at all, only text" * 40)
    broken = Database(f"sqlite:///{tmp_path}/x.db")
    with pytest.raises(SchemaError, match="not a database"):
        upgrade(broken)
    broken.close()


@pytest.mark.parametrize("verb", ["UPDATE audit SET actor = 'x'", "DELETE FROM audit"])
def test_the_audit_only_grows(store: Store, verb: str) -> None:
    store.audit("ann", "test", "row")
    with pytest.raises(IntegrityError, match="only grows"), store.database.begin() as connection:
        connection.execute(text(verb))
    assert len(store.audit_log()) == 1


def test_head_is_the_newest_step() -> None:
    assert head() == sorted(p.name[1:5] for p in Path(migrate.__file__).parent.glob("migrations/versions/v*.py"))[-1]
