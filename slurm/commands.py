"""The backend that talks through scontrol, sinfo and squeue, the commands that every Slurm machine has.

JSON is asked for where the release has it, otherwise text. Commands run from absolute paths without a shell, with an
environment of their own (times in UTC), a hard limit of time and of output.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from slurm import job as jobs
from slurm.backend import AfterReboot, Field
from slurm.batch import PATH, Batch, checked_batch
from slurm.config import SlurmLimits, parse_limits, parse_version
from slurm.errors import BadAnswer, NotFound, SlurmError, Unreachable, Unsupported, error_for
from slurm.exclusions import FORMAT, Exclusion, exclusions_from_columns
from slurm.job import JobState
from slurm.names import checked_job, checked_node, checked_note, checked_reason, checked_word
from slurm.nodes import nodes_from_json, nodes_from_text
from slurm.reservation import Reservation, Reserved, checked_reservation, reservations_from_text
from slurm.run import SAFE_PATH, TIMEOUT, Ended, Run, run_command
from slurm.state import NodeState
from slurm.topology import Topology, merged, parse_topology, partition_topologies

JSON_NODES = (23, 2, 0)  # scontrol show node --json
MANY_TOPOLOGIES = (25, 5, 0)  # topology.yaml
JSON_SINFO = (21, 8, 0)  # sinfo --json, one entry a node until 22.05


class Commands:
    """Talks to slurmctld through its commands, one command a verb."""

    def __init__(
        self, run: Run | None = None, *, conf: Path | None = None, timeout: float = TIMEOUT, path: str = SAFE_PATH
    ) -> None:
        self._run = run or run_command
        self._timeout = timeout
        self._env = {"LC_ALL": "C", "TZ": "UTC", "PATH": path}
        if conf is not None:
            self._env["SLURM_CONF"] = str(conf)
        self._text_only = False
        self._version: tuple[int, int, int] | None = None

    def version(self) -> tuple[int, int, int]:
        """Return the release of the commands, such as (22, 5, 8); asked once."""
        if self._version is None:
            text = self._text("scontrol", "--version")
            self._version = parse_version(text)
        if self._version is None:
            raise BadAnswer(f"scontrol --version: {text.strip()[:100]!r} names no release")
        return self._version

    def node(self, name: str) -> NodeState:
        """Return one node, or raise NotFound."""
        question = ("scontrol", "show", "node", checked_node(name))
        found = self._nodes((*question, "--json") if self.version() >= JSON_NODES else None, question)
        if name not in found:
            raise NotFound(f"scontrol show node: node {name} is not in the answer")
        return found[name]

    def nodes(self) -> dict[str, NodeState]:
        """Return every node by name, in one question; an answer without any node is a BadAnswer."""
        question = ("scontrol", "--all", "show", "node")
        if self.version() >= JSON_NODES:
            found = self._nodes((*question, "--json"), question)
        else:
            found = self._nodes(("sinfo", "--all", "--json") if self.version() >= JSON_SINFO else None, question)
        if not found:
            raise BadAnswer(f"{' '.join(question)}: no node in the answer")
        return found

    def drain(self, name: str, reason: str) -> None:
        """Let running jobs end and start no other on the node; a reason that stands there is overwritten."""
        self._update(name, "state=drain", f"reason={checked_reason(reason)}")

    def set_reason(self, name: str, reason: str) -> None:
        """Overwrite the reason and leave the state alone."""
        self._update(name, f"reason={checked_reason(reason)}")

    def resume(self, name: str) -> None:
        """Give the node back to the scheduler."""
        self._update(name, "state=resume")

    def set_note(self, name: str, field: Field, text: str) -> None:
        """Overwrite a text that belongs to others as well."""
        self._update(name, f"{field}={checked_note(text)}")

    def reboot(self, name: str, reason: str, *, asap: bool = True, then: AfterReboot | None = "resume") -> None:
        """Have the node rebooted once no job runs there; with ``asap`` none starts there meanwhile."""
        words = [*(["asap"] if asap else []), *([f"nextstate={then}"] if then else [])]
        words.append(f"reason={checked_reason(reason)}")
        self._bytes("scontrol", "reboot", *words, checked_node(name))

    def cancel_reboot(self, name: str) -> None:
        """Take back a reboot that has not begun, or raise InvalidTransition."""
        self._bytes("scontrol", "cancel_reboot", checked_node(name))

    def job(self, job_id: int) -> JobState | None:
        """Return one job; None when slurmctld does not remember it."""
        try:
            text = self._text("squeue", "-h", "-t", "all", "-j", str(checked_job(job_id)), "-O", jobs.FORMAT)
        except NotFound:
            return None
        return jobs.job_from_columns(text, job_id)

    def requeue(self, job_id: int) -> None:
        """Stop the job where it runs and queue it again under the same id."""
        self._bytes("scontrol", "requeue", str(checked_job(job_id)))

    def job_note(self, job_id: int) -> str:
        """Return the job's AdminComment; NotFound when slurmctld does not remember the job."""
        ended = self._ended("squeue", "-h", "-t", "all", "-j", str(checked_job(job_id)), "-O", jobs.NOTE_FORMAT)
        if ended.code != 0:
            raise error_for(_said(ended), step="squeue")
        return jobs.note_from_columns(ended.out, job_id)

    def set_job_note(self, job_id: int, text: str) -> None:
        """Overwrite the job's AdminComment."""
        self._bytes("scontrol", "update", f"jobid={checked_job(job_id)}", f"admincomment={checked_note(text)}")

    def submit(self, batch: Batch) -> int:
        """Hand in a job as the account we are, and return its id."""
        checked_batch(batch)
        words = [f"--job-name={batch.name}", f"--nodes={len(batch.nodes)}", f"--nodelist={batch.hostlist}"]
        words += [f"--time={batch.minutes}", f"--output={batch.output}", "--chdir=/", "--no-requeue"]
        words += [f"--{key}={word}" for key in ("partition", "reservation", "gres") if (word := getattr(batch, key))]
        words += ["--exclusive"] if batch.exclusive else []
        # One variable named: nothing of our own environment goes along, and none of the user's is loaded.
        words += [f"--export=PATH={PATH}", f"--wrap={batch.command}"]
        text = self._text("sbatch", "--parsable", *words)
        number = text.strip().split(";")[0].splitlines()[-1:] or [""]
        if not number[0].isdigit():
            raise BadAnswer(f"sbatch: {text.strip()[:100]!r} is no job id")
        return checked_job(int(number[0]))

    def cancel(self, job_id: int) -> None:
        """End the job wherever it is; one that has ended is left as it is."""
        self._bytes("scancel", str(checked_job(job_id)))

    def exclusions(self) -> list[Exclusion]:
        """Return what jobs that wait or run exclude, in one question."""
        return exclusions_from_columns(self._text("squeue", "-h", "--all", "-t", "PD,R,CF,S", "-o", FORMAT))

    def reservations(self) -> dict[str, Reserved]:
        """Return every reservation by name, in one question."""
        return reservations_from_text(self._text("scontrol", "--all", "show", "reservation"))

    def create_reservation(self, wish: Reservation) -> None:
        """Reserve nodes from now on, or raise Exists when the name or a node is taken."""
        checked_reservation(wish)
        words = [f"reservationname={wish.name}", "starttime=now", f"duration={wish.minutes}", f"nodes={wish.hostlist}"]
        words += [f"users={','.join(wish.users)}"] + ([f"flags={','.join(wish.flags)}"] if wish.flags else [])
        self._bytes("scontrol", "create", "reservation", *words)

    def delete_reservation(self, name: str) -> None:
        """End a reservation, or raise NotFound."""
        self._bytes("scontrol", "delete", f"reservationname={checked_word(name, 'reservation')}")

    def limits(self) -> SlurmLimits:
        """Return the limits of the running slurmctld."""
        return parse_limits(self._text("scontrol", "show", "config"))

    def topology(self) -> Topology:
        """Return which nodes share a switch or a block, in the cluster's topology and in those of its partitions."""
        found = [parse_topology(self._text("scontrol", "show", "topology"))]
        if self.version() >= MANY_TOPOLOGIES:
            names = partition_topologies(self._text("scontrol", "--all", "show", "partition"))
            found += [parse_topology(self._text("scontrol", "show", "topology", name)) for name in names]
        return merged(found)

    def ping(self) -> bool:
        """Return whether any slurmctld, primary or backup, answers."""
        ended = self._ended("scontrol", "ping")
        lines = [line.rstrip() for line in ended.out.decode("utf-8", "replace").split("\n") if "Slurmctld(" in line]
        if not lines:
            raise error_for(_said(ended), step="scontrol ping")
        return any(line.endswith(" UP") for line in lines)

    def _nodes(self, json: tuple[str, ...] | None, text: tuple[str, ...]) -> dict[str, NodeState]:
        if json is not None and not self._text_only:
            try:
                return nodes_from_json(self._bytes(*json))
            except Unsupported:
                self._text_only = True  # built or packaged without its JSON plugin
            except SlurmError as error:
                # sinfo of 22.05 ends with 0 and "Unspecified error" whatever the cause, a dead slurmctld among them.
                if type(error) is SlurmError and not self.ping():
                    raise Unreachable(f"{_step(json[0], json[1:])}: no slurmctld answers ({error})") from error
                raise
        return nodes_from_text(self._text(*text))

    def _update(self, name: str, *settings: str) -> None:
        self._bytes("scontrol", "update", f"nodename={checked_node(name)}", *settings)

    def _text(self, command: str, *arguments: str) -> str:
        return self._bytes(command, *arguments).decode("utf-8", "replace")

    def _bytes(self, command: str, *arguments: str) -> bytes:
        ended = self._ended(command, *arguments)
        if ended.code != 0:
            raise error_for(_said(ended), step=_step(command, arguments))
        return ended.out

    def _ended(self, command: str, *arguments: str) -> Ended:
        step = _step(command, arguments)
        return self._run((command, *arguments), env=self._env, timeout=self._timeout, step=step)


def _step(command: str, arguments: Sequence[str]) -> str:
    """Name a command for people by its verb: ``scontrol show node``, ``scontrol update``, ``squeue``."""
    if command != "scontrol":
        return command
    words = [word for word in arguments if word != "--all"]
    return " ".join((command, *words[: 2 if words[0] == "show" else 1]))


def _said(ended: Ended) -> str:
    return (ended.err[:2000] + b" " + ended.out[:2000]).decode("utf-8", "replace")
