"""An agent at rest holds little memory and hardly ever runs."""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path

from benchmarks.account import Account, Memory, account, memory, tree
from benchmarks.ground import Ground, NotReady, Service, job_env
from benchmarks.measure import once
from benchmarks.table import Line

MAIN_MIB = 26.0
TREE_MIB = 60.0
IDLE_SHARE = 0.0005
WAKEUPS = 60
LANES = 8
# The burst of first answers, the first report and the first poll are over after this many seconds.
SETTLE = 4.0
JOBS = 20
OTHERS = {"nodevet-zygote", "nv-outbox", "nv-uplink"}
AGENTS = {"idle": "h0", "idle0": "h1"}
"""Two agents alike, the second over devices that answer at once: the difference is what the stand-in's calls take."""


@dataclass(frozen=True, slots=True)
class Rest:
    """The agents were left alone from ``since`` on; main process and whole tree of each at that moment."""

    since: float
    main: dict[str, Account]
    whole: dict[str, Account]


def begin(ground: Ground, service: Service) -> Rest:
    """Start agents with the intervals of production, let them answer some jobs, and leave them alone."""
    ground.host("h1").nvml.change({"latency.scale": 0})
    for node, host in AGENTS.items():
        ground.agent(node, host=host, service=service)
    ground.wait_warm(list(AGENTS))
    for node in AGENTS:
        for job in range(1, JOBS + 1):
            once((ground.prolog,), job_env(node, job, gpus=True))
    ground.prove_answered(dict.fromkeys(AGENTS, JOBS))
    time.sleep(SETTLE)
    return Rest(time.monotonic(), *_accounts(ground))


def _accounts(ground: Ground) -> tuple[dict[str, Account], dict[str, Account]]:
    pids = {node: ground.pid(node) for node in AGENTS}
    return {n: account([pid]) for n, pid in pids.items()}, {n: account(tree(pid)) for n, pid in pids.items()}


def finish(ground: Ground, rest: Rest, seconds: float) -> list[Line]:
    """Wait until the agents have rested for ``seconds`` and say what that cost; ends them."""
    time.sleep(max(0.0, rest.since + seconds - time.monotonic()))
    window = time.monotonic() - rest.since
    main, whole = _accounts(ground)
    pid = ground.pid("idle")
    held, lanes = memory(tree(pid)), _lanes(pid)
    ground.end(*(f"agent-{node}" for node in AGENTS))
    if lanes < LANES:
        raise NotReady(f"agent has {lanes} lanes, expected {LANES} or more")
    used = {n: (main[n].seconds - rest.main[n].seconds) / window for n in AGENTS}
    all_used = {n: (whole[n].seconds - rest.whole[n].seconds) / window for n in AGENTS}
    return [
        *_memory(held, pid, lanes),
        _cpu(f"idle CPU, main process, {window:.0f} s", used["idle"], ""),
        _cpu(
            f"idle CPU, all processes, {window:.0f} s",
            all_used["idle"],
            f"in device calls {max(0.0, all_used['idle'] - all_used['idle0']):.3%}",
        ),
        _woken(main, whole, rest, window),
    ]


def _lanes(pid: int) -> int:
    """How many workers there are, the zygote and the helpers left out."""
    names = [Path(f"/proc/{each}/comm").read_text().strip() for each in tree(pid)[1:]]
    return sum(name not in OTHERS for name in names)


def _memory(held: dict[int, Memory], pid: int, lanes: int) -> list[Line]:
    whole = Memory(sum(one.alone for one in held.values()), sum(one.here for one in held.values()))
    named = [
        ("PSS, main process", held[pid], MAIN_MIB),
        (f"PSS, all {len(held)} processes with {lanes} lanes", whole, TREE_MIB),
    ]
    return [
        Line(
            part="agent",
            what=what,
            measured=f"{own.alone:.1f} MiB",
            beside=f"shared with strangers {own.here:.1f} MiB",
            ratio=f"{own.alone / limit:.2f} of target",
            target=f"<= {limit:g} MiB",
            met=own.alone <= limit,
            values={"mib": own.alone, "kernel_pss_mib": own.here, "lanes": lanes},
        )
        for what, own, limit in named
    ]


def _cpu(what: str, share: float, beside: str) -> Line:
    return Line(
        part="agent",
        what=what,
        measured=f"{share:.3%} of a core",
        beside=beside,
        ratio=f"{share / IDLE_SHARE:.2f} of target",
        target=f"< {IDLE_SHARE:.2%}",
        met=share < IDLE_SHARE,
        values={"share": share},
    )


def _woken(main: dict[str, Account], whole: dict[str, Account], rest: Rest, window: float) -> Line:
    own = (main["idle"].wakeups - rest.main["idle"].wakeups) * 60 / window
    every = (whole["idle"].wakeups - rest.whole["idle"].wakeups) * 60 / window
    return Line(
        part="agent",
        what="times woken a minute, main process",
        measured=f"{own:.0f}",
        beside=f"all processes {every:.0f}",
        ratio=f"{own / WAKEUPS:.2f} of target",
        target=f"<= {WAKEUPS}",
        met=own <= WAKEUPS,
        values={"per_minute": own, "all_per_minute": every},
    )
