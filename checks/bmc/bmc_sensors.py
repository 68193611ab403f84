"""Power supplies, fans and temperatures are well by the BMC's own thresholds."""

from __future__ import annotations

import re
from collections.abc import Iterator

from checks.bmc.ipmi import Sensor, ask, sensors
from checks.declare import Skip, check, code, ok
from checks.host import Host
from checks.wire import Finding

CONFIRM = "Confirm: `ipmitool sdr elist`, `ipmitool sel elist`. "
SUPPLY = code(
    "power_supply_bad",
    "warn",
    "node",
    "power supply: {reading}",
    explain="The node runs on without spare, or slows its GPUs down. "
    + CONFIRM
    + "Do: look at the cable and its circuit, replace the supply; it can be done while the node runs.",
)
CRITICAL = code(
    "bmc_sensor_critical",
    "warn",
    "node",
    "sensor is beyond its critical threshold ({state}): {reading}",
    explain="A fan, a voltage or a temperature, by the limits of the node's maker. "
    + CONFIRM
    + "Do: look at fans, filters and the inlet's temperature; replace what has failed.",
)
ODD = code(
    "bmc_sensor_odd",
    "warn",
    "node",
    "sensor is beyond its warning threshold ({state}): {reading}",
    explain="By the limits of the node's maker. " + CONFIRM + "Do: watch it; look at fans and the inlet's temperature.",
)
UNASKED = code(
    "bmc_unasked",
    "unknown",
    "self",
    "BMC could not be asked: {error}",
    explain="A BMC that hangs says nothing about the node it sits in. Confirm: `ipmitool mc info`. "
    "Do: `ipmitool mc reset cold` when no job runs.",
)
# Words of the discrete sensors of type power supply and redundancy (IPMI 2.0, table 42-3).
_SUPPLY = re.compile(
    r"Power Supply AC lost|AC lost or out-of-range|Failure detected|Predictive failure|Config Error|"
    r"Redundancy (?:Lost|Degraded)|Non-Redundant: Insufficient Resources",
    re.IGNORECASE,
)
_WATTS = re.compile(r"Instantaneous power reading:\s*(\d{1,6}) Watts")
_NAMED = 50


@check(lane="bmc", cost="active", interval=3600, timeout=30.0, needs=("root",), codes=(SUPPLY, CRITICAL, ODD, UNASKED))
def bmc_sensors(host: Host, *, ignore: tuple[str, ...] = (), seconds: float = 22.0) -> Iterator[Finding]:
    """Every sensor of the BMC by the thresholds that its maker set, the words of power supplies, and the watts drawn.

    ``ignore`` names sensors as ``ipmitool sdr`` writes them. One without a reading is not judged: a slot may be empty.
    None drains: firmware that reads a sensor wrong is common. Confirm by hand: ``ipmitool sdr elist``.

    ``seconds``: how long ipmitool may take.
    """
    try:
        found = sensors(ask(host, "sdr", "elist", timeout=seconds))
    except OSError as error:  # TimeoutError is one
        yield UNASKED("bmc", error=str(error)[:160])
        return
    if not found:
        yield UNASKED("bmc", error="ipmitool sdr gave no sensor")
        return
    bad = [f for s in found if s.name not in ignore and (f := _judge(s)) is not None]
    yield from bad[:_NAMED]
    if not bad:
        watts = _watts(host)
        yield ok("bmc", f"{len(found)} sensors", sensors=len(found), watts=watts)


def _judge(sensor: Sensor) -> Finding | None:
    if _SUPPLY.search(sensor.reading):
        return SUPPLY(sensor.name, reading=sensor.reading)
    if sensor.critical:
        return CRITICAL(sensor.name, state=sensor.state, reading=sensor.reading)
    return ODD(sensor.name, state=sensor.state, reading=sensor.reading) if sensor.odd else None


def _watts(host: Host) -> int | None:
    """What the whole node draws now; None where the BMC does not measure it (DCMI)."""
    try:
        draws = _WATTS.search(ask(host, "dcmi", "power", "reading", timeout=4.0))
    except (OSError, Skip):
        return None
    return int(draws[1]) if draws else None
