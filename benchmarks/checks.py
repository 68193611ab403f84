"""The complete passive set of checks costs a node little, at its start, every minute, and on the largest machines."""

from __future__ import annotations

import ctypes
import os
import resource
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import msgspec

from benchmarks.ground import GPUS, Ground, NotReady
from benchmarks.measure import Spread
from benchmarks.rounds import HOUR, Costs, Spec
from benchmarks.table import Line
from deploy.simcluster.host import SimHost
from deploy.simcluster.tree import proc

FIRST_MS = 150.0
MINUTE_MS = 15.0
WHOLE_MS = 700.0
LARGE_MS = 1000.0
PROCESSES = 300
LARGE = (384, 20_000)
ROOT = Path(__file__).resolve().parent.parent
_SUBREAPER = 36


@dataclass(frozen=True, slots=True)
class _Node:
    """One simulated node with so many processes, and what asking it cost."""

    host: SimHost
    costs: Costs


def measure(ground: Ground, runs: int) -> list[Line]:
    """The lines of this part; ``runs`` of the whole command."""
    usual = _node(ground, "checks", PROCESSES)
    usual.host.nvml.change({"latency.scale": 0})
    instant = _asked(ground, usual.host)
    command, interpreter = _whole(ground, usual.host, runs)
    return [*_usual(usual.costs, instant), _command(command, interpreter), _large(ground, usual.costs)]


def _node(ground: Ground, name: str, processes: int, cpus: int = 0, steps: int = HOUR) -> _Node:
    host = SimHost(ground.base / "hosts" / name, name, cache=ground.base / "nvml")
    host.board = replace(host.board, cpus=cpus or host.board.cpus)
    host.create()
    for pid in range(2, processes + 1):
        files = proc.process(pid, command="/usr/bin/python3 train.py", uid=1001, started=9000 + pid, job=None)
        (host.sysroot / f"proc/{pid}").mkdir(exist_ok=True)
        for path, content in files.items():
            (host.sysroot / path).write_text(str(content))
    return _Node(host, _asked(ground, host, steps))


def _config(ground: Ground, host: SimHost) -> Path:
    config = ground.base / f"{host.name}.toml"
    config.write_text(
        f'[host]\nroot = "{host.sysroot}"\nkmsg = "{host.kmsg}"\nnvml_library = "{host.nvml_library}"\n'
        f'simulated = true\n[agent]\nstate = "{ground.base}/{host.name}-state"\n'
        f'gres_conf = "{ground.base}/gres.conf"\nnode = "alone"\n[checks.mount]\npaths = ["/scratch"]\n'
    )
    return config


def _asked(ground: Ground, host: SimHost, steps: int = HOUR) -> Costs:
    spec = Spec(
        root=str(host.sysroot), kmsg=str(host.kmsg), nvml=str(host.nvml_library), gres=GPUS, steps=steps,
        config=str(_config(ground, host)),
    )  # fmt: skip
    argv = [sys.executable, "-m", "benchmarks.rounds", msgspec.json.encode(spec).decode()]
    done = subprocess.run(argv, cwd=ROOT, capture_output=True, timeout=300, check=False)
    if done.returncode:
        raise NotReady(f"the checks could not be asked: {done.stderr.decode(errors='replace')[-1500:]}")
    costs = msgspec.json.decode(done.stdout, type=Costs)
    if costs.bad:
        raise NotReady(f"the healthy simulated node is not clean: {'; '.join(costs.bad[:5])}")
    return costs


def _usual(costs: Costs, instant: Costs) -> list[Line]:
    worst = sorted(instant.each.items(), key=lambda pair: -pair[1])[:4]
    named = ", ".join(f"{name} {ms:.1f}" for name, ms in worst)
    first = f"first round, {costs.checks} checks in {costs.lanes} lanes, CPU"
    minute = f"a minute at default intervals (mean of an hour), {PROCESSES} processes, CPU"
    return [
        _line(first, costs.first, FIRST_MS, f"devices instant {instant.first:.1f} ms", 1),
        _line(minute, instant.minute, MINUTE_MS, named, HOUR),
        _line("the same with the stand-in's device calls", costs.minute, 0.0, "", HOUR),
    ]


def _command(command: Spread, interpreter: Spread) -> Line:
    beside = f"python -I -c pass {interpreter.median:.0f} ms, {command.median / interpreter.median:.0f} times that"
    return _line("`nodevet check`, all its processes, CPU", command.median, WHOLE_MS, beside, command.n)


def _large(ground: Ground, usual: Costs) -> Line:
    cpus, processes = LARGE
    large = _node(ground, "large", processes, cpus, steps=1).costs
    what = f"first round, {cpus} CPUs, {processes:,} processes, CPU"
    beside = f"usual node {usual.first:.0f} ms, {large.first / usual.first:.1f} times that"
    return _line(what, large.first, LARGE_MS, beside, 1)


def _line(what: str, ms: float, limit: float, beside: str, n: int) -> Line:
    return Line(
        part="checks", what=what, measured=f"{ms:.1f} ms", beside=beside, n=n, values={"ms": ms},
        ratio=f"{ms / limit:.2f} of target" if limit else "",
        target=f"<= {limit:g} ms" if limit else "", met=ms <= limit if limit else None,
    )  # fmt: skip


def _whole(ground: Ground, host: SimHost, runs: int) -> tuple[Spread, Spread]:
    """The command in turn with a bare interpreter; every process of it is counted, orphans too."""
    nodevet = [sys.executable, "-I", "-m", "daemon", "--config", str(_config(ground, host)), "check", "--json"]
    command, bare = [], []
    for _ in range(runs):
        command.append(_all_of_it(nodevet, (0, 1)))
        bare.append(_all_of_it([sys.executable, "-I", "-c", "pass"], (0,)))
    return Spread.of(command), Spread.of(bare)


def _all_of_it(argv: Sequence[str], expected: tuple[int, ...]) -> float:
    """CPU in ms of a command and of everything it started, told by a parent that inherits its orphans."""
    reader, writer = os.pipe()
    pid = os.fork()
    if pid == 0:
        ctypes.CDLL(None).prctl(_SUBREAPER, 1, 0, 0, 0)
        done = subprocess.run(argv, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False)
        while True:
            try:
                os.wait()
            except ChildProcessError:
                break
        used = resource.getrusage(resource.RUSAGE_CHILDREN)
        os.write(writer, f"{done.returncode} {(used.ru_utime + used.ru_stime) * 1e3}".encode())
        os._exit(0)
    os.close(writer)
    with os.fdopen(reader) as told:
        code, ms = told.read().split()
    os.waitpid(pid, 0)
    if int(code) not in expected:
        raise NotReady(f"{' '.join(argv[-3:])} ended with {code}")
    return float(ms)
