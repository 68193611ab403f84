"""The server process: database, controller and application under one uvicorn that ends cleanly."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import resource
import signal
import socket
import ssl
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import uvicorn
import uvloop

from api import spool
from api.alerts.sender import alerting
from api.app import create_app
from api.controller.control import Controller
from api.settings import ServerSettings, Settings
from api.slurm_door import open_backend
from api.store.database import Database
from api.store.migrate import check, upgrade
from api.store.place import alone, open_database
from api.store.store import Store
from checks.judge.policy import load_policy

log = logging.getLogger(__name__)
BACKLOG = 4096
GRACE_SECONDS = 5
DESCRIPTORS = 65_536
KEEP_ALIVE = 75
THREADS = 32


class CannotServe(Exception):
    """The server cannot start; the text says what is in its way."""


class _Server(uvicorn.Server):
    """Leaves the signals to us: uvicorn would raise them again after a clean stop."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Capture none."""
        yield


def serve(settings: Settings) -> None:
    """Run until SIGTERM or SIGINT; raises CannotServe, NoPlace, SchemaError, PolicyError or SettingsError
    before the start."""
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    for chatty in ("alembic", "uvicorn.error"):
        logging.getLogger(chatty).setLevel(logging.WARNING)
    os.umask(0o077)
    if os.geteuid() == 0:
        log.warning("runs as root: an account of its own with AdminLevel=Administrator, or SlurmUser, is enough")
    _raise_descriptors()
    with contextlib.ExitStack() as stack:
        database = open_database(settings.server.db)
        stack.callback(database.close)
        if database.is_sqlite:
            stack.enter_context(alone(database))
            upgrade(database)
        else:
            check(database)
        store = Store(database, load_policy(Path(settings.server.policy_dir)))
        try:
            backend = open_backend(settings.server, stack)
        except OSError as error:
            raise CannotServe(f"backend {settings.server.backend}: {error}") from error
        controller = Controller(
            settings.controller_settings(),
            database,
            store,
            backend,
            policy=store.policy,
            guard=settings.guard,
            remedy=settings.remedy,
        )
        store.silenced = controller.silenced
        cluster = settings.server.cluster
        stack.enter_context(alerting(settings.alerts, database, cluster, partial(_alerts_loud, store, cluster)))
        listener = stack.enter_context(_listen(settings.server))
        uvloop.run(_run(create_app(store, controller, settings.server), settings.server, listener, database))


def _alerts_loud(store: Store, cluster: str, trouble: str) -> None:
    """Alerts that nobody hears are a problem of their own, which the pages show."""
    if trouble:
        store.open_incident(cluster, "", "alerts_not_sent", "controller", trouble, "controller")
    else:
        store.close_incident(cluster, "", "alerts_not_sent", "controller", "alerts are sent again")


async def _run(app: object, settings: ServerSettings, listener: socket.socket, database: Database) -> None:
    # The usual number follows the cores; a Slurm that does not answer may hold several for seconds.
    asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor(THREADS, thread_name_prefix="worker"))
    server = _Server(_config(app, settings))
    closing: asyncio.Event = app.state.shared.closing  # type: ignore[attr-defined]

    def stop() -> None:
        server.force_exit = server.should_exit
        server.should_exit = True
        closing.set()

    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop)
    host, port = listener.getsockname()[:2]
    scheme = "https" if settings.tls_cert else "http"
    log.info("listening on %s://%s:%d cluster=%s", scheme, f"[{host}]" if ":" in host else host, port, settings.cluster)
    fetching = asyncio.create_task(spool.fetch(database, settings.cluster, Path(settings.job_spool)), name="job spool")
    await server.serve(sockets=[listener])
    fetching.cancel()
    log.info("stopped")


def _config(app: object, settings: ServerSettings) -> uvicorn.Config:
    try:
        config = uvicorn.Config(
            app,  # type: ignore[arg-type]
            log_config=None,
            access_log=False,
            server_header=False,
            proxy_headers=settings.behind_proxy,
            lifespan="on",
            backlog=BACKLOG,
            timeout_keep_alive=KEEP_ALIVE,
            timeout_graceful_shutdown=GRACE_SECONDS,
            ssl_certfile=settings.tls_cert or None,
            ssl_keyfile=settings.tls_key or None,
        )
        config.load()
    except (OSError, ssl.SSLError) as error:
        raise CannotServe(f"certificate {settings.tls_cert}: {error}") from error
    if isinstance(config.ssl, ssl.SSLContext):
        config.ssl.minimum_version = ssl.TLSVersion.TLSv1_2
    return config


@contextlib.contextmanager
def _listen(settings: ServerSettings) -> Iterator[socket.socket]:
    family = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
    try:
        listener = socket.create_server((settings.host, settings.port), family=family, backlog=BACKLOG)
    except OSError as error:
        raise CannotServe(f"address {settings.host} port {settings.port}: {error.strerror or error}") from error
    with listener:
        yield listener


def _raise_descriptors() -> None:
    """Every agent holds a poll open."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = DESCRIPTORS if hard == resource.RLIM_INFINITY else min(DESCRIPTORS, hard)
    if soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
