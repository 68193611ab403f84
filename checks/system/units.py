"""What systemd says of one unit."""

from __future__ import annotations

from dataclasses import dataclass

from checks.declare import Skip
from checks.host import Host

PROPERTIES = "LoadState,ActiveState,SubState"


@dataclass(frozen=True, slots=True)
class UnitState:
    """``load`` is loaded or not-found, ``active`` active, failed, ..., ``sub`` the finer word."""

    load: str
    active: str
    sub: str


def unit_state(host: Host, unit: str) -> UnitState:
    """Ask ``systemctl show`` about ``unit``; raises Skip without systemd, OSError or ValueError without an answer."""
    try:
        text = host.run(["systemctl", "show", "-p", PROPERTIES, unit])
    except FileNotFoundError as error:
        raise Skip("no systemd on this node") from error
    fields = dict(line.split("=", 1) for line in text.splitlines() if "=" in line)
    try:
        return UnitState(*(fields[name] for name in PROPERTIES.split(",")))
    except KeyError as error:
        raise ValueError(f"systemctl show {unit} did not give {error}") from error
