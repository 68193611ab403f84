"""Alembic runs this for every migration, on the connection that api.store.migrate gives it."""

from __future__ import annotations

from alembic import context

# One transaction for all steps, on SQLite too: a step that fails leaves the database as it was.
context.configure(connection=context.config.attributes["connection"], transactional_ddl=True)
with context.begin_transaction():
    context.run_migrations()
