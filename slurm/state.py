"""What Slurm holds about one node is one frozen value, the same for every release."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

# Somebody or Slurm itself works on the node: nobody may drain or resume it meanwhile. The word is what people read.
_HANDS_OFF = {
    "MAINT": "maintenance reservation",
    "REBOOT_REQUESTED": "reboot requested",
    "REBOOT_ISSUED": "reboot issued",
    "REBOOT_CANCELED": "reboot cancelled just now",
    "POWERING_UP": "powering up",
    "POWERING_DOWN": "powering down",
    "POWERED_DOWN": "powered down",
    "POWER_DOWN": "power down requested",
    "POWER_DRAIN": "power down after the drain",
    "POWER_UP": "power up requested",
    "INVALID_REG": "registration refused by slurmctld",
}


@dataclass(frozen=True, slots=True)
class Reason:
    """The text slurmctld keeps with a node, and who set it when."""

    text: str
    user: str | None = None
    at: datetime | None = None


@dataclass(frozen=True, slots=True)
class NodeState:
    """One node as slurmctld sees it; times are UTC, memory is MiB, what was not told is None or empty."""

    name: str
    base: str
    flags: frozenset[str] = frozenset()
    reason: Reason | None = None
    known: bool = True
    boot_time: datetime | None = None
    slurmd_start_time: datetime | None = None
    partitions: tuple[str, ...] = ()
    gres: str | None = None
    features: tuple[str, ...] = ()
    available_features: tuple[str, ...] = ()
    cpus: int | None = None
    alloc_cpus: int | None = None
    real_memory: int | None = None
    version: str | None = None
    comment: str | None = None
    extra: str | None = None
    next_state: str | None = None

    def __str__(self) -> str:
        return "+".join((self.base, *sorted(self.flags)))

    @property
    def out_of_service(self) -> bool:
        """Whether no job can start here; only then does `reason` mean anything (24.11 keeps it after a resume)."""
        return self.base == "DOWN" or not self.flags.isdisjoint({"DRAIN", "FAIL"})

    @property
    def active_reason(self) -> Reason | None:
        """The reason, unless it is a left-over of an earlier drain."""
        return self.reason if self.out_of_service else None

    @property
    def drained(self) -> bool:
        """Whether the node is drained to the end: no job runs, ends or can start, so it may be disturbed."""
        return "DRAIN" in self.flags and self.base in {"IDLE", "DOWN"} and "COMPLETING" not in self.flags

    @property
    def running_jobs(self) -> bool:
        """Whether a job may be on the node; a base that is not told counts as yes."""
        return self.base not in {"IDLE", "DOWN", "FUTURE"} or "COMPLETING" in self.flags

    @property
    def responding(self) -> bool:
        """Whether slurmctld hears from the node's slurmd."""
        return "NOT_RESPONDING" not in self.flags

    @property
    def hands_off(self) -> str | None:
        """Why nobody may drain or resume the node now, or None; RESERVED alone is no reason."""
        if not self.known:
            return f"state {self} is not understood"
        if self.base == "FUTURE":
            return "node does not exist yet"
        for flag in sorted(self.flags & _HANDS_OFF.keys()):
            return _HANDS_OFF[flag]
        return None
