"""The central service is measured as it is deployed: one process on SQLite, beside a real slurmctld if there is one."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import datetime, timezone
from pathlib import Path

from api.store.database import Database
from api.store.migrate import upgrade
from api.store.store import Store
from api.store.views import TokenView
from benchmarks.ground import CLUSTER, Ground, Service
from deploy.simcluster import lab_ground, ports
from deploy.simcluster.lab_ground import LabError
from deploy.simcluster.slurm_lab import SlurmLab, stop_at


class Controller(SlurmLab):
    """Slurm's controller alone: its nodes exist in slurm.conf only, which is all that the central service reads."""

    def start(self) -> None:
        """Start munged and slurmctld, and no slurmd."""
        lab_ground.prepare(self.base, devices=0)
        self._reserved = ports.reserve(1 + len(self.names))
        self.configure(extra_conf=self._extra)
        self._start_munged()
        self.start_slurmctld()
        self.wait_for(self._answers, 30, lambda: f"slurmctld does not answer; see {self.base}/log")

    def _answers(self) -> bool:
        return self.run(["scontrol", "ping"], check=False).returncode == 0


@contextmanager
def slurm(ground: Ground, nodes: int) -> Iterator[Path | None]:
    """The slurm.conf of a running controller, None where this machine cannot run one; ended with all it started."""
    folder = ground.base / "slurm"
    folder.mkdir()
    conf: Path | None = None
    try:
        with suppress(LabError, OSError):
            lab = Controller(folder, nodes, gpus=0, hooks={"Prolog": Path(ground.prolog)}, cluster=CLUSTER)
            lab.start()
            conf = lab.conf
        yield conf
    finally:
        stop_at(folder)


def start_server(ground: Ground, slurm_conf: Path | None) -> Service:
    """Start the central service over an empty database and wait until it listens."""
    home = ground.base / "server"
    home.mkdir(mode=0o700)
    url = f"sqlite:///{home}/nodevet.db"
    config = home / "server.toml"
    config.write_text(
        f'[server]\nhost = "127.0.0.1"\nport = 0\ndb = "{url}"\ncluster = "{CLUSTER}"\n'
        f'slurm_conf = "{slurm_conf or ""}"\npolicy_dir = "{ground.base}/policy.d"\n'
    )
    database = Database(url)
    upgrade(database)
    store = Store(database)
    ground.spawn("server", [sys.executable, "-I", "-m", "daemon", "server", "--config", config])
    log = ground.base / "log" / "server.log"
    ground.wait_for(lambda: _port(log) > 0, 30, lambda: "the central service does not listen")
    return Service(f"http://127.0.0.1:{_port(log)}", lambda node: _token(store, node))


def _port(log: Path) -> int:
    found = re.search(r"listening on http://127\.0\.0\.1:(\d+)", log.read_text())
    return int(found[1]) if found else 0


def _token(store: Store, node: str) -> str:
    now = datetime.now(timezone.utc)
    view = TokenView(
        id=0, prefix="", role="agent", cluster=CLUSTER, node=node, scopes=(), label=f"benchmark {node}",
        created_at=now, created_by="benchmarks", expires_at=None, revoked_at=None,
    )  # fmt: skip
    return store.create_token(view)[1]
