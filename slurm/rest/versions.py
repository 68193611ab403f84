"""Each version of slurmrestd's API that answers differently has its own adapter, one step each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from slurm.batch import PATH, Batch
from slurm.errors import ReadOnly, Unsupported
from slurm.reservation import Reservation


class Api(Protocol):
    """What differs between versions: a path and a method for each wish, or the error that says why there is none."""

    @property
    def version(self) -> str:
        """The version as it stands in a path."""
        ...

    def drain(self, reason: str) -> Mapping[str, object]:
        """Return the body that drains a node."""
        ...

    def set_reason(self, reason: str) -> Mapping[str, object]:
        """Return the body that changes a node's reason alone."""
        ...

    def resume(self) -> Mapping[str, object]:
        """Return the body that resumes a node."""
        ...

    def requeue(self, job_id: int) -> str:
        """Return the path whose GET requeues a job."""
        ...

    def conf(self) -> str:
        """Return the path of the running configuration."""
        ...

    def set_note(self, field: str, text: str) -> Mapping[str, object]:
        """Return the body that changes a node's comment or extra."""
        ...

    def set_job_note(self, text: str) -> Mapping[str, object]:
        """Return the body that changes a job's AdminComment."""
        ...

    def submit(self, batch: Batch) -> Mapping[str, object]:
        """Return the body that hands in a job."""
        ...

    def reserve(self, wish: Reservation, now: int) -> Mapping[str, object]:
        """Return the body that creates a reservation; ``now`` in seconds since 1970."""
        ...

    def up(self, ping: Mapping[str, object]) -> bool:
        """Whether one entry of a ping says that this slurmctld answers."""
        ...


@dataclass(frozen=True, slots=True)
class V38:
    """v0.0.38 (22.05, 23.02): its nodes cannot be changed at all."""

    version: str = "v0.0.38"

    def drain(self, reason: str) -> Mapping[str, object]:
        """Raise ReadOnly."""
        raise ReadOnly(f"API {self.version} of slurmrestd cannot change nodes: v0.0.40 (23.11) and later can")

    def set_reason(self, reason: str) -> Mapping[str, object]:
        """Raise ReadOnly."""
        return self.drain(reason)

    def resume(self) -> Mapping[str, object]:
        """Raise ReadOnly."""
        return self.drain("")

    def requeue(self, job_id: int) -> str:
        """Raise Unsupported."""
        raise Unsupported(f"API {self.version} of slurmrestd cannot requeue jobs: v0.0.45 (26.05) can")

    def conf(self) -> str:
        """Raise Unsupported."""
        raise Unsupported(f"API {self.version} of slurmrestd does not tell the configuration: v0.0.45 (26.05) does")

    def set_note(self, field: str, text: str) -> Mapping[str, object]:
        """Raise ReadOnly."""
        return self.drain("")

    def set_job_note(self, text: str) -> Mapping[str, object]:
        """Raise Unsupported."""
        raise Unsupported(f"API {self.version} of slurmrestd has no admin comment to write: v0.0.40 (23.11) has")

    def submit(self, batch: Batch) -> Mapping[str, object]:
        """Raise Unsupported: a job could not be sent to the nodes it is meant for."""
        raise Unsupported(f"API {self.version} of slurmrestd cannot name a job's nodes: v0.0.40 (23.11) can")

    def reserve(self, wish: Reservation, now: int) -> Mapping[str, object]:
        """Raise Unsupported."""
        raise Unsupported(f"API {self.version} of slurmrestd cannot create reservations: v0.0.43 (25.05) can")

    def up(self, ping: Mapping[str, object]) -> bool:
        """Read ``"ping": "UP"``."""
        return ping.get("ping") == "UP"


@dataclass(frozen=True, slots=True)
class V40(V38):
    """v0.0.40 to v0.0.42 (23.11 to 24.11): nodes can be changed."""

    version: str = "v0.0.40"

    def drain(self, reason: str) -> Mapping[str, object]:
        """Return the body that drains a node."""
        return {"state": ["DRAIN"], "reason": reason}

    def set_reason(self, reason: str) -> Mapping[str, object]:
        """Return the body that changes a node's reason alone."""
        return {"reason": reason}

    def resume(self) -> Mapping[str, object]:
        """Return the body that resumes a node."""
        return {"state": ["RESUME"]}

    def set_note(self, field: str, text: str) -> Mapping[str, object]:
        """Return the body that changes a node's comment or extra."""
        return {field: text}

    def set_job_note(self, text: str) -> Mapping[str, object]:
        """Return the body that changes a job's AdminComment."""
        return {"admin_comment": text}

    def submit(self, batch: Batch) -> Mapping[str, object]:
        """Return the body that hands in a job."""
        job: dict[str, object] = {
            "name": batch.name,
            "minimum_nodes": len(batch.nodes),
            "required_nodes": list(batch.nodes),
            "time_limit": {"set": True, "infinite": False, "number": batch.minutes},
            "standard_output": batch.output,
            "current_working_directory": "/",
            "requeue": False,
            "environment": [f"PATH={PATH}"],
        }
        job |= {key: word for key in ("partition", "reservation") if (word := getattr(batch, key))}
        job |= {"tres_per_node": f"gres/{batch.gres}"} if batch.gres else {}
        job |= {"shared": ["none"]} if batch.exclusive else {}
        return {"job": job, "script": f"#!/bin/sh\n{batch.command}\n"}

    def up(self, ping: Mapping[str, object]) -> bool:
        """Read ``"responding": true``."""
        return ping.get("responding") is True or ping.get("pinged") == "UP"


@dataclass(frozen=True, slots=True)
class V43(V40):
    """v0.0.43 and v0.0.44 (25.05, 25.11): reservations can be created."""

    version: str = "v0.0.43"

    def reserve(self, wish: Reservation, now: int) -> Mapping[str, object]:
        """Return the body that creates a reservation."""
        return {
            "name": wish.name,
            "node_list": list(wish.nodes),
            "users": list(wish.users),
            "flags": list(wish.flags),
            "start_time": {"set": True, "infinite": False, "number": now},
            "duration": {"set": True, "infinite": False, "number": wish.minutes},
        }


@dataclass(frozen=True, slots=True)
class V45(V43):
    """v0.0.45 (26.05): jobs can be requeued and the configuration is told."""

    version: str = "v0.0.45"

    def requeue(self, job_id: int) -> str:
        """Return the path; it is a GET, as strange as that is, and takes no body."""
        return f"/job/{job_id}/requeue"

    def conf(self) -> str:
        """Return the path of the running configuration."""
        return "/conf"


APIS: Sequence[Api] = (V45(), V43("v0.0.44"), V43(), V40("v0.0.42"), V40("v0.0.41"), V40(), V38())
"""All that is spoken here, newest first."""


def named(version: str) -> Api:
    """Return the adapter of one version; ValueError when there is none."""
    for api in APIS:
        if api.version == version:
            return api
    raise ValueError(f"API version {version!r}, expected one of {', '.join(api.version for api in APIS)}")
