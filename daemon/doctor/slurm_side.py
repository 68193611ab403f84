"""Slurm is asked what it runs with, whether it knows this node and whether this account may drain."""

from __future__ import annotations

import os
import pwd
import socket
from collections.abc import Iterator
from datetime import datetime, timezone
from pathlib import Path

from slurm.commands import Commands
from slurm.doctor import Advice, Running, rights
from slurm.errors import SlurmError
from slurm.proof import prove_writes
from slurm.run import SAFE_PATH, TIMEOUT, Run

ACCOUNT = "nodevet-server"
MUNGE = "/run/munge/munge.socket.2"
GRES_LIMIT = 4 * 1024 * 1024


def running_config(run: Run, env: dict[str, str]) -> tuple[Running, datetime]:
    """The running configuration and the moment in the middle of the question; raises SlurmError."""
    begun = datetime.now(timezone.utc)
    argv = ("scontrol", "show", "config")
    ended = run(argv, env=env, timeout=TIMEOUT, step="scontrol show config")
    if ended.code != 0:
        from slurm.errors import error_for

        raise error_for((ended.err + b" " + ended.out).decode("utf-8", "replace")[:4000], step="scontrol show config")
    now = datetime.now(timezone.utc)
    return Running.read(ended.out.decode("utf-8", "replace")), begun + (now - begun) / 2


def environment(conf: str) -> dict[str, str]:
    """What a command of Slurm is given: no more than the backend itself gives, so that the proof is of the same way."""
    found = {"LC_ALL": "C", "TZ": "UTC", "PATH": SAFE_PATH}
    return found | ({"SLURM_CONF": conf} if conf else {})


def user() -> str:
    """The account that asks."""
    try:
        return pwd.getpwuid(os.geteuid()).pw_name
    except KeyError:
        return f"uid {os.geteuid()}"


def may_drain(backend: Commands, *, service: bool) -> Advice:
    """Prove the way of a drain to slurmctld and its answer, without a node."""
    error: SlurmError | None = None
    try:
        prove_writes(backend)
    except SlurmError as found:
        error = found
    return rights.drain_right(error, user(), root=os.geteuid() == 0, service=service)


def account_level(running: Running, run: Run, env: dict[str, str]) -> Iterator[Advice]:
    """The service's account in Slurm's accounting, where both exist."""
    if "slurmdbd" not in running.value("AccountingStorageType") or not _exists(ACCOUNT):
        return
    argv = ("sacctmgr", "-nP", "show", "user", ACCOUNT, "format=user,adminlevel")
    try:
        ended = run(argv, env=env, timeout=TIMEOUT, step="sacctmgr show user")
    except SlurmError:
        return
    if ended.code == 0:
        yield rights.admin_level(ended.out.decode("utf-8", "replace"), ACCOUNT, running.limits.slurm_user)


def _exists(account: str) -> bool:
    try:
        pwd.getpwnam(account)
    except KeyError:
        return False
    return True


def node_and_gpus(backend: Commands, node: str, gres_conf: Path) -> Iterator[Advice]:
    """Whether Slurm knows the node, and what it and gres.conf say of its GPUs."""
    try:
        nodes = backend.nodes()
    except SlurmError as error:
        yield rights.slurm_silent(error)
        return
    yield rights.node_known(node, nodes)
    if node in nodes and (advice := rights.gpus_promised(nodes[node], _text(gres_conf))):
        yield advice


def _text(path: Path) -> str | None:
    try:
        with path.open("rb") as file:
            return file.read(GRES_LIMIT).decode("utf-8", "replace")
    except OSError:
        return None


def munge(auth_info: str) -> Advice:
    """Whether MUNGE's socket takes a connection."""
    path = next((w.partition("=")[2] for w in auth_info.split(",") if w.strip().startswith("socket=")), "") or MUNGE
    trouble = ""
    with socket.socket(socket.AF_UNIX) as asking:
        asking.settimeout(2.0)
        try:
            asking.connect(path)
        except (OSError, ValueError) as error:
            trouble = getattr(error, "strerror", None) or str(error)
    return rights.munge(path, trouble)
