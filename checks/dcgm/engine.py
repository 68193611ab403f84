"""Where DCGM is installed and its host engine is wanted, the engine runs."""

from __future__ import annotations

from collections.abc import Iterator

from checks.dcgm.ask import UNASKED, installed
from checks.declare import Skip, check, code
from checks.host import Host
from checks.system.units import unit_state
from checks.wire import Finding

DOWN = code(
    "dcgm_engine_down",
    "warn",
    "config",
    "unit {unit} is {active} ({sub}), expected active",
    explain="Nothing is measured by DCGM: exporters stand still and diagnostics cannot be run. Jobs do not need it. "
    "Confirm: `systemctl status nvidia-dcgm`, `dcgmi discovery -l`. Do: start it; after an upgrade of the driver "
    "restart it.",
)
UNITS = ("nvidia-dcgm.service", "dcgm.service")


@check(lane="system", interval=1800, timeout=5.0, codes=(DOWN, UNASKED))
def dcgm_engine(host: Host, *, required: bool = False, engine: str = "nv-hostengine") -> Iterator[Finding]:
    """State of the host engine's unit; one that is only stopped is missed where ``required`` says so, one that failed
    always. Nodevet never starts it.

    Confirm by hand: ``systemctl status nvidia-dcgm``.

    ``engine``: the program by which an installed DCGM is known.
    """
    installed(host, engine)
    for unit in UNITS:
        try:
            state = unit_state(host, unit)
        except (OSError, ValueError) as error:
            yield UNASKED("node", error=f"systemd does not tell of {unit}: {error}")
            return
        if state.active == "active" or state.starting:
            return
        if state.load in ("not-found", "masked"):
            continue
        if state.active == "failed" or required:
            yield DOWN("node", unit=unit, **state.words)
            return
        raise Skip("host engine is not wanted: its unit is stopped")
    if not required:
        raise Skip("host engine has no unit of systemd")
    yield DOWN("node", unit=UNITS[0], active="absent", sub="no such unit")
