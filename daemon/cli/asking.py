"""A manual run goes the same way as the agent's: a plan, lanes with deadlines, one judgement."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Coroutine, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import click
import msgspec

from checks.catalog import load
from checks.judge.context import Context
from checks.judge.verdict import judged, verdict
from checks.profile import Profile, ProfileError, read_profile
from checks.runner import Outcome
from checks.wire import CheckReport, Finding, JobAttempt
from daemon.cli.check import LABEL
from daemon.cli.output import Refused, Undecided, nearest
from daemon.cli.policy import site_policy
from daemon.cli.profile import known_profiles
from daemon.config import Config
from daemon.identify import FUNCTION, LANE
from daemon.lanes import lane as lanes
from daemon.lanes.pool import LaneError, LanePool
from daemon.lanes.wire import HostSpec
from daemon.lanes.zygote import Zygote
from daemon.plan import Instance, plan

LEVEL = "level"
COSTS = ("passive", "active", "deep")
START_LIMIT = 30.0
MATCH_LIMIT = 5.0
# After Ctrl-C the workers have so long to be let go; whoever is left then ends with this process.
CLOSING = 2.0
# A kept kernel log of a hundred megabytes is read whole, which no agent ever does.
KEPT_LOG_LIMIT = 120.0
LOG_LANE = "kmsg"


@dataclass(frozen=True, slots=True)
class Asked:
    """What the caller wants to know, and of which tree."""

    ids: tuple[str, ...] = ()
    cost: str | None = None
    gpus: tuple[int, ...] | None = None
    sysroot: Path | None = None
    kmsg: Path | None = None
    profile: str | None = None
    level: int | None = None


class Ground(msgspec.Struct, frozen=True, kw_only=True):
    """What was found out about the node before its checks are chosen."""

    profile: str = "generic"
    gres: int | None = None
    mig: tuple[str, ...] = ()
    troubles: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Answer:
    """The report, where it was looked if not on this machine, and what a reader should know."""

    report: CheckReport
    where: str = ""
    notes: tuple[str, ...] = ()


def ask(config: Config, asked: Asked) -> Answer:
    """Ask the checks in lanes; a hung device or mount delays the answer by its time-out and no more."""
    spec = host_spec(config, asked)
    # Before any event loop or thread exists.
    try:
        zygote = Zygote.start(spec, ("daemon.identify",))
    except (OSError, RuntimeError) as error:
        raise Undecided(f"no worker can be started: {error}") from error
    return asyncio.run(_unless_interrupted(_ask(zygote, config, asked)))


def host_spec(config: Config, asked: Asked) -> HostSpec:
    """Roots of the run: the command line's over the configured ones; a tree never lends us this machine's devices."""
    host = config.host
    kept = asked.kmsg is not None and asked.kmsg.is_file()
    if asked.sysroot is None:
        kmsg = str(asked.kmsg.resolve()) if asked.kmsg else host.kmsg
        simulated = host.simulated or _labelled(Path(host.root))
        return HostSpec(
            root=host.root,
            kmsg=kmsg,
            nvml_library=host.nvml_library,
            simulated=simulated,
            captured=kept,
        )
    root = asked.sysroot.resolve()
    kmsg = str(asked.kmsg.resolve()) if asked.kmsg else ""
    own = Path(host.root) == root
    library = host.nvml_library if own else ""
    simulated = (own and host.simulated) or _labelled(root)
    return HostSpec(root=str(root), kmsg=kmsg, nvml_library=library, simulated=simulated, captured=kept)


def _labelled(root: Path) -> bool:
    return root != Path("/") and os.path.lexists(root / LABEL)


async def _unless_interrupted(work: Coroutine[Any, Any, Answer]) -> Answer:
    """The answer; Ctrl-C ends the wait for it, also where asyncio.wait_for swallows a cancellation (Python < 3.12)."""
    loop = asyncio.get_running_loop()
    interrupted = asyncio.Event()
    loop.add_signal_handler(signal.SIGINT, interrupted.set)
    asking, waiting = asyncio.ensure_future(work), asyncio.ensure_future(interrupted.wait())
    await asyncio.wait({asking, waiting}, return_when=asyncio.FIRST_COMPLETED)
    waiting.cancel()
    if asking.done():
        return asking.result()
    asking.cancel()
    await asyncio.wait({asking}, timeout=CLOSING)
    raise click.Abort


async def _ask(zygote: Zygote, config: Config, asked: Asked) -> Answer:
    pool = LanePool(zygote, state_dir=Path(config.agent.state) if os.geteuid() == 0 else None)
    try:
        notes: list[str] = []
        profile, seen = await _ground(pool, config, asked, notes)
        instances = _patient(chosen(config, profile, asked, seen.gres, seen.mig), zygote.spec)
        job = None if asked.gpus is None else JobAttempt(job_id=0, gpu_minors=asked.gpus)
        outcomes = await _twice(pool, instances, job)
        if pool.trouble:
            notes.append(f"not imported: {pool.trouble}")
    finally:
        await pool.close()
    return _answer(config, zygote.spec, profile, instances, outcomes, tuple(notes))


async def _ground(pool: LanePool, config: Config, asked: Asked, notes: list[str]) -> tuple[Profile, Ground]:
    """The profile that holds and what gres.conf promises."""
    gres_conf = str(asked.sysroot.resolve() / config.agent.gres_conf.lstrip("/")) if asked.sysroot else None
    arguments = {
        "profile_dir": config.agent.profile_dir,
        "gres_conf": gres_conf or config.agent.gres_conf,
        "node": config.agent.node or "",
    }
    try:
        seen = msgspec.convert(await pool.call(LANE, FUNCTION, arguments, timeout=MATCH_LIMIT), Ground)
    except (LaneError, msgspec.ValidationError) as error:
        seen = Ground(troubles=(f"profile and gres.conf could not be looked at: {error}",))
    notes.extend(seen.troubles)
    return _profile(config, asked, seen.profile), seen


def _profile(config: Config, asked: Asked, fitting: str) -> Profile:
    wanted = asked.profile or config.agent.profile
    try:
        if asked.profile and (asked.profile.endswith(".toml") or "/" in asked.profile):
            return read_profile(Path(asked.profile).read_text(encoding="utf-8"), asked.profile)
        known = known_profiles(config)
    except (ProfileError, OSError, UnicodeDecodeError) as error:
        if asked.profile and isinstance(error, FileNotFoundError):
            raise click.UsageError(f"profile {wanted}: no such file") from error
        raise Undecided(f"profile {wanted}: {error}") from error
    wanted = fitting if wanted == "auto" else wanted
    if wanted not in known and asked.profile:
        raise click.UsageError(f"no profile {wanted!r}{nearest(wanted, known)}")
    if wanted not in known:
        raise Undecided(f"no profile {wanted!r}{nearest(wanted, known)}")
    return known[wanted]


def chosen(
    config: Config, profile: Profile, asked: Asked, gres: int | None = None, mig: Sequence[str] = ()
) -> tuple[Instance, ...]:
    """The instances that are asked: those named, else all of the given cost at most."""
    try:
        every = plan(config, profile, gres=gres, mig=mig)
    except ProfileError as error:
        raise Undecided(str(error)) from error
    every = levelled(every, asked)
    if asked.ids:
        found: dict[str, Instance] = {}
        for name in asked.ids:
            fitting = [i for i in every if name in (i.name, i.check.name)]
            if not fitting and name in load():
                raise Refused(f"check {name} is switched off by the configuration or the profile {profile.name}")
            if not fitting:
                raise click.UsageError(_unknown(name, every))
            found.update({i.name: i for i in fitting})
        every = tuple(found.values())
        return every if asked.cost is None else tuple(i for i in every if _affordable(i, asked.cost))
    cost = asked.cost or "passive"
    return tuple(i for i in every if _affordable(i, cost) and (not i.hook_only or asked.gpus is not None))


def _unknown(name: str, every: Sequence[Instance]) -> str:
    """A part that nobody named is told apart from a check that there is not."""
    check, _, part = name.partition(":")
    declared = load().get(check)
    if part and declared is not None and declared.each is not None:
        parts = [i.name for i in every if i.check.name == check]
        known = f"; named are {', '.join(parts)}" if parts and parts != [check] else ""
        return f"check {check} is not told of {part!r}: name it by {declared.each} under [checks.{check}]{known}"
    return f"no check {name!r}{nearest(name, [*load(), *(i.name for i in every)])}"


def _patient(instances: tuple[Instance, ...], spec: HostSpec) -> tuple[Instance, ...]:
    """The instances, with the time that a kept log of any size takes."""
    if not spec.captured:
        return instances
    return tuple(replace(i, timeout=max(i.timeout, KEPT_LOG_LIMIT)) if i.lane == LOG_LANE else i for i in instances)


def levelled(every: Sequence[Instance], asked: Asked) -> tuple[Instance, ...]:
    """The instances with the level that was asked for; a usage error where no check named has levels."""
    if asked.level is None:
        return tuple(every)
    if not any(LEVEL in i.check.options for i in every if i.check.name in asked.ids):
        raise click.UsageError("--level is for a check that has levels: name it, for example dcgm_diag")
    return tuple(
        replace(i, options={**i.options, LEVEL: asked.level}) if LEVEL in i.check.options else i for i in every
    )


def _affordable(instance: Instance, cost: str) -> bool:
    return COSTS.index(instance.check.cost) <= COSTS.index(cost)


async def _twice(pool: LanePool, instances: Sequence[Instance], job: JobAttempt | None) -> list[Outcome]:
    """All answers; a stuck lane is looked at a second time, which tells a hang from a delay."""
    per_lane: dict[str, float] = {}
    for each in instances:
        per_lane[each.lane] = per_lane.get(each.lane, 0.0) + each.timeout
    deadline = START_LIMIT + max(per_lane.values(), default=0.0)
    outcomes = await pool.run_many(instances, job, deadline, manual=True)
    if not pool.wedged():
        return outcomes
    await asyncio.sleep(lanes.OBSERVATION_GAP + 0.1)
    again = [n for n, each in enumerate(instances) if each.lane in pool.wedged()]
    for n, outcome in zip(
        again, await pool.run_many([instances[n] for n in again], job, deadline, manual=True), strict=True
    ):
        outcomes[n] = outcome
    return outcomes


def _answer(
    config: Config,
    spec: HostSpec,
    profile: Profile,
    instances: Sequence[Instance],
    outcomes: Sequence[Outcome],
    notes: tuple[str, ...],
) -> Answer:
    findings: tuple[Finding, ...] = judged([f for o in outcomes for f in o.findings], site_policy(config))
    # Who asks by hand is told "unknown" by verdict and exit code alike, whichever question was not answered.
    required = frozenset(i.check.name for i in instances)
    skipped = {f.check for f in findings if f.status == "skipped"}
    report = CheckReport(
        cluster=config.agent.cluster or "",
        node=config.agent.node or "",
        verdict=verdict(findings, Context(occasion="manual", required=required - skipped)),
        findings=findings,
        profile=profile.name,
        simulated=spec.simulated,
    )
    kind = "SIMULATED hardware" if spec.simulated else "captured tree" if spec.root != "/" else ""
    return Answer(report, f"{kind}: {spec.root}" if kind else "", notes)
