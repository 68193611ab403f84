"""One TOML file configures the node's side, and every value in force knows where it came from."""

from __future__ import annotations

import os
import stat
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from checks.judge.nearest import nearest
from checks.profile import ProfileError, typed_options

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

DEFAULT_PATH = Path("/etc/nodevet/nodevet.toml")
SIZE_LIMIT = 1024 * 1024
# The hook's total deadline is 8 s; the agent's answer has to arrive inside it, the gate inside the answer.
ANSWER_LIMIT = 7.0
ANSWER_LEAST = 1.0
GATE_MARGIN = 2.0
PERMIT_MARGIN = 1.0

T = TypeVar("T")


class ConfigError(ValueError):
    """The configuration cannot be used; the text names file, key and the nearest known name."""


class _Section(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Common shape of the sections."""


class AgentSettings(_Section, frozen=True, kw_only=True):
    """[agent]: identity, paths and budgets (seconds) of the node's daemon.

    ``prolog_age``: a passive finding about the node that is older is asked anew before a job, inside the refresh
    budget; the older answer counts where the new one does not come in time.
    """

    cluster: str | None = None
    node: str | None = None
    socket: str = "/run/nodevet/agent.sock"
    state: str = "/var/lib/nodevet"
    marks: str = "/run/nodevet/marks"
    stop_file: str = "/etc/nodevet/STOP"
    group: str = "nodevet"
    slurm_user: str = "slurm"
    policy_dir: str = "/etc/nodevet/policy.d"
    profile_dir: str = "/etc/nodevet/profiles.d"
    profile: str = "auto"
    gres_conf: str = "/etc/slurm/gres.conf"
    answer_budget: float = 7.0
    gate_budget: float = 5.0
    refresh_budget: float = 1.5
    prolog_age: float = 10.0
    permit_budget: float = 3.0


class CentralSettings(_Section, frozen=True, kw_only=True):
    """[central]: where the central service listens; empty url = work without one."""

    url: str = ""
    token_file: str = ""
    ca_file: str = ""
    poll_wait: float = 30.0


class HostSettings(_Section, frozen=True, kw_only=True):
    """[host]: roots through which the checks look; other values than the defaults are for simulated nodes."""

    root: str = "/"
    kmsg: str = "/dev/kmsg"
    nvml_library: str = ""
    simulated: bool = False


class SlurmSettings(_Section, frozen=True, kw_only=True):
    """[slurm]: where the configuration of Slurm lies; empty = as Slurm finds it."""

    conf: str = ""


class RemedySettings(_Section, frozen=True, kw_only=True):
    """[remedy]: what the central service may ask this node's agent to do; nothing unless said here.

    ``reset_gpu``: reset GPUs of a node without jobs by ``nvidia_smi``, an absolute path of root's. ``run``: names of
    root's executables in ``directory`` that may be run, as root.
    """

    reset_gpu: bool = False
    nvidia_smi: str = "/usr/bin/nvidia-smi"
    run: tuple[str, ...] = ()
    directory: str = "/etc/nodevet/remedies.d"


class CheckSettings(_Section, frozen=True, kw_only=True):
    """[checks.<name>]: whether and how often (seconds), and the check's own options; None = as declared."""

    enabled: bool | None = None
    interval: float | None = None
    timeout: float | None = None
    options: dict[str, object] = {}


@dataclass(frozen=True, slots=True)
class Config:
    """Everything in force; ``origin`` maps "agent.socket" to the file or variable that set it, default = absent."""

    agent: AgentSettings
    central: CentralSettings
    host: HostSettings
    slurm: SlurmSettings
    checks: Mapping[str, CheckSettings]
    origin: Mapping[str, str]
    path: Path | None = None
    remedy: RemedySettings = field(default_factory=RemedySettings)

    def origin_of(self, key: str) -> str:
        """Where the value of ``key`` came from."""
        return self.origin.get(key, "default")


_SECTIONS: dict[str, type[_Section]] = {
    "agent": AgentSettings,
    "central": CentralSettings,
    "host": HostSettings,
    "slurm": SlurmSettings,
    "remedy": RemedySettings,
}


def load_config(path: Path | None = None, env: Mapping[str, str] | None = None) -> Config:
    """Read the configuration; raises ConfigError.

    Order of strength: defaults, file, ``NODEVET_<SECTION>_<KEY>`` variables. Without ``path``, NODEVET_CONFIG or the
    usual place is read, and a missing usual file means defaults. The node's name is never the host's name.
    """
    env = os.environ if env is None else env
    named = path or (Path(env["NODEVET_CONFIG"]) if env.get("NODEVET_CONFIG") else None)
    source = named or DEFAULT_PATH
    text = _read(source, required=named is not None)
    return parse_config(text or "", source if text is not None else None, env)


def parse_config(text: str, path: Path | None, env: Mapping[str, str]) -> Config:
    """Make the configuration of one text; raises ConfigError."""
    where = str(path or "configuration")
    try:
        raw = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"{where}: {error}") from error
    for name in raw:
        if name not in _SECTIONS and name != "checks":
            raise ConfigError(f"{where}: no section [{name}]{nearest(name, [*_SECTIONS, 'checks'])}")
    origin = {f"{s}.{k}": where for s in _SECTIONS for k in _table(raw, s, where)}
    _overlay(raw, env, origin)
    made = {name: _section(kind, _table(raw, name, where), f"{where}: [{name}]") for name, kind in _SECTIONS.items()}
    agent, central, host, slurm = made["agent"], made["central"], made["host"], made["slurm"]
    remedy = made["remedy"]
    assert isinstance(agent, AgentSettings) and isinstance(central, CentralSettings)
    assert isinstance(host, HostSettings) and isinstance(slurm, SlurmSettings)
    assert isinstance(remedy, RemedySettings)
    if agent.node is None and env.get("SLURMD_NODENAME"):
        agent = msgspec.structs.replace(agent, node=env["SLURMD_NODENAME"])
        origin["agent.node"] = "SLURMD_NODENAME"
    checks = dict(_checks(_table(raw, "checks", where), where, origin))
    return Config(_nested(agent, origin), central, host, slurm, checks, origin, path, remedy)


