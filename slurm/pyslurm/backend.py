"""The backend that asks pyslurm about nodes, in a worker, and the commands about everything else."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from slurm.backend import AfterReboot, Backend, Field
from slurm.batch import Batch
from slurm.config import SlurmLimits
from slurm.errors import BadAnswer, NotFound, SlurmError, error_for
from slurm.job import JobState
from slurm.names import checked_node, checked_reason
from slurm.nodes import number, time_from_json
from slurm.pyslurm.process import Worker
from slurm.reservation import Reservation, Reserved
from slurm.run import SAFE_PATH, TIMEOUT
from slurm.state import NodeState, Reason
from slurm.topology import Topology
from slurm.words import state_text

WORKER = Path(__file__).with_name("worker.py")


class PySlurm:
    """Talks to slurmctld through libslurm.

    ``python`` is the interpreter that has pyslurm, by default our own. What is not about a node's state (jobs, notes,
    reboots, reservations, limits, pings) is asked of ``beside``: where libslurm is installed, so are the commands.
    """

    def __init__(
        self,
        *,
        beside: Backend,
        conf: Path | None = None,
        timeout: float = TIMEOUT,
        python: str = sys.executable,
        argv: Sequence[str] | None = None,
    ) -> None:
        env = {"LC_ALL": "C", "TZ": "UTC", "PATH": SAFE_PATH} | ({"SLURM_CONF": str(conf)} if conf else {})
        self._worker = Worker(argv or [python, "-I", str(WORKER)], env)
        self._timeout = timeout
        self._beside = beside

    def close(self) -> None:
        """End the worker; another question starts another one."""
        self._worker.close()

    def node(self, name: str) -> NodeState:
        """Return one node, or raise NotFound."""
        found = self._nodes({"do": "load", "name": checked_node(name)}, "pyslurm node")
        if name not in found:
            raise NotFound(f"pyslurm node: node {name} is not in the answer")
        return found[name]

    def nodes(self) -> dict[str, NodeState]:
        """Return every node by name, in one question; an answer without any node is a BadAnswer."""
        found = self._nodes({"do": "load"}, "pyslurm nodes")
        if not found:
            raise BadAnswer("pyslurm nodes: no node in the answer")
        return found

    def drain(self, name: str, reason: str) -> None:
        """Let running jobs end and start no other on the node; a reason that stands there is overwritten."""
        self._modify(name, {"state": "DRAIN", "reason": checked_reason(reason)}, "pyslurm drain")

    def set_reason(self, name: str, reason: str) -> None:
        """Overwrite the reason and leave the state alone."""
        self._modify(name, {"reason": checked_reason(reason)}, "pyslurm reason")

    def resume(self, name: str) -> None:
        """Give the node back to the scheduler."""
        self._modify(name, {"state": "RESUME"}, "pyslurm resume")

    def job(self, job_id: int) -> JobState | None:
        """Return one job; None when slurmctld does not remember it."""
        return self._beside.job(job_id)

    def requeue(self, job_id: int) -> None:
        """Stop the job where it runs and queue it again under the same id."""
        self._beside.requeue(job_id)

    def set_note(self, name: str, field: Field, text: str) -> None:
        """Overwrite a text that belongs to others as well."""
        self._beside.set_note(name, field, text)

    def reboot(self, name: str, reason: str, *, asap: bool = True, then: AfterReboot | None = "resume") -> None:
        """Have the node rebooted once no job runs there; with ``asap`` none starts there meanwhile."""
        self._beside.reboot(name, reason, asap=asap, then=then)

    def cancel_reboot(self, name: str) -> None:
        """Take back a reboot that has not begun, or raise InvalidTransition."""
        self._beside.cancel_reboot(name)

    def job_note(self, job_id: int) -> str:
        """Return the job's AdminComment; NotFound when slurmctld does not remember the job."""
        return self._beside.job_note(job_id)

    def set_job_note(self, job_id: int, text: str) -> None:
        """Overwrite the job's AdminComment."""
        self._beside.set_job_note(job_id, text)

    def submit(self, batch: Batch) -> int:
        """Hand in a job as the account we are, and return its id."""
        return self._beside.submit(batch)

    def cancel(self, job_id: int) -> None:
        """End the job wherever it is; one that has ended is left as it is."""
        self._beside.cancel(job_id)

    def reservations(self) -> dict[str, Reserved]:
        """Return every reservation by name, in one question."""
        return self._beside.reservations()

    def create_reservation(self, wish: Reservation) -> None:
        """Reserve nodes from now on, or raise Exists when the name is taken."""
        self._beside.create_reservation(wish)

    def delete_reservation(self, name: str) -> None:
        """End a reservation, or raise NotFound."""
        self._beside.delete_reservation(name)

    def limits(self) -> SlurmLimits:
        """Return the limits of the running slurmctld."""
        return self._beside.limits()

    def topology(self) -> Topology:
        """Return which nodes share a switch or a block; without any topology it is empty."""
        return self._beside.topology()

    def ping(self) -> bool:
        """Return whether any slurmctld, primary or backup, answers."""
        return self._beside.ping()

    def _modify(self, name: str, changes: Mapping[str, str], step: str) -> None:
        self._ask({"do": "modify", "name": checked_node(name), **changes}, step)

    def _nodes(self, question: Mapping[str, str], step: str) -> dict[str, NodeState]:
        told = self._ask(question, step).get("nodes")
        if not isinstance(told, list):
            raise BadAnswer(f"{step}: answer holds no list of nodes")
        items = [item for item in told if isinstance(item, Mapping) and isinstance(item.get("name"), str)]
        return {str(item["name"]): _node(item) for item in items}

    def _ask(self, question: Mapping[str, str], step: str) -> Mapping[str, object]:
        answer = self._worker.ask(question, timeout=self._timeout, step=step)
        if (kind := answer.get("error")) is None:
            return answer
        words = str(answer.get("message"))
        if kind == "RPCError":
            raise error_for(words, step=step)
        raise SlurmError(f"{step}: {kind}: {' '.join(words.split())[:300]}")


