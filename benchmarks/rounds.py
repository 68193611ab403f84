"""`python -m benchmarks.rounds SPEC` asks the whole passive set in forked workers, as an agent does, and tells the CPU.

A process of its own: NVML is loaded once per process, and what a worker costs depends on what its parent has imported.
"""

from __future__ import annotations

import gc
import os
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import msgspec

from checks.host import Host
from checks.judge.policy import shipped
from checks.profile import match_profile, profiles
from daemon.config import load_config
from daemon.lanes import worker
from daemon.lanes.wire import HostSpec, Reply, Request
from daemon.plan import Instance, plan

STEP = 10.0
"""Seconds: what is due closer together than this is asked in one go."""
HOUR = 360
_encoder = msgspec.msgpack.Encoder()


class Spec(msgspec.Struct, frozen=True, kw_only=True):
    """Which simulated node is asked, how many GPUs it promises, and over how many steps a minute is the mean."""

    root: str
    kmsg: str
    nvml: str
    config: str
    gres: int = 8
    steps: int = HOUR


class Costs(msgspec.Struct, frozen=True, kw_only=True):
    """CPU in ms: of the first answers of all workers, of a minute at the checks' own intervals."""

    profile: str
    checks: int
    lanes: int
    first: float
    minute: float
    each: dict[str, float]
    bad: tuple[str, ...] = ()
    first_of: dict[str, float] = {}


def main(argv: Sequence[str]) -> None:
    """Measure and print the costs as JSON."""
    spec = msgspec.json.decode(argv[0], type=Spec)
    host_spec = HostSpec(root=spec.root, kmsg=spec.kmsg, nvml_library=spec.nvml, simulated=True)
    known = profiles()
    profile = match_profile(Host(root=Path(spec.root)), known)
    config = load_config(Path(spec.config))
    asked = [i for i in plan(config, profile, gres=spec.gres) if i.check.cost == "passive" and not i.hook_only]
    shipped()  # what a zygote has in memory before it forks
    worker.prepare()
    worker.rehearse()
    import pynvml  # noqa: F401

    gc.collect()
    gc.freeze()
    by_lane: dict[str, list[Instance]] = {}
    for instance in asked:
        by_lane.setdefault(instance.lane, []).append(instance)
    first, bad = 0.0, []
    by_lane_first: dict[str, float] = {}
    for instances in by_lane.values():
        used, told = _forked(lambda instances=instances: _first(host_spec, instances))  # type: ignore[misc]
        first += used
        by_lane_first[instances[0].lane] = used
        bad += msgspec.json.decode(told, type=list[str])
    _, told = _forked(lambda: _hour(host_spec, by_lane, spec.steps))
    each = msgspec.json.decode(told, type=dict[str, float])
    minutes = spec.steps * STEP / 60
    costs = Costs(
        profile=profile.name, checks=len(asked), lanes=len(by_lane), first=first,
        minute=sum(each.values()) / minutes, each={name: ms / minutes for name, ms in each.items()}, bad=tuple(bad),
        first_of=by_lane_first,
    )  # fmt: skip
    sys.stdout.buffer.write(msgspec.json.encode(costs))


def _forked(work: Callable[[], bytes]) -> tuple[float, bytes]:
    """Milliseconds of CPU that a child needed for ``work``, its fork and end counted, and what it said."""
    reader, writer = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(reader)
        with os.fdopen(writer, "wb") as out:
            out.write(work())
        os._exit(0)
    os.close(writer)
    with os.fdopen(reader, "rb") as told:
        said = told.read()
    _, status, used = os.wait4(pid, 0)
    if status:
        raise SystemExit("a worker failed")
    return (used.ru_utime + used.ru_stime) * 1e3, said


def _answer(instance: Instance, host: Host) -> Reply:
    """One question as a lane answers it: decoded, asked, encoded."""
    asked = _encoder.encode(Request(id=1, name=instance.check.name, options=dict(instance.options)))
    reply = worker.answer(msgspec.msgpack.decode(asked, type=Request), host)
    _encoder.encode(reply)
    return reply


def _first(spec: HostSpec, instances: Sequence[Instance]) -> bytes:
    host = worker.open_host(spec)
    host.look = 1
    bad = []
    for instance in instances:
        reply = _answer(instance, host)
        bad += [reply.error] if reply.outcome is None else []
        bad += [f"{f.code} on {f.target}: {f.message}" for f in (reply.outcome.findings if reply.outcome else ())
                if f.status not in ("ok", "skipped")]  # fmt: skip
    return msgspec.json.encode(bad)


def _hour(spec: HostSpec, by_lane: dict[str, list[Instance]], steps: int) -> bytes:
    """What each question takes of an hour, asked when it is due together with whatever else is due in its lane."""
    used: dict[str, float] = {}
    for instances in by_lane.values():
        host = worker.open_host(spec)
        for number in range(1, steps + 1):
            host.look = number
            # Longer intervals than an hour are asked once in it, and take their share.
            due = [i for i in instances if number == 1 or (number - 1) % max(1, round(i.interval / STEP)) == 0]
            for instance in due:
                begun = time.process_time_ns()
                _answer(instance, host)
                spent = (time.process_time_ns() - begun) / 1e6
                used.setdefault(instance.name, 0.0)
                if number > 1 or instance.interval >= STEP * steps:
                    used[instance.name] += spent * min(1.0, STEP * steps / instance.interval)
    return msgspec.json.encode(used)


if __name__ == "__main__":
    main(sys.argv[1:])
