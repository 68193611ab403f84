"""A migrated database in a file, a store on it, and the whole application over a fake controller."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from starlette.testclient import TestClient

from api.app import create_app
from api.auth.grants import Grant, token_of
from api.settings import ServerSettings
from api.store.database import Database
from api.store.migrate import upgrade
from api.store.store import Store
from tests.api.fakes import FakeController

MakeToken = Callable[[Grant], str]


@pytest.fixture
def database(tmp_path: Path) -> Iterator[Database]:
    made = Database(f"sqlite:///{tmp_path}/server.db")
    upgrade(made)
    yield made
    made.close()


@pytest.fixture
def store(database: Database) -> Store:
    return Store(database)


@pytest.fixture
def controller() -> FakeController:
    return FakeController()


@pytest.fixture
def settings() -> ServerSettings:
    return ServerSettings(cluster="c", body_limit=64 * 1024, ingest_limit=256 * 1024, inflated_limit=1024 * 1024)


@pytest.fixture
def client(store: Store, controller: FakeController, settings: ServerSettings) -> Iterator[TestClient]:
    with TestClient(create_app(store, controller, settings), base_url="http://localhost") as made:
        yield made


@pytest.fixture
def token(store: Store) -> MakeToken:
    return lambda grant: store.create_token(token_of(grant, "test"))[1]


@pytest.fixture
def agent(token: MakeToken) -> dict[str, str]:
    return _bearer(token(Grant(role="agent", cluster="c", node="n1")))


@pytest.fixture
def viewer(token: MakeToken) -> dict[str, str]:
    return _bearer(token(Grant(role="viewer")))


@pytest.fixture
def operator(token: MakeToken) -> dict[str, str]:
    return _bearer(token(Grant(role="operator")))


@pytest.fixture
def admin(token: MakeToken) -> dict[str, str]:
    return _bearer(token(Grant(role="admin")))


def _bearer(secret: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {secret}"}
