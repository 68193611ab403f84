"""The backend that talks through scontrol, sinfo and squeue, the commands that every Slurm machine has.

JSON is asked for where the release has it, otherwise text. Commands run from absolute paths without a shell, with an
environment of their own (times in UTC), a hard limit of time and of output.
"""

from __future__ import annotations

import contextlib
import os
import selectors
import shutil
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Protocol

from slurm import job as jobs
from slurm.backend import checked_job, checked_node, checked_reason
from slurm.config import SlurmLimits, parse_limits, parse_version
from slurm.errors import BadAnswer, NoCommand, NotFound, Timeout, Unsupported, error_for
from slurm.job import JobState
from slurm.nodes import nodes_from_json, nodes_from_text
from slurm.state import NodeState
from slurm.topology import Topology, parse_topology

SAFE_PATH = "/usr/bin:/bin:/usr/sbin:/sbin:/usr/local/bin:/usr/local/sbin:/opt/slurm/bin:/usr/local/slurm/bin"
TIMEOUT = 10.0  # seconds; with slurmctld away scontrol itself gives up after 9
GRACE = 0.5  # seconds between TERM and KILL, and again before a process that does not die is left behind
MAX_OUTPUT = 64 * 1024 * 1024
MAX_ERRORS = 64 * 1024

JSON_NODES = (23, 2, 0)  # scontrol show node --json
JSON_SINFO = (21, 8, 0)  # sinfo --json, one entry a node until 22.05


@dataclass(frozen=True, slots=True)
class Ended:
    """How a command ended and what it printed."""

    code: int
    out: bytes
    err: bytes


class Run(Protocol):
    """Runs one command; raises Timeout with `step` when it does not end, BadAnswer when it prints too much."""

    def __call__(self, argv: Sequence[str], *, env: Mapping[str, str], timeout: float, step: str) -> Ended: ...


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

    def limits(self) -> SlurmLimits:
        """Return the limits of the running slurmctld."""
        return parse_limits(self._text("scontrol", "show", "config"))

    def topology(self) -> Topology:
        """Return which nodes share a switch or a block."""
        return parse_topology(self._text("scontrol", "show", "topology"))

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


def run_command(argv: Sequence[str], *, env: Mapping[str, str], timeout: float, step: str) -> Ended:
    """Run a command from `env`'s PATH in a process group of its own.

    One that does not end within `timeout` seconds is terminated, then killed, then left behind: it is never waited for.
    """
    executable = shutil.which(argv[0], path=env["PATH"])
    if executable is None:
        raise NoCommand(f"{step}: {argv[0]} is not in {env['PATH']}")
    try:
        process = subprocess.Popen(
            [executable, *argv[1:]],
            env=dict(env),
            cwd="/",
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )
    except OSError as error:
        raise NoCommand(f"{step}: {executable} does not start: {error.strerror}") from error
    deadline = time.monotonic() + timeout
    try:
        out, err = _read(process, deadline, step)
        code = process.wait(max(0.0, deadline - time.monotonic()))
    except (TimeoutError, subprocess.TimeoutExpired):
        raise Timeout(step, timeout) from None
    finally:
        _end(process)
    return Ended(code, out, err)


def _read(process: subprocess.Popen[bytes], deadline: float, step: str) -> tuple[bytes, bytes]:
    assert process.stdout is not None and process.stderr is not None
    limits: dict[IO[bytes], int] = {process.stdout: MAX_OUTPUT, process.stderr: MAX_ERRORS}
    chunks: dict[IO[bytes], bytearray] = {process.stdout: bytearray(), process.stderr: bytearray()}
    with selectors.DefaultSelector() as selector:
        for pipe in chunks:
            selector.register(pipe, selectors.EVENT_READ)
        while selector.get_map():
            ready = selector.select(max(0.0, deadline - time.monotonic()))
            if time.monotonic() >= deadline:
                raise TimeoutError
            for key, _ in ready:
                pipe = next(pipe for pipe in chunks if pipe is key.fileobj)
                data = os.read(pipe.fileno(), 65536)
                if not data:
                    selector.unregister(pipe)
                chunks[pipe] += data
                if len(chunks[pipe]) > limits[pipe]:
                    raise BadAnswer(f"{step}: output is longer than {limits[pipe]} bytes")
    return bytes(chunks[process.stdout]), bytes(chunks[process.stderr])


_left_behind: list[subprocess.Popen[bytes]] = []  # reaped at a later call, should they ever end


def _end(process: subprocess.Popen[bytes]) -> None:
    for pipe in (process.stdout, process.stderr):
        if pipe is not None:
            pipe.close()
    for sign in (signal.SIGTERM, signal.SIGKILL):
        if process.poll() is not None:
            break
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, sign)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(GRACE)
    _left_behind[:] = [other for other in _left_behind if other.poll() is None]
    if process.poll() is None:
        _left_behind.append(process)


def _step(command: str, arguments: Sequence[str]) -> str:
    """Name a command for people by its verb: ``scontrol show node``, ``scontrol update``, ``squeue``."""
    if command != "scontrol":
        return command
    words = [word for word in arguments if word != "--all"]
    return " ".join((command, *words[: 2 if words[0] == "show" else 1]))


def _said(ended: Ended) -> str:
    return (ended.err[:2000] + b" " + ended.out[:2000]).decode("utf-8", "replace")