def _node(item: Mapping[str, object]) -> NodeState:
    words = state_text(str(item.get("state") or ""))
    next_state = _text(item.get("next_state"))
    return NodeState(
        name=str(item["name"]),
        base=words.base,
        flags=words.flags,
        known=words.known,
        reason=_reason(item),
        boot_time=time_from_json(item.get("boot_time")),
        slurmd_start_time=time_from_json(item.get("slurmd_start_time")),
        partitions=_list(item.get("partitions")),
        gres=_gres(item.get("configured_gres")),
        features=_list(item.get("active_features")),
        available_features=_list(item.get("available_features")),
        cpus=number(item.get("total_cpus")),
        alloc_cpus=number(item.get("allocated_cpus")),
        real_memory=number(item.get("real_memory")),
        version=_text(item.get("slurm_version")),
        comment=_text(item.get("comment")),
        extra=_text(item.get("extra")),
        next_state=next_state if next_state in {"RESUME", "DOWN"} else None,
    )


def _reason(item: Mapping[str, object]) -> Reason | None:
    text = item.get("reason")
    if not isinstance(text, str) or not text:
        return None
    return Reason(text, _text(item.get("reason_user")), time_from_json(item.get("reason_time")))


def _gres(value: object) -> str | None:
    """Write GRES as Slurm does, ``gpu:h100:8``; pyslurm has them as a dictionary of counts."""
    if not isinstance(value, Mapping):
        return _text(value)
    counts = {name: count.get("count") if isinstance(count, Mapping) else count for name, count in value.items()}
    return ",".join(f"{name}:{count}" for name, count in counts.items()) or None


def _text(value: object) -> str | None:
    return value if isinstance(value, str) and value else None


def _list(value: object) -> tuple[str, ...]:
    return tuple(part for part in value if isinstance(part, str) and part) if isinstance(value, list) else ()
