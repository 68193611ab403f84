"""Every service that the profile requires is active."""

from __future__ import annotations

from collections.abc import Iterator

from checks.declare import Skip, check, code
from checks.host import Host
from checks.system.units import UnitState, unit_state
from checks.wire import Finding

FAILED = code(
    "service_failed",
    "fail",
    "node",
    "unit {unit} is {active} ({sub}), expected active",
    explain="Confirm: `systemctl status <unit>`, `journalctl -u <unit> -b`. Do: start it; find out why it ended.",
)
STARTING = code(
    "service_starting",
    "warn",
    "node",
    "unit {unit} is {active} ({sub})",
    explain="It settles by itself or fails. Confirm: `systemctl status <unit>`. Do: wait; if it stays so, read "
    "its log.",
)
ABSENT = code(
    "service_absent",
    "skipped",
    "config",
    "unit {unit} is not installed here",
    explain="An absent unit is a matter of the profile, not a failed one. Do: install it or take it off the list.",
)
MASKED = code(
    "service_masked",
    "warn",
    "config",
    "unit {unit} is masked, expected active",
    explain="Somebody switched it off for good: no failure of the node. Do: `systemctl unmask <unit>`, or take it off "
    "the list.",
)
UNWANTED = code(
    "service_unwanted",
    "warn",
    "config",
    "unit {unit} is {active} ({sub}), expected not to run",
    explain="Confirm: `systemctl status <unit>`. Do: `systemctl disable --now <unit>`, or take it off the list.",
)
UNASKED = code(
    "service_unasked",
    "unknown",
    "self",
    "unit {unit} could not be asked about: {error}",
    explain="It says nothing about the node. Confirm: `systemctl show <unit>`. Do: look why systemd does not answer.",
)


@check(lane="system", interval=120, timeout=5.0, codes=(FAILED, STARTING, ABSENT, MASKED, UNWANTED, UNASKED))
def services(host: Host, *, units: tuple[str, ...] = (), forbidden: tuple[str, ...] = ()) -> Iterator[Finding]:
    """State of each of ``units``, and none of ``forbidden`` runs; nothing is wanted unless profile or site name it.

    Confirm by hand: ``systemctl is-active <unit>``.
    """
    if not units and not forbidden:
        raise Skip("no service is required")
    for unit in (*units, *forbidden):
        try:
            state = unit_state(host, unit)
        except (OSError, ValueError) as error:
            yield UNASKED(unit, unit=unit, error=str(error))
            continue
        if unit in units:
            yield from _required(unit, state)
        elif state.active == "active" or state.starting:
            yield UNWANTED(unit, unit=unit, **state.words)


def _required(unit: str, state: UnitState) -> Iterator[Finding]:
    if state.load == "not-found":
        yield ABSENT(unit, unit=unit)
    elif state.starting:
        yield STARTING(unit, unit=unit, **state.words)
    elif state.active != "active" and state.load == "masked":
        yield MASKED(unit, unit=unit)
    elif state.active != "active":
        yield FAILED(unit, unit=unit, **state.words)
