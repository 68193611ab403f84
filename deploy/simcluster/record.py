"""What a simulated host remembers between processes: its boot, its worn counters and the faults in force."""

from __future__ import annotations

import fcntl
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path

import msgspec

from deploy.simcluster.faults import Target
from deploy.simcluster.tree import put


class Boot(msgspec.Struct, frozen=True):
    """The current boot, ``btime`` in Unix seconds, and counters that no healing sets back."""

    boot_id: str
    btime: int
    wear: dict[str, int] = {}


class ActiveFault(msgspec.Struct, frozen=True):
    """A fault in force since a moment, UTC; ``pid`` is the server of its mount, 0 when it has none."""

    name: str
    target: dict[str, Target]
    since: datetime
    pid: int = 0


class Record:
    """host.json and faults.json of one host, each replaced whole; hold the lock around a read that leads to a write."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    @property
    def exists(self) -> bool:
        """Whether the host has been made."""
        return (self._folder / "host.json").exists()

    @property
    def boot(self) -> Boot:
        """The boot in force."""
        return msgspec.json.decode((self._folder / "host.json").read_bytes(), type=Boot)

    @boot.setter
    def boot(self, boot: Boot) -> None:
        put(self._folder, "host.json", msgspec.json.format(msgspec.json.encode(boot)))

    @property
    def faults(self) -> list[ActiveFault]:
        """The faults in force, oldest first."""
        return msgspec.json.decode((self._folder / "faults.json").read_bytes(), type=list[ActiveFault])

    @faults.setter
    def faults(self, faults: list[ActiveFault]) -> None:
        put(self._folder, "faults.json", msgspec.json.format(msgspec.json.encode(faults)))

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Keep every other process from changing this host meanwhile."""
        with (self._folder / ".lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield
