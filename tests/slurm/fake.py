"""A stand-in for slurmctld behind the commands: recorded answers with the present state written in.

It replaces the controller, not the code under test; like Slurm's commands it stores what stands in argv literally.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timezone

from slurm.commands import Commands
from slurm.hostlist import expand
from slurm.run import Ended
from tests.slurm.recorded import raw, text

NO_RESERVATION = "Requested reservation is invalid"
NOW = datetime(2026, 12, 1, 5, 0, 0, tzinfo=timezone.utc)


@dataclass
class FakeNode:
    """What the stand-in keeps of a node."""

    base: str = "IDLE"
    flags: list[str] = field(default_factory=list)
    reason: str = ""
    user: str = "root"
    comment: str = ""
    extra: str = ""

    @property
    def out_of_service(self) -> bool:
        return self.base == "DOWN" or "DRAIN" in self.flags


@dataclass
class FakeJob:
    """What the stand-in keeps of a job."""

    state: str = "RUNNING"
    restarts: int = 0
    nodelist: str = "n[1-2]"
    note: str = ""


class FakeSlurm:
    """Answers scontrol, sinfo and squeue as one release does."""

    def __init__(self, release: str, nodes: int = 3) -> None:
        self.release = release
        self.nodes = {f"n{i}": FakeNode() for i in range(1, nodes + 1)}
        self.jobs: dict[int, FakeJob] = {}
        self.reservations: dict[str, dict[str, str]] = {}
        self.submitted: dict[int, tuple[str, ...]] = {}
        self.calls: list[tuple[str, ...]] = []
        self.env: Mapping[str, str] = {}
        self.before_update: Callable[[str], None] = lambda name: None
        self.refuse: dict[str, Ended | Exception] = {}
        self.backend = Commands(self.run)

    def run(self, argv: Sequence[str], *, env: Mapping[str, str], timeout: float, step: str) -> Ended:
        """Answer one command."""
        self.calls.append(tuple(argv))
        self.env = env
        if step in self.refuse:
            refusal = self.refuse[step]
            if isinstance(refusal, Exception):
                raise refusal
            return refusal
        words = [word for word in argv if word not in ("--all", "--json")]
        for part in (self._questions, self._orders, self._jobs_and_reservations):
            if (ended := part(words, as_json="--json" in argv)) is not None:
                return ended
        raise AssertionError(f"no recorded answer to {argv}")

    def _questions(self, words: list[str], *, as_json: bool) -> Ended | None:
        match words:
            case ["scontrol", "--version"]:
                return _printed(f"slurm-wlm {self._version()}\n")
            case ["scontrol", "ping"] | ["scontrol", "show", "config"]:
                return _printed(text(self.release, f"cmd/{'-'.join(words[1:])}.txt"))
            case ["scontrol", "show", "node", *names]:
                return self._show(names or list(self.nodes), as_json=as_json)
            case ["sinfo"]:
                return self._show(list(self.nodes), as_json=True)
            case ["squeue", "-h", "-t", "all", "-j", job, "-O", columns] if "admin_comment" in columns:
                return self._told_note(int(job), columns)
            case ["squeue", "-h", "-t", "all", "-j", job, "-O", columns]:
                return self._squeue(int(job), columns)
        return None

    def _orders(self, words: list[str], *, as_json: bool) -> Ended | None:
        match words:
            case ["scontrol", "update", target, setting] if target.startswith("jobid="):
                return self._note(int(target.removeprefix("jobid=")), setting.removeprefix("admincomment="))
            case ["scontrol", "update", target, *settings]:
                return self._update(target.removeprefix("nodename="), dict(s.split("=", 1) for s in settings))
            case ["scontrol", "reboot", *words, name]:
                return self._reboot(name, words)
            case ["scontrol", "cancel_reboot", name]:
                return self._cancel_reboot(name)
        return None

    def _jobs_and_reservations(self, words: list[str], *, as_json: bool) -> Ended | None:
        match words:
            case ["scontrol", "requeue", job]:
                return self._requeue(int(job))
            case ["scontrol", "show", "reservation"]:
                return self._show_reservations()
            case ["scontrol", "create", "reservation", *words]:
                return self._reserve(dict(word.split("=", 1) for word in words))
            case ["scontrol", "delete", target]:
                return self._unreserve(target)
            case ["sbatch", "--parsable", *words]:
                return self._sbatch(words)
            case ["scancel", job]:
                return self._cancel(int(job))
        return None

    def _version(self) -> str:
        found = re.search(r"Version=(\S+)", text(self.release, "nodes/IDLE.txt"))
        assert found is not None
        return found.group(1)

    def _show(self, names: list[str], *, as_json: bool) -> Ended:
        if unknown := [name for name in names if name not in self.nodes]:
            if as_json:  # seen on 26.05: success, and a warning "No nodes to dump"
                return _printed('{"nodes": [], "errors": [], "warnings": [{"description": "No nodes to dump"}]}')
            return Ended(1, f"Node {unknown[0]} not found\n".encode(), b"")
        if as_json:
            assert self.release != "20.11", "20.11 has no --json"
            return _printed(json.dumps({"nodes": [self._json(name) for name in names], "errors": []}))
        return _printed("\n".join(self._text(name) for name in names))

    def _text(self, name: str) -> str:
        node = self.nodes[name]
        words = [node.base, *node.flags]
        if self.release == "20.11" and "NOT_RESPONDING" in words:
            words = [node.base + "*", *(flag for flag in node.flags if flag != "NOT_RESPONDING")]
        plain = text(self.release, "nodes/IDLE.txt").replace("NodeName=n1", f"NodeName={name}")
        plain = plain.replace("State=IDLE ", f"State={'+'.join(words)} ").rstrip()
        lines = [plain.replace("\n   Comment=(null)", "")]  # 20.11 writes it
        lines += [f"   Reason={node.reason} [{node.user}@{NOW:%Y-%m-%dT%H:%M:%S}]"] if node.reason else []
        lines += [f"   {key}={text}" for key, text in (("Comment", node.comment), ("Extra", node.extra)) if text]
        return "\n".join(lines) + "\n\n"

    def _json(self, name: str) -> dict[str, object]:
        node = self.nodes[name]
        answer = json.loads(raw(self.release, "nodes/IDLE.json"))
        at = int(NOW.timestamp()) if node.reason else 0
        if self.release == "22.05":
            item: dict[str, object] = dict(answer)
            item.update(state=node.base.lower(), state_flags=node.flags, reason_changed_at=at)
        else:
            item = dict(answer["nodes"][0])
            item.update(state=[node.base, *node.flags])
            item.update(reason_changed_at={"set": True, "infinite": False, "number": at})
        item.update(comment=node.comment, extra=node.extra)
        item.update(name=name, reason=node.reason, reason_set_by_user=node.user if node.reason else "")
        return item

    def _update(self, name: str, settings: dict[str, str]) -> Ended:
        self.before_update(name)
        node = self.nodes.get(name)
        if node is None:
            return _refused("slurm_update error: Invalid node name specified")
        if "extra" in settings and self.release == "20.11":
            return _refused(f"Invalid input: extra={settings['extra']}\nRequest aborted")
        if settings.get("state") == "resume":
            if not node.out_of_service:
                word = "transition" if self.release == "26.05" else "specified"
                return _refused(f"slurm_update error: Invalid node state {word}")
            node.base, node.flags = "IDLE", ["NOT_RESPONDING"]
            if self.release != "24.11":  # which keeps the old reason
                node.reason = ""
        elif settings.get("state") == "drain" and "DRAIN" not in node.flags:
            node.flags.append("DRAIN")
        if "reason" in settings:
            node.reason, node.user = settings["reason"], "root"
        node.comment, node.extra = settings.get("comment", node.comment), settings.get("extra", node.extra)
        return Ended(0, b"", b"")

    def _reboot(self, name: str, words: list[str]) -> Ended:
        node = self.nodes.get(name)
        if node is None:
            return _refused("scontrol_reboot_nodes error: Invalid node name specified")
        node.flags += ["DRAIN"] * ("asap" in words) + ["REBOOT_REQUESTED"]
        node.reason = next((word.removeprefix("reason=") for word in words if word.startswith("reason=")), "")
        return Ended(0, b"", b"")

    def _cancel_reboot(self, name: str) -> Ended:
        node = self.nodes[name]
        if "REBOOT_REQUESTED" not in node.flags:
            return _refused("slurm_update error: Invalid node state specified")
        node.flags, node.reason = [], ""
        return Ended(0, b"", b"")

    def _note(self, job_id: int, text: str) -> Ended:
        if (job := self.jobs.get(job_id)) is None:
            return _refused(f"Invalid job id specified for job {job_id}")
        job.note = text
        return Ended(0, b"", b"")

    def _told_note(self, job_id: int, columns: str) -> Ended:
        if (job := self.jobs.get(job_id)) is None:
            return _refused("slurm_load_jobs error: Invalid job id specified")
        first, width = (int(column.split(":")[1]) for column in columns.split(","))
        note = (job.note or "(null)").encode()
        return Ended(0, str(job_id).encode().ljust(first) + note.ljust(width)[:width] + b"\n", b"")

    def _sbatch(self, words: list[str]) -> Ended:
        settings = dict(word[2:].split("=", 1) for word in words if "=" in word)
        if settings.get("reservation", "") not in {"", *self.reservations}:
            return _refused(f"sbatch: error: Batch job submission failed: {NO_RESERVATION}")
        if not set(expand(settings["nodelist"])) <= set(self.nodes):
            return _refused("sbatch: error: Batch job submission failed: Invalid node name specified")
        job_id = 50 + len(self.submitted)
        self.submitted[job_id] = tuple(words)
        self.jobs[job_id] = FakeJob(nodelist=settings["nodelist"])
        return _printed(f"{job_id}\n")

    def _show_reservations(self) -> Ended:
        if not self.reservations:
            return _printed("No reservations in the system\n")
        plain = text("22.05", "cmd/show-reservation.txt")
        told = [
            plain.replace("nv-1", name)
            .replace("n[1-2]", wish["nodes"])
            .replace("MAINT,IGNORE_JOBS", wish.get("flags", "").upper() or "SPEC_NODES")
            for name, wish in self.reservations.items()
        ]
        return _printed("\n".join(told))

    def _reserve(self, wish: dict[str, str]) -> Ended:
        if wish["reservationname"] in self.reservations:
            return _refused("Error creating the reservation: Duplicate reservation name")
        if not set(expand(wish["nodes"])) <= set(self.nodes):
            return _refused("Error creating the reservation: Invalid node name specified")
        self.reservations[wish["reservationname"]] = wish
        return _printed(f"Reservation created: {wish['reservationname']}\n")

    def _unreserve(self, target: str) -> Ended:
        known = self.reservations.pop(target.removeprefix("reservationname="), None)
        return Ended(0, b"", b"") if known else _refused(f"delete_reservation {target}: {NO_RESERVATION}")

    def _cancel(self, job_id: int) -> Ended:
        if job_id in self.jobs:
            self.jobs[job_id].state = "CANCELLED"
        return Ended(0, b"", b"")

    def _requeue(self, job_id: int) -> Ended:
        job = self.jobs.get(job_id)
        if job is None:
            return _refused(f"Invalid job id specified for job {job_id}")
        if job.state == "PENDING":
            return _refused(f"Job is pending execution for job {job_id}")
        job.state, job.restarts, job.nodelist = "PENDING", job.restarts + 1, ""
        return Ended(0, b"", b"")

    def _squeue(self, job_id: int, columns: str) -> Ended:
        job = self.jobs.get(job_id)
        if job is None:
            return _refused("slurm_load_jobs error: Invalid job id specified")
        values = {
            "JobID": str(job_id),
            "State": job.state,
            "BatchFlag": "1",
            "Requeue": "1",
            "RestartCnt": str(job.restarts),
            "StartTime": "2026-12-01T05:00:00",
            "PriorityLong": "4294901759",
            "NumNodes": "2",
            "BatchHost": "n1" if job.nodelist else "n/a",
            "Reason": "None" if job.state == "RUNNING" else "BeginTime",
            "NodeList": job.nodelist,
        }
        pairs = [column.split(":") for column in columns.split(",")]
        return _printed("".join(values[name].ljust(int(width))[: int(width)] for name, width in pairs) + "\n")


def _printed(out: str) -> Ended:
    return Ended(0, out.encode(), b"")


def _refused(err: str) -> Ended:
    return Ended(1, b"", err.encode() + b"\n")
