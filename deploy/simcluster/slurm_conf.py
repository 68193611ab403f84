"""The slurm.conf and gres.conf of a lab hold what a cluster of many slurmd on one machine needs, and no more."""

from __future__ import annotations

import socket
from collections.abc import Mapping, Sequence
from pathlib import Path


def hostname() -> str:
    """Return this machine's short name as slurmctld compares it with SlurmctldHost and NodeHostname."""
    return socket.gethostname().partition(".")[0]


def slurm_conf(
    base: Path,
    *,
    nodes: Sequence[str],
    ports: Sequence[int],
    cluster: str,
    gpus: int,
    cpus: int,
    hooks: Mapping[str, Path],
    extra: str,
) -> str:
    """Return slurm.conf; a ``Key=Value`` line of ``extra`` replaces the same key instead of standing twice.

    ``ports`` has slurmctld's port first, then one per node.
    """
    settings = _settings(base, cluster, ports[0])
    settings.update({key: str(path) for key, path in hooks.items()})
    if gpus:
        settings["GresTypes"] = "gpu"
    free = []
    for line in extra.splitlines():
        key, equals, value = line.strip().partition("=")
        if equals and key not in {"NodeName", "PartitionName", "DownNodes"} and not key.startswith("#"):
            settings[key] = value
        elif line.strip():
            free.append(line.strip())
    gres = f" Gres=gpu:{gpus}" if gpus else ""
    shape = f"CPUs={cpus} Boards=1 SocketsPerBoard=1 CoresPerSocket={cpus} ThreadsPerCore=1 RealMemory=4096"
    lines = [f"{key}={value}" for key, value in settings.items()]
    lines += [
        f"NodeName={name} NodeHostname={hostname()} NodeAddr=127.0.0.1 Port={port} {shape}{gres} State=UNKNOWN"
        for name, port in zip(nodes, ports[1:], strict=True)
    ]
    if not any(line.startswith("PartitionName=") for line in free):
        lines.append("PartitionName=main Nodes=ALL Default=YES MaxTime=INFINITE State=UP")
    return "\n".join(["# Nodevet lab: the hardware of these nodes is simulated", *lines, *free, ""])


def _settings(base: Path, cluster: str, port: int) -> dict[str, str]:
    return {
        "ClusterName": cluster,
        "SlurmctldHost": f"{hostname()}(127.0.0.1)",
        "SlurmctldPort": str(port),
        "SlurmUser": "slurm",
        "AuthType": "auth/munge",
        # cred_expire of 5 s is for a lab only: it is how long a job refused by a Prolog waits.
        "AuthInfo": f"socket={base}/run/munge.sock,cred_expire=5",
        "StateSaveLocation": f"{base}/state",
        "SlurmdSpoolDir": f"{base}/spool/%n",
        "SlurmctldPidFile": f"{base}/pid/slurmctld.pid",
        "SlurmdPidFile": f"{base}/pid/slurmd-%n.pid",
        "SlurmctldLogFile": f"{base}/log/slurmctld.log",
        "SlurmdLogFile": f"{base}/log/slurmd-%n.log",
        "SlurmctldDebug": "verbose",
        "SlurmdDebug": "verbose",
        "ProctrackType": "proctrack/linuxproc",
        "TaskPlugin": "task/none",
        "JobAcctGatherType": "jobacct_gather/none",
        "MpiDefault": "none",
        "ReturnToService": "2",
        "SelectType": "select/cons_tres",
        "SelectTypeParameters": "CR_Core",
        "SlurmctldTimeout": "30",
        "SlurmdTimeout": "30",
        "MessageTimeout": "10",
        "BatchStartTimeout": "120",
        "KillWait": "5",
        "MinJobAge": "300",
        "SlurmdParameters": "config_overrides",
        "SchedulerParameters": "nohold_on_prolog_fail,bf_interval=1,sched_interval=1,batch_sched_delay=0",
        "PrologFlags": "Alloc",
        "TreeWidth": "50",
    }


def gres_conf(nodes: Sequence[str], gpus: int, files: str) -> str:
    """Return gres.conf; ``files`` ends where the digits begin, ``{node}`` in it stands for the node's name."""
    if not gpus:
        return ""
    last = f"[0-{gpus - 1}]" if gpus > 1 else "0"
    return "".join(f"NodeName={name} Name=gpu File={files.format(node=name)}{last}\n" for name in nodes)
