"""What is asked of this node follows from its ground: hardware, profile, gres.conf, policy and configuration."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeVar

import msgspec

from checks.installed import version
from checks.judge.policy import Policy, PolicyError, load_policy, shipped
from checks.profile import GENERIC, ProfileError, profiles
from checks.wire import NodeFacts
from daemon.agent import codes, ground
from daemon.agent.findings import Findings
from daemon.agent.judge import Judge
from daemon.agent.prolog import Hooks
from daemon.agent.reporting import Reporter
from daemon.agent.schedule import Schedule
from daemon.config import Config, ConfigError, load_config
from daemon.lanes.pool import LaneError, LanePool
from daemon.plan import Instance, plan
from slurm.gres import promised_gpus, promised_parts

log = logging.getLogger(__name__)
GROUND_LIMIT = 3.0
T = TypeVar("T")


# Looked up while we start: the running agent's own process reads no disk.
_VERSION = version()


def agent_version() -> str:
    """The installed version, ``unversioned`` from a bare checkout."""
    return _VERSION


class Planning:
    """Makes the plan at the start and anew when something it rests on changes.

    ``config_error`` not empty: nothing is judged, every job is admitted, loudly.
    """

    def __init__(self, config: Config, pool: LanePool, findings: Findings, judge: Judge, schedule: Schedule,
                 reporter: Reporter, hooks: Hooks, config_error: str) -> None:  # fmt: skip
        self.config, self.config_error = config, config_error
        self.grounded = False
        self._pool, self._findings, self._judge = pool, findings, judge
        self._schedule, self._reporter, self._hooks = schedule, reporter, hooks

    async def settle(self) -> None:
        """Learn which node this is and what is asked of it; a lane that does not say leaves the generic profile."""
        settings = self.config.agent
        arguments = {
            "profile": settings.profile,
            "profile_dir": settings.profile_dir,
            "gres_conf": settings.gres_conf,
        }
        facts, troubles = NodeFacts(agent_version=agent_version()), [""]
        try:
            found = await self._pool.call(ground.LANE, ground.LOOK, arguments, timeout=GROUND_LIMIT)
            seen = msgspec.convert(found, ground.Ground)
            known = self._reporter.facts
            told = {"gpus": known.gpus, "gpu_model": known.gpu_model, "parts": known.parts}
            facts = msgspec.structs.replace(seen.facts, agent_version=agent_version(), **told)
            self._hooks.gres_conf, troubles = seen.gres, list(seen.troubles)
            self.grounded = True
        except (LaneError, msgspec.ValidationError) as error:
            troubles = [f"ground not seen: {error}"]
        self._reporter.facts = facts
        for trouble in filter(None, troubles):
            log.error("event=ground_trouble text=%r", trouble)
        self.replan(self._policy())

    def _policy(self) -> Policy:
        try:
            return load_policy(Path(self.config.agent.policy_dir))
        except PolicyError as error:
            self.broken(str(error))
            return shipped()

    def replan(self, policy: Policy | None = None) -> None:
        """Ask from now on what configuration, profile and gres.conf say, and judge by ``policy``."""
        policy = policy or self._judge.policy
        try:
            known = profiles(Path(self.config.agent.profile_dir))
            profile = known.get(self._reporter.facts.profile, GENERIC)
            instances: Sequence[Instance] = plan(
                self.config, profile, gres=self._promised(promised_gpus), mig=self._promised(promised_parts) or ()
            )
        except (ProfileError, OSError) as error:
            self.broken(str(error))
            instances = plan(self.config, GENERIC)
        self._judge.use(policy, instances)
        if self.config_error:
            self.broken(self.config_error)
        self._findings.keep_only(instances)
        self._schedule.replace(instances)
        self._reporter.resting = tuple(sorted({i.check.name for i in instances if i.hook_only}))
        self._hooks.prolog_age = self.config.agent.prolog_age

    def _promised(self, question: Callable[[str, str], T]) -> T | None:
        """What gres.conf promises of this node, None when it is not understood."""
        try:
            return question(self._hooks.gres_conf, self._reporter.identity.node)
        except ValueError as error:
            log.error("event=gres_conf_garbled error=%r", str(error))
            return None

    def broken(self, error: str) -> None:
        """From now on every job is admitted: our own configuration must not cost a node."""
        log.error("event=config_broken error=%r", error)
        self.config_error = error
        self._judge.quiet = f"configuration is broken: {error}"
        self._findings.note(codes.CONFIG_BROKEN, error=error)

    def reload(self) -> bool:
        """Take a new configuration over; False when it needs a fresh start. Raises ConfigError when it is not good."""
        config = load_config(self.config.path)
        try:
            policy = load_policy(Path(config.agent.policy_dir))
            known = profiles(Path(config.agent.profile_dir))
            plan(config, known.get(self._reporter.facts.profile, GENERIC))
        except (PolicyError, ProfileError, OSError) as error:
            raise ConfigError(str(error)) from error
        # Checks and policy change in place; whatever was built from the rest is built anew by a fresh start.
        if self.config_error or _fixed(config) != _fixed(self.config):
            return False
        self.config = config
        self.replan(policy)
        self.grounded = False  # gres.conf may have changed as well: looked at again before the next report
        log.info("event=config_taken checks=%d policy=%s", len(self._schedule.instances), policy.version)
        return True


def _fixed(config: Config) -> tuple[object, ...]:
    return (config.agent, config.central, config.host, config.slurm, config.remedy)
