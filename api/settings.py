"""One TOML file configures the central service; an unknown key is refused with the nearest known name."""

from __future__ import annotations

import ipaddress
import os
import stat
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from api.alerts.settings import AlertSettings
from api.alerts.settings import problem as alerts_problem
from api.controller.core import ControllerSettings
from api.remedy.settings import RemedySettings
from api.remedy.settings import problem as remedy_problem
from api.slurm_door import Kind, problem
from checks.judge.guard import GuardLimits
from checks.judge.nearest import nearest

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

DEFAULT_PATH = Path("/etc/nodevet/server.toml")
DEFAULT_DB = "sqlite:////var/lib/nodevet/server.db"
SIZE_LIMIT = 1024 * 1024
MIB = 1024 * 1024
T = TypeVar("T")


class SettingsError(ValueError):
    """The configuration cannot be used; the text names file, key and the nearest known name."""


class ServerSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """[server]: where it listens, what it keeps, whom it believes; limits in bytes.

    ``behind_proxy``: TLS ends at a proxy on the way. ``open_reads_on_loopback``: whoever reaches a loopback address
    may read without a token. ``allowed_hosts``: names by which clients may call us beside our own address.
    ``job_spool``: where Slurm's own nodevet-prologctld and nodevet-epilogctld leave what they know of jobs.
    ``keep_days``: how long reports, changes and closed incidents are kept. ``backend`` and what belongs to it:
    `api.slurm_door.SlurmSettings`.
    """

    host: str = "127.0.0.1"
    port: int = 7440
    db: str = DEFAULT_DB
    cluster: str = ""
    slurm_conf: str = ""
    backend: Kind = "commands"
    rest_url: str | tuple[str, ...] = ""
    rest_token_file: str = ""
    rest_user: str = ""
    rest_ca_file: str = ""
    rest_plain: bool = False
    pyslurm_python: str = ""
    tls_cert: str = ""
    tls_key: str = ""
    behind_proxy: bool = False
    open_reads_on_loopback: bool = False
    allowed_hosts: tuple[str, ...] = ()
    keep_days: float = 180.0
    job_spool: str = "/run/nodevet-jobs"
    policy_dir: str = "/etc/nodevet/policy.d"
    body_limit: int = MIB
    ingest_limit: int = 8 * MIB
    inflated_limit: int = 32 * MIB

    @property
    def loopback(self) -> bool:
        """Whether only this machine can reach us."""
        if self.host == "localhost":
            return True
        try:
            return ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return False


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """Everything in force; ``controller`` and ``guard`` are kept as given until the cluster's name is known."""

    server: ServerSettings
    controller: dict[str, Any] = {}
    guard: GuardLimits = GuardLimits()
    remedy: RemedySettings = RemedySettings()
    alerts: AlertSettings = AlertSettings()
    path: str = ""

    def controller_settings(self) -> ControllerSettings:
        """The controller's settings for this server's cluster."""
        return _section(ControllerSettings, {**self.controller, "cluster": self.server.cluster}, "[controller]")


_SECTIONS = ("server", "controller", "guard", "remedy", "alerts")


def load_settings(path: Path | None, flags: Mapping[str, object]) -> Settings:
    """Defaults, then the file, then the flags that were given (not None); raises SettingsError."""
    source = path or DEFAULT_PATH
    raw = _read(source, required=path is not None)
    where = str(source)
    for name, table in raw.items():
        if name not in _SECTIONS:
            raise SettingsError(f"{where}: no section [{name}]{nearest(name, _SECTIONS)}")
        if not isinstance(table, dict):
            raise SettingsError(f"{where}: {name}: expected a section [{name}]")
    given = {k: v for k, v in flags.items() if v is not None}
    settings = Settings(
        server=_section(ServerSettings, {**raw.get("server", {}), **given}, f"{where}: [server]"),
        controller=raw.get("controller", {}),
        guard=_section(GuardLimits, raw.get("guard", {}), f"{where}: [guard]"),
        remedy=_section(RemedySettings, raw.get("remedy", {}), f"{where}: [remedy]"),
        alerts=_section(AlertSettings, raw.get("alerts", {}), f"{where}: [alerts]"),
        path=where,
    )
    if why := remedy_problem(settings.remedy) or alerts_problem(settings.alerts):
        raise SettingsError(f"{where}: {why}")
    _section(ControllerSettings, {"cluster": "", **settings.controller}, f"{where}: [controller]")
    _check(settings.server)
    return settings


def _check(server: ServerSettings) -> None:
    """Refuse what would put tokens or findings on a wire that others can read."""
    if bool(server.tls_cert) != bool(server.tls_key):
        raise SettingsError("tls_cert and tls_key go together, one of them is missing")
    if not 1 <= server.keep_days <= 36_500:
        raise SettingsError(f"keep_days {server.keep_days:g}, expected 1 to 36500")
    if not 0 <= server.port <= 65535:
        raise SettingsError(f"port {server.port}, expected 0 to 65535")
    if not server.loopback and not server.tls_cert and not server.behind_proxy:
        raise SettingsError(
            f"host {server.host} is reachable from other machines: give tls_cert and tls_key, "
            "or behind_proxy where a proxy ends TLS"
        )
    if why := problem(server):
        raise SettingsError(why)
    if server.open_reads_on_loopback and (not server.loopback or server.behind_proxy):
        raise SettingsError("open_reads_on_loopback needs a loopback host without a proxy in front")


def _read(path: Path, *, required: bool) -> dict[str, Any]:
    try:
        with path.open("rb") as file:
            _trust(os.fstat(file.fileno()), path)
            data = file.read(SIZE_LIMIT + 1)
    except FileNotFoundError as error:
        if required:
            raise SettingsError(f"{path}: no such file") from error
        return {}
    except OSError as error:
        raise SettingsError(f"{path}: {error.strerror}") from error
    if len(data) > SIZE_LIMIT:
        raise SettingsError(f"{path}: more than {SIZE_LIMIT} bytes")
    try:
        return tomllib.loads(data.decode("utf-8"))
    except (UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise SettingsError(f"{path}: {error}") from error


def _trust(seen: os.stat_result, path: Path) -> None:
    if not stat.S_ISREG(seen.st_mode):
        raise SettingsError(f"{path}: not a regular file")
    if seen.st_uid not in (0, os.geteuid()) or seen.st_mode & stat.S_IWOTH:
        raise SettingsError(f"{path}: owned by uid {seen.st_uid} or writable by others; expected root's or our own")


def _section(kind: type[T], table: Mapping[str, Any], where: str) -> T:
    known: tuple[str, ...] = tuple(getattr(kind, "__annotations__", ()))
    for key in table:
        if key not in known:
            raise SettingsError(f"{where} has no setting {key!r}{nearest(key, known)}")
    try:
        return msgspec.convert(dict(table), kind)
    except msgspec.ValidationError as error:
        raise SettingsError(f"{where}: {error}") from error
