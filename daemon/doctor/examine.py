"""One examination asks Slurm, this machine and the central service, and a part that fails hides no other."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError
from importlib.metadata import version as installed
from pathlib import Path

import msgspec

from checks import clean
from checks.judge.policy import PolicyError, load_policy
from checks.profile import ProfileError, profiles
from daemon.cli.local import get
from daemon.cli.output import NotAllowed, Refused, Unreachable
from daemon.config import Config
from daemon.doctor import agent, hooks, slurm_side
from daemon.doctor.central import central_rules
from daemon.doctor.spool import spool_rules
from daemon.plan import plan
from daemon.proving import prove
from slurm.commands import Commands
from slurm.doctor import Advice, job_rules, limit_rules, program_rules, worst
from slurm.doctor.rights import slurm_silent
from slurm.errors import SlurmError
from slurm.run import Run, run_command

SPOOL = "/run/nodevet-jobs"  # compiled into the hook
PROBLEMS = 5
"""Of one policy file; `nodevet policy validate` tells all."""


@dataclass(frozen=True, slots=True)
class Subject:
    """What is examined: the configuration, the central service's address, and who we are taken for."""

    config: Config
    url: str = ""
    token: str = ""
    ca_file: str | None = None
    service: bool = False

    @property
    def slurm_conf(self) -> str:
        """The slurm.conf to ask with, empty as Slurm finds it."""
        return self.config.slurm.conf or os.environ.get("SLURM_CONF", "")


def examine(subject: Subject, run: Run | None = None) -> list[Advice]:
    """All advice, the worst first; changes nothing and needs no right to look."""
    run = run or run_command
    parts: tuple[Callable[[], Iterator[Advice]], ...] = (
        lambda: slurm(subject, run),
        lambda: local_files(subject.config),
        lambda: the_agent(subject.config),
        lambda: central_rules(subject.url, subject.token, subject.ca_file),
    )
    return worst([advice for part in parts for advice in _safely(part)])


def _safely(part: Callable[[], Iterator[Advice]]) -> list[Advice]:
    """A look of ours that breaks is said and costs nothing else."""
    found: list[Advice] = []
    try:
        found.extend(part())
    except Exception as error:
        found.append(Advice("warning", "doctor", f"a look broke: {type(error).__name__}: {clean(error, 300)}"))
    return found


def slurm(subject: Subject, run: Run) -> Iterator[Advice]:
    """The running slurmctld, the hooks that it runs here, and the rights of this account."""
    config, env = subject.config, slurm_side.environment(subject.slurm_conf)
    conf = Path(subject.slurm_conf) if subject.slurm_conf else None
    backend = Commands(run, conf=conf)
    try:
        running, now = slurm_side.running_config(run, env)
    except SlurmError as error:
        yield slurm_silent(error)
        yield slurm_side.munge("")
        return
    node = config.agent.node
    here = hooks.programs(running) if node else None
    in_force = hooks.in_force(here or {}, node or "")
    yield from limit_rules(running, in_force.deadline if in_force else hooks.DEADLINE, now)
    yield from job_rules(running)
    yield from program_rules(running, here, package_version())
    if in_force is not None:
        yield from hooks.conf_rules(in_force)
    yield from spool_rules(running, Path(in_force.values.get("spool", SPOOL) if in_force else SPOOL))
    if running.value("AuthType") == "auth/munge":
        yield slurm_side.munge(running.value("AuthInfo"))
    yield slurm_side.may_drain(backend, service=subject.service or slurm_side.user() == slurm_side.ACCOUNT)
    yield from slurm_side.account_level(running, run, env)
    if node:
        yield from slurm_side.node_and_gpus(backend, node, Path(config.agent.gres_conf))


def local_files(config: Config) -> Iterator[Advice]:
    """The configuration's own files: policy, profiles, options of checks, and the marks of hooks."""
    try:
        load_policy(Path(config.agent.policy_dir))
        known = profiles(Path(config.agent.profile_dir))
        if config.agent.profile not in ("auto", *known):
            raise ProfileError(f"agent.profile: no profile {config.agent.profile!r}")
        for profile in known.values():
            plan(config, profile)
    except (PolicyError, ProfileError, OSError) as error:
        why = "the agent falls back to what it can load, and says so"
        yield Advice("problem", "configuration", clean(error, 400), why, "nodevet config check")
    else:
        yield Advice("ok", "configuration", f"{config.path or 'no file, defaults'}")
        yield from policy_files(Path(config.agent.policy_dir))
    if config.agent.node:
        yield from hooks.mark_rules(hooks.marks(Path(config.agent.marks)))


def policy_files(directory: Path) -> Iterator[Advice]:
    """What a site's policy says that nobody knows, or that can never act."""
    why = "what is written there does not happen"
    for one in prove(sorted(directory.glob("*.toml"))):
        for problem in one.problems[:PROBLEMS]:
            yield Advice("warning", "policy", clean(f"{one.file}:{problem.line}: {problem.text}", 400), why,
                         "nodevet policy validate")  # fmt: skip


def the_agent(config: Config) -> Iterator[Advice]:
    """The agent of this node; a machine without a node's name needs none."""
    path = config.agent.socket
    try:
        status = msgspec.json.decode(get(path, "/v1/status"), type=dict[str, object])
    except (Unreachable, NotAllowed, Refused, msgspec.DecodeError) as error:
        message = getattr(error, "message", None) or str(error)
        if config.agent.node or os.path.exists(path):
            why = "every hook waits for it in vain and admits its job"
            yield Advice("problem", "agent", clean(message, 300), why, "systemctl restart nodevet-agent")
        else:
            yield Advice("ok", "agent", "none here: agent.node is not set, this is taken for no compute node")
        return
    yield from agent.agent_rules(status, package_version())


def package_version() -> str:
    """The version of the installed package; a clone that is not installed has none."""
    try:
        return installed("nodevet")
    except PackageNotFoundError:
        return "unversioned"