def _read(path: Path, *, required: bool) -> str | None:
    try:
        with path.open("rb") as file:
            _trust(os.fstat(file.fileno()), path)
            data = file.read(SIZE_LIMIT + 1)
    except FileNotFoundError as error:
        if required:
            raise ConfigError(f"{path}: no such file") from error
        return None
    except PermissionError as error:
        # An ordinary user's manual check must work where only root may read the agent's settings.
        if required or os.geteuid() == 0:
            raise ConfigError(f"{path}: {error.strerror}") from error
        return None
    except OSError as error:
        raise ConfigError(f"{path}: {error.strerror}") from error
    if len(data) > SIZE_LIMIT:
        raise ConfigError(f"{path}: {len(data)} bytes or more of at most {SIZE_LIMIT}")
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise ConfigError(f"{path}: {error}") from error


def _trust(seen: os.stat_result, path: Path) -> None:
    """What root is told to load must not be writable by others: it names libraries and sockets."""
    if not stat.S_ISREG(seen.st_mode):
        raise ConfigError(f"{path}: not a regular file")
    if os.geteuid() != 0:
        return
    if seen.st_uid != 0 or seen.st_mode & stat.S_IWOTH or (seen.st_mode & stat.S_IWGRP and seen.st_gid != 0):
        raise ConfigError(f"{path}: owned by uid {seen.st_uid} or writable by others; expected root's own, mode 0644")


def _table(raw: Mapping[str, Any], name: str, where: str) -> dict[str, Any]:
    table = raw.get(name, {})
    if not isinstance(table, dict):
        raise ConfigError(f"{where}: {name}: expected a section [{name}]")
    return table


def _overlay(raw: dict[str, Any], env: Mapping[str, str], origin: dict[str, str]) -> None:
    """Lay NODEVET_AGENT_SOCKET and its like over the file; an unknown one is refused like an unknown key."""
    for name, kind in _SECTIONS.items():
        prefix = f"NODEVET_{name.upper()}_"
        for variable, value in env.items():
            if not variable.startswith(prefix):
                continue
            key = variable[len(prefix) :].lower()
            if key not in kind.__struct_fields__:
                raise ConfigError(f"{variable}: no setting {key!r}{nearest(key, kind.__struct_fields__)}")
            raw.setdefault(name, {})[key] = value
            origin[f"{name}.{key}"] = variable


def _section(kind: type[T], table: Mapping[str, Any], where: str) -> T:
    known = getattr(kind, "__struct_fields__", ())
    for key in table:
        if key not in known:
            raise ConfigError(f"{where} has no setting {key!r}{nearest(key, known)}")
    try:
        return msgspec.convert(dict(table), kind, strict=False)
    except msgspec.ValidationError as error:
        raise ConfigError(f"{where}: {error}") from error


def _checks(table: Mapping[str, Any], where: str, origin: dict[str, str]) -> Iterator[tuple[str, CheckSettings]]:
    own = ("enabled", "interval", "timeout")
    for name, settings in table.items():
        if not isinstance(settings, dict):
            raise ConfigError(f"{where}: checks.{name}: expected a section [checks.{name}]")
        origin.update({f"checks.{name}.{key}": where for key in settings})
        try:
            options = typed_options(name, {k: v for k, v in settings.items() if k not in own}, where=where)
        except ProfileError as error:
            raise ConfigError(str(error)) from error
        made = _section(CheckSettings, {k: settings[k] for k in own if k in settings}, f"{where}: [checks.{name}]")
        for key in ("interval", "timeout"):
            value = getattr(made, key)
            if value is not None and not 0 < value <= 86400:
                raise ConfigError(f"{where}: checks.{name}.{key}: {value:g}, expected 0 to 86400 s")
        yield name, msgspec.structs.replace(made, options=options)


def _nested(agent: AgentSettings, origin: dict[str, str]) -> AgentSettings:
    """Clamp the budgets into each other, so that no setting can outlast the hook's deadline."""
    answer = min(max(agent.answer_budget, ANSWER_LEAST), ANSWER_LIMIT)
    clamped = {
        "answer_budget": answer,
        "gate_budget": min(max(agent.gate_budget, 0.0), max(answer - GATE_MARGIN, 0.0)),
        "permit_budget": min(max(agent.permit_budget, 0.0), answer - PERMIT_MARGIN),
        "refresh_budget": min(max(agent.refresh_budget, 0.0), answer / 2),
    }
    for key, value in clamped.items():
        given = getattr(agent, key)
        if given != value:
            origin[f"agent.{key}"] = f"{origin.get(f'agent.{key}', 'default')}, {given:g} clamped to {value:g}"
    return msgspec.structs.replace(agent, **clamped)
