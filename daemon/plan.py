"""A plan lists what is asked of this node: every enabled check with its settings, split where a value needs a lane."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from checks import Check
from checks.catalog import load
from checks.profile import Profile, typed_options
from daemon import sitechecks
from daemon.config import CheckSettings, Config

IDLE_LANE = "system"
STALE_ROUNDS = 2
# What is asked this seldom, seconds, is not worth a worker that waits, nor a question before each job.
SELDOM = 600.0


@dataclass(frozen=True, slots=True)
class Instance:
    """One check as it is asked here; ``interval`` and ``timeout`` in seconds.

    ``name`` is the check's name, for a split check ``mount:/scratch``; findings always carry the check's own name.
    """

    name: str
    check: Check
    options: Mapping[str, object]
    lane: str
    interval: float
    timeout: float

    @property
    def hook_only(self) -> bool:
        """Whether it is asked at a hook about that job's devices only, never between jobs."""
        return self.check.per_job

    @property
    def by_order(self) -> bool:
        """Whether it keeps the devices busy for minutes: asked by hand or by an order alone, never by itself."""
        return self.check.cost == "deep"

    @property
    def stale_after(self) -> float:
        """Seconds after which an answer is stale."""
        return STALE_ROUNDS * self.interval

    @property
    def target(self) -> str:
        """What the instance speaks of when it cannot answer: its one value, else the node."""
        return self.name.partition(":")[2] or "node"


def plan(config: Config, profile: Profile, *, gres: int | None = None, mig: Sequence[str] = ()) -> tuple[Instance, ...]:
    """What is asked of this node: the profile's settings and, over them, the site's; raises ProfileError.

    ``gres``: how many GPUs gres.conf promises of this node, ``mig``: which of them whole and which in parts; they are
    for the checks with a setting ``gres`` or ``gres_mig``. Those that read tables of the policy read the agent's.
    """
    told: dict[str, object] = {"policy_dir": config.agent.policy_dir}
    told |= {**({} if gres is None else {"gres": gres}), **({"gres_mig": tuple(mig)} if mig else {})}
    known = load()
    made: list[Instance] = []
    for name, declared in known.items():
        site = config.checks.get(name, CheckSettings())
        if site.enabled is False or (name in profile.skip and not site.enabled):
            continue
        promised = {name: value for name, value in told.items() if name in declared.options}
        settings = {**promised, **profile.checks.get(name, {}), **site.options}
        options = typed_options(name, settings, where=f"profile {profile.name}")
        if name == sitechecks.NAME:
            for own, given, interval, timeout in sitechecks.executables(declared, options, site.interval):
                made.append(Instance(f"{name}:{own}", declared, given, f"{declared.lane}:{own}", interval, timeout))
            continue
        made.extend(_split(declared, options, site))
    return tuple(made)


def _split(declared: Check, options: dict[str, object], site: CheckSettings) -> Iterator[Instance]:
    interval = site.interval or declared.interval
    timeout = site.timeout or declared.timeout
    values: Any = ()
    if declared.each:
        values = options.get(declared.each, declared.options[declared.each].default)
    if not isinstance(values, tuple | list) or not values:
        # A split check without a value touches nothing, so it needs no worker of its own to say so.
        lane = IDLE_LANE if declared.each or not _wanted(declared, options) else declared.lane
        yield Instance(declared.name, declared, options, lane, interval, timeout)
        return
    for value in dict.fromkeys(values):
        own = {**options, str(declared.each): (value,)}
        yield Instance(f"{declared.name}:{value}", declared, own, f"{declared.lane}:{value}", interval, timeout)


def _wanted(declared: Check, options: Mapping[str, object]) -> bool:
    """Whether one of the options without which it touches nothing has a value."""
    names = declared.only_with
    return not names or any(options.get(name, declared.options[name].default) for name in names)
