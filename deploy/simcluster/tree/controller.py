"""What ipmitool says of the node's own controller (BMC): sensors and event log."""

from __future__ import annotations

from deploy.simcluster.tree.commands import recording

SUPPLIES, FANS = 6, 8


def bmc(*, dead_supply: int = 0, dead_fan: int = 0) -> dict[str, str | bytes]:
    """Return the recordings; 0 = none is dead, supplies and fans count from 1."""
    rows = ["Inlet Temp       | 01h | ok  |  7.1 | 22 degrees C", "12V Rail         | 02h | ok  |  7.1 | 12.06 Volts"]
    for number in range(1, SUPPLIES + 1):
        lost = ", Power Supply AC lost" if number == dead_supply else ""
        rows.append(f"PSU{number} Status      | {0x20 + number:02X}h | ok  | 10.{number} | Presence detected{lost}")
    for number in range(1, FANS + 1):
        state, speed = ("lnr", 0) if number == dead_fan else ("ok ", 9240)
        rows.append(f"FAN{number}             | {0x40 + number:02X}h | {state} | 29.{number} | {speed} RPM")
    rows.append("GPU Riser        | 60h | ns  |  7.2 | No Reading")
    log = ["   1 | 11/02/2026 | 08:00:11 | Event Logging Disabled SEL | Log area reset/cleared | Asserted"]
    log += ["   2 | 11/02/2026 | 08:03:40 | System Event | OEM System boot event | Asserted"]
    if dead_supply:
        log.append(
            f"   3 | 12/01/2026 | 10:00:00 | Power Supply PSU{dead_supply} Status | Power Supply AC lost | Asserted"
        )
    if dead_fan:
        event = "Lower Non-recoverable going low  | Asserted | Reading 0 < Threshold 300 RPM"
        log.append(f"   4 | 12/01/2026 | 10:00:00 | Fan FAN{dead_fan} | {event}")
    info = f"SEL Information\nEntries          : {len(log)}\nPercent Used     : 1%\n"
    return {
        recording("ipmitool", "sdr", "elist"): "\n".join(rows) + "\n",
        recording("ipmitool", "sel", "elist"): "\n".join(log) + "\n",
        recording("ipmitool", "sel", "info"): info,
        recording("ipmitool", "dcmi", "power", "reading"): "    Instantaneous power reading:        2140 Watts\n",
    }
