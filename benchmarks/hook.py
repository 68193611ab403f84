"""A whole answer costs little more than the hook alone, and the hook alone little more than spawning `true`."""

from __future__ import annotations

import shutil
import statistics
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import count

from benchmarks.account import account, tree
from benchmarks.due_agent import DUE
from benchmarks.ground import HERE, Ground, NotReady, Service, job_env
from benchmarks.measure import Sample, Spread, once
from benchmarks.table import Line

CLIENT_TIMES = 1.5
NOTHING_DUE_MS = 3.0
DUE_MS = 20.0
SLOWEST_CALL_MS = 15.0
"""nvmlInit, the slowest call in the stand-in's table of latencies."""

# The agents whose checks are due ask them all on each whole second; what is measured keeps out of that burst's way.
FIRST, LAST = 0.30, 0.90
_jobs = count(1000)


@dataclass(frozen=True, slots=True)
class Side:
    """One command that is run in turn with the others."""

    name: str
    argv: tuple[str, ...]
    node: str = ""
    gpus: bool = False

    def env(self) -> dict[str, str]:
        """Its environment, with another job each time: the same job would get its first answer again."""
        return job_env(self.node, next(_jobs), gpus=self.gpus)


def measure(ground: Ground, service: Service, rounds: int) -> list[Line]:
    """All lines about the hook."""
    fast = ground.host("h1")
    fast.nvml.change({"latency.scale": 0})
    ground.agent("alone")
    ground.agent("served", service=service)
    ground.agent("due", due=DUE)
    ground.agent("due0", due=DUE, host="h1")
    with _echo(ground):
        ground.wait_warm(["alone", "served"])
        ground.wait_warm(["due", "due0"], due=True)
        for node in ("due", "due0"):
            _prove_due(ground, node)
        served = tree(ground.pid("served"))
        before = account(served)
        samples = _in_turn(_sides(ground), rounds)
        used = account(served).seconds - before.seconds
        ground.prove_answered({"alone": 2 * rounds, "served": rounds, "due": rounds, "due0": rounds})
    ground.end("agent-alone", "agent-served", "agent-due", "agent-due0")
    return [*_client(samples), *_nothing_due(samples), _cpu(samples, used / (rounds + 1) * 1e3), *_due(samples)]


def _sides(ground: Ground) -> list[Side]:
    prolog = (ground.prolog,)
    return [
        Side("true", (shutil.which("true") or "/bin/true",), "echo"),
        Side("client", prolog, "echo"),
        Side("alone", prolog, "alone"),
        Side("served", prolog, "served"),
        Side("gpus", prolog, "alone", gpus=True),
        Side("due", prolog, "due"),
        Side("due0", prolog, "due0"),
    ]


def _in_turn(sides: Sequence[Side], rounds: int) -> dict[str, list[Sample]]:
    """Every side once a round, in another order each round; the first round warms up and is not counted."""
    samples: dict[str, list[Sample]] = {side.name: [] for side in sides}
    for number in range(rounds + 1):
        at = number % len(sides)
        for side in (*sides[at:], *sides[:at]):
            _keep_clear()
            sample = once(side.argv, side.env())
            if sample.exit != 0:
                raise NotReady(f"{side.name} ended with {sample.exit}")
            if number:
                samples[side.name].append(sample)
    return samples


def _prove_due(ground: Ground, node: str) -> None:
    """One prolog in the quiet part of a second leaves every check of the agent freshly answered."""
    _keep_clear()
    begun = time.monotonic()
    once((ground.prolog,), job_env(node, next(_jobs)))
    status = ground.status(node)
    since = time.monotonic() - begun
    late = [c.name for c in status.checks if c.age is None or c.age > since] if status else ["status"]
    if late:
        raise NotReady(f"a prolog on {node} did not ask {', '.join(late)} anew")


def _keep_clear() -> None:
    phase = time.monotonic() % 1.0
    if not FIRST <= phase <= LAST:
        time.sleep((FIRST - phase) % 1.0)


@contextmanager
def _echo(ground: Ground) -> Iterator[None]:
    """A listener that answers at once, so that what is measured is the client."""
    binary, folder = ground.base / "echo", ground.base / "agents" / "echo"
    folder.mkdir()
    subprocess.run(["gcc", "-O2", "-o", binary, HERE / "echo.c"], check=True, timeout=60)
    ground.spawn("echo", [binary, folder / "agent.sock"])
    ground.wait_for((folder / "agent.sock").exists, 10, lambda: "the echo does not listen")
    yield
    ground.end("echo")


