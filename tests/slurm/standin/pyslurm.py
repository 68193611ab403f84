"""A stand-in for pyslurm with the part of its surface that was tried against the real one (25.11), and no more.

Its cluster is the JSON file that SLURM_CONF names, so that it outlives the worker and a test can change it.
"""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from typing import Any

CONF = Path(os.environ["SLURM_CONF"])


class RPCError(Exception):
    """What slurmctld refuses."""


class Node:
    """One node, or the changes for one."""

    __slots__ = (
        "allocated_gres",
        "boot_time",
        "comment",
        "configured_gres",
        "extra",
        "name",
        "next_state",
        "partitions",
        "reason",
        "reason_time",
        "reason_user",
        "state",
    )

    name: str | None
    state: Any
    reason: Any

    def __init__(self, name: str | None = None, **changes: Any) -> None:
        for slot in self.__slots__:
            setattr(self, slot, None)
        self.name = name
        for key, value in changes.items():
            setattr(self, key, value)

    @staticmethod
    def load(name: str) -> Node:
        """Load one node."""
        kept = _cluster()["nodes"].get(name)
        if kept is None:
            raise RPCError(f"Node '{name}' does not exist")
        return Node(name, **kept)

    def modify(self, changes: Node) -> None:
        """Send the changes."""
        cluster = _cluster()
        if cluster.get("denied"):
            raise RPCError("Invalid user id")
        kept = cluster["nodes"].get(self.name)
        if kept is None:
            raise RPCError("Invalid node name specified")
        if changes.state == "RESUME":
            if "DRAIN" not in kept["state"] and "DOWN" not in kept["state"]:
                raise RPCError("Invalid node state transition")
            kept["state"] = "IDLE+NOT_RESPONDING"  # and the old reason stays
        elif changes.state == "DRAIN" and "DRAIN" not in kept["state"]:
            kept["state"] += "+DRAIN"
        if changes.reason is not None:
            kept.update(reason=changes.reason, reason_user="root", reason_time=int(time.time()))
        new = CONF.with_suffix(".new")
        new.write_text(json.dumps(cluster))
        new.replace(CONF)


class Nodes(dict[str, Node]):
    """All nodes by name."""

    @staticmethod
    def load() -> Nodes:
        """Load every node."""
        return Nodes((name, Node(name, **kept)) for name, kept in _cluster()["nodes"].items())


def _cluster() -> dict[str, Any]:
    cluster: dict[str, Any] = json.loads(CONF.read_text())
    if fault := cluster.get("fault"):
        _do(fault)
    return cluster


def _do(fault: str) -> None:
    """Behave as libslurm does at its worst."""
    if fault == "hang":
        time.sleep(60)
    if fault == "fatal":
        os.write(2, b"fatal: Unable to process configuration file\n")
        os._exit(1)
    if fault == "prints":
        os.write(1, b"libslurm speaks on standard output\n" * 5000)
    if fault == "unreachable":
        raise RPCError("Unable to contact slurm controller (connect failure)")
    if fault == "huge":
        raise ValueError("x" * 10_000)


if CONF.exists() and '"no import"' in CONF.read_text():
    raise ImportError("libslurmfull.so: cannot open shared object file")
