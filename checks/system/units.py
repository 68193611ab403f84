"""What systemd says of one unit."""

from __future__ import annotations

from dataclasses import dataclass

from checks.declare import Skip
from checks.host import Host

PROPERTIES = "LoadState,ActiveState,SubState"
SINCE = "ActiveEnterTimestampMonotonic"

BOOTED = "/run/systemd/system"
"""Exists where systemd is the first process; a container may have systemctl and nothing that answers it."""


@dataclass(frozen=True, slots=True)
class UnitState:
    """``load`` is loaded, masked or not-found, ``active`` active, failed, ..., ``sub`` the finer word."""

    load: str
    active: str
    sub: str

    @property
    def starting(self) -> bool:
        """Whether it is on its way; one that ended and waits for systemd to start it again is not."""
        return self.active in ("activating", "reloading", "refreshing") and not self.sub.startswith("auto-restart")

    @property
    def words(self) -> dict[str, str]:
        """The evidence: what a unit that cannot be loaded is, is told too."""
        return {"active": self.active, "sub": self.sub if self.load == "loaded" else f"{self.sub}, {self.load}"}


def unit_state(host: Host, unit: str) -> UnitState:
    """Ask ``systemctl show`` about ``unit``; raises Skip without systemd, OSError or ValueError without an answer."""
    try:
        text = host.run(["systemctl", "show", "-p", PROPERTIES, unit])
    except FileNotFoundError as error:
        raise Skip("no systemd on this node") from error
    except OSError as error:
        if not host.redirected and not host.path(BOOTED).exists():
            raise Skip("systemd does not run this node") from error
        raise
    fields = dict(line.split("=", 1) for line in text.splitlines() if "=" in line)
    try:
        return UnitState(*(fields[name] for name in PROPERTIES.split(",")))
    except KeyError as error:
        raise ValueError(f"systemctl show {unit} did not give {error}") from error


def unit_since(host: Host, unit: str) -> float | None:
    """Seconds from boot to when ``unit`` was last started; None where systemd does not say."""
    try:
        text = host.run(["systemctl", "show", "-p", SINCE, unit])
    except OSError:
        return None
    number = text.strip().removeprefix(f"{SINCE}=")
    return int(number) / 1e6 if number.isascii() and number.isdecimal() and 0 < len(number) < 19 else None