def _walls(samples: Mapping[str, Sequence[Sample]], name: str) -> list[float]:
    return [sample.wall for sample in samples[name]]


def _client(samples: Mapping[str, Sequence[Sample]]) -> Iterator[Line]:
    for kind in ("wall", "CPU"):
        own, floor = (
            Spread.of([s.wall if kind == "wall" else s.cpu for s in samples[name]]) for name in ("client", "true")
        )
        ratio = own.median / floor.median
        yield Line(
            part="hook",
            what=f"hook client alone, {kind}",
            measured=own.text(),
            beside=f"true {floor.text()}",
            ratio=f"{ratio:.2f}x",
            target=f"<= {CLIENT_TIMES:g}x",
            met=ratio <= CLIENT_TIMES,
            n=own.n,
            simulated=False,
            values={"ratio": ratio, "median_ms": own.median, "p99_ms": own.p99, "true_median_ms": floor.median},
        )


def _nothing_due(samples: Mapping[str, Sequence[Sample]]) -> Iterator[Line]:
    client = Spread.of(_walls(samples, "client"))
    named = {
        "alone": "whole answer, nothing due, no server",
        "served": "whole answer, nothing due, with server",
        "gpus": "whole answer, only the job's own 8 GPUs asked",
    }
    for name, what in named.items():
        own, more = Spread.of(_walls(samples, name)), _more(samples, name)
        yield Line(
            part="hook",
            what=what,
            measured=own.text(),
            beside=f"client {client.median:.2f} ms",
            ratio=f"+{more.median:.2f} ms (p99 +{more.p99:.2f})",
            target="" if name == "gpus" else f"<= +{NOTHING_DUE_MS:g} ms",
            met=None if name == "gpus" else more.median <= NOTHING_DUE_MS,
            n=own.n,
            values={"more_ms": more.median, "more_p99_ms": more.p99, "median_ms": own.median, "p99_ms": own.p99},
        )


def _cpu(samples: Mapping[str, Sequence[Sample]], agent: float) -> Line:
    """The agent's share covers its reports to the central service and what it asked between the jobs."""
    client = statistics.median(sample.cpu for sample in samples["served"])
    return Line(
        part="hook",
        what="CPU of one whole answer, all processes, with server",
        measured=f"{agent + client:.2f} ms",
        beside=f"hook {client:.2f} ms, agent {agent:.2f} ms",
        n=len(samples["served"]),
        values={"agent_cpu_ms": agent, "hook_cpu_ms": client},
    )


def _more(samples: Mapping[str, Sequence[Sample]], name: str) -> Spread:
    """How much longer than the client alone, round by round."""
    pairs = zip(_walls(samples, name), _walls(samples, "client"), strict=True)
    return Spread.of([whole - client for whole, client in pairs])


def _due(samples: Mapping[str, Sequence[Sample]]) -> Iterator[Line]:
    own, fast = Spread.of(_walls(samples, "due")), Spread.of(_walls(samples, "due0"))
    device = statistics.median(a - b for a, b in zip(_walls(samples, "due"), _walls(samples, "due0"), strict=True))
    limit = DUE_MS + SLOWEST_CALL_MS
    yield Line(
        part="hook",
        what=f"whole answer, {len(DUE)} checks due",
        measured=own.text(),
        beside=f"device calls in it {device:.1f} ms",
        ratio=f"{own.median / limit:.2f} of target",
        target=f"<= {DUE_MS:g} + {SLOWEST_CALL_MS:g} ms",
        met=own.median <= limit,
        n=own.n,
        values={"median_ms": own.median, "p99_ms": own.p99, "device_ms": device},
    )
    yield Line(
        part="hook",
        what=f"whole answer, {len(DUE)} checks due, devices instant",
        measured=fast.text(),
        beside="same, no latencies",
        ratio=f"{fast.median / DUE_MS:.2f} of target",
        target=f"<= {DUE_MS:g} ms",
        met=fast.median <= DUE_MS,
        n=fast.n,
        values={"median_ms": fast.median, "p99_ms": fast.p99},
    )
