"""What the site lets automation and people do to a drained node; everything is off unless it says otherwise."""

from __future__ import annotations

import re
from datetime import datetime, timezone
from pathlib import PurePosixPath
from typing import Literal

import msgspec

Mode = Literal["off", "dry_run", "on"]
Action = str
RESET, REBOOT, RUN = "reset-gpu", "reboot", "run:"
ACTION = re.compile(r"reset-gpu|reboot|run:[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
_MODES: tuple[Mode, ...] = ("off", "dry_run", "on")
_HOURS = re.compile(r"([01]\d|2[0-3]):([0-5]\d)-([01]\d|2[0-3]):([0-5]\d)")


class ResetGpu(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """[remedy.reset_gpu]: ``scope`` all: every GPU of the node at once, as NVSwitch boards before Hopper need it."""

    mode: Mode = "off"
    scope: Literal["gpu", "all"] = "gpu"
    timeout: float = 120.0


class Reboot(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """[remedy.reboot]: by Slurm's own RebootProgram; ``timeout``: how long until its agent must have spoken again."""

    mode: Mode = "off"
    timeout: float = 3600.0


class Run(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """[remedy.run.NAME]: a site executable, here as this account from ``directory``, or on the node by its agent."""

    mode: Mode = "off"
    where: Literal["server", "node"] = "server"
    directory: str = "/etc/nodevet/remedies.d"
    timeout: float = 60.0


class RemedySettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """[remedy]: off, only written down (dry_run), or on, in all and for each action; times in seconds.

    ``per_node_per_day``, ``per_hour``, ``per_code_per_hour``: how often automation may begin one. ``at_once``: how many
    may be under way in the cluster, by whomever. ``again_within``: what was tried for a code on a node is not tried
    again within this time: the next step is, and after the last one only a person. ``busy_wait``: how long one that met
    a holder waits. ``patience``: how long one that cannot begin stays planned. ``quiet_hours``: "22:00-06:00", UTC,
    without automation. ``partitions``: only nodes of these; none named: all.
    """

    mode: Mode = "off"
    per_node_per_day: int = 2
    at_once: int = 1
    per_hour: int = 4
    per_code_per_hour: int = 2
    again_within: float = 86400.0
    busy_wait: float = 600.0
    patience: float = 900.0
    quiet_hours: tuple[str, ...] = ()
    partitions: tuple[str, ...] = ()
    reset_gpu: ResetGpu = ResetGpu()
    reboot: Reboot = Reboot()
    run: dict[str, Run] = {}

    def mode_of(self, action: Action) -> Mode:
        """The weaker of the two switches; an action that is not configured is off."""
        own: Mode = "off"
        if action == RESET:
            own = self.reset_gpu.mode
        elif action == REBOOT:
            own = self.reboot.mode
        elif (run := self.run.get(action.removeprefix(RUN))) is not None and action.startswith(RUN):
            own = run.mode
        return _MODES[min(_MODES.index(self.mode), _MODES.index(own))]

    def timeout_of(self, action: Action) -> float:
        """How long the action itself may take."""
        if action in (RESET, REBOOT):
            return self.reset_gpu.timeout if action == RESET else self.reboot.timeout
        return self.run.get(action.removeprefix(RUN), Run()).timeout

    def on_node(self, action: Action) -> bool:
        """Whether the node's agent carries it out."""
        if action == REBOOT:
            return False
        return action == RESET or self.run.get(action.removeprefix(RUN), Run()).where == "node"

    def quiet(self, now: datetime) -> bool:
        """Whether these are hours without automation."""
        at = now.astimezone(timezone.utc).strftime("%H:%M")
        spans = [span.split("-") for span in self.quiet_hours]
        return any((a <= at < b) if a <= b else (at >= a or at < b) for a, b in spans)


def problem(settings: RemedySettings) -> str:
    """What cannot be meant, empty when all can."""
    counts = ("per_node_per_day", "at_once", "per_hour", "per_code_per_hour")
    for name in counts:
        if not 0 <= getattr(settings, name) <= 1000:
            return f"[remedy] {name} {getattr(settings, name)}, expected 0 to 1000"
    for name in ("again_within", "busy_wait", "patience"):
        if not 1 <= getattr(settings, name) <= 30 * 86400:
            return f"[remedy] {name} {getattr(settings, name):g} s, expected 1 to {30 * 86400}"
    for span in settings.quiet_hours:
        if not _HOURS.fullmatch(span):
            return f"[remedy] quiet_hours {span!r}, expected such as 22:00-06:00 (UTC)"
    timed = {"reset_gpu": settings.reset_gpu.timeout, "reboot": settings.reboot.timeout}
    for name, run in settings.run.items():
        if not ACTION.fullmatch(RUN + name):
            return f"[remedy.run.{name}]: no name of an executable"
        if run.where == "server" and not PurePosixPath(run.directory).is_absolute():
            return f"[remedy.run.{name}] directory {run.directory!r} is not absolute"
        timed[f"run.{name}"] = run.timeout
    for name, seconds in timed.items():
        if not 1 <= seconds <= (86400 if name == "reboot" else 900):
            return f"[remedy.{name}] timeout {seconds:g} s, expected 1 to {86400 if name == 'reboot' else 900}"
    return ""
