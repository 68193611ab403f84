"""Where the node has NVSwitches its fabric manager runs."""

from __future__ import annotations

from collections.abc import Iterator

from checks.declare import Skip, check, code
from checks.gpu.pci import pci_switches
from checks.host import Host
from checks.net.adapters import switch_managers
from checks.system.units import unit_since, unit_state
from checks.wire import Finding

UNIT = "nvidia-fabricmanager.service"

DOWN = code(
    "fabric_manager_down",
    "fail",
    "node",
    "unit {unit} is {active} ({sub}), expected active",
    explain="GPUs can look healthy for days after the fabric manager died; new CUDA programs fail with error 802 and "
    "links are not re-trained. Confirm: `systemctl status nvidia-fabricmanager`, its version against the driver's. "
    "Do: let jobs end, start it; if it fails, compare versions.",
)
STARTING = code(
    "fabric_manager_starting",
    "warn",
    "node",
    "unit {unit} is {active} ({sub})",
    explain="It settles by itself within a minute or fails. Confirm: `systemctl status nvidia-fabricmanager`. Do: "
    "wait; if it stays so, read its log.",
)
ABSENT = code(
    "fabric_manager_absent",
    "warn",
    "config",
    "node has {switches} devices of NVSwitches and unit {unit} is {load}",
    explain="It may run in a container or on the switch trays; gpu_fabric judges what comes of it."
    " Do: install it if nothing else does its work.",
)
RESTARTED = code(
    "fabric_manager_restarted",
    "warn",
    "node",
    "unit {unit} was started {seconds:.0f} s after boot, limit {limit:.0f} s: GPUs initialised before it may not agree",
    explain="After a restart under live GPUs everything looks well and NCCL with NVLS over three GPUs or more fails "
    "(Cuda failure 1, invalid argument). Confirm: `systemctl show -p ActiveEnterTimestamp nvidia-fabricmanager`, an "
    "all-reduce over all GPUs. Do: when idle, reset all GPUs at once or reboot; if that was done since, ignore it "
    "until the next boot.",
)
LATE = 1800.0
"""Seconds after boot within which the fabric manager belongs to the start of the node."""
UNASKED = code(
    "fabric_manager_unasked",
    "unknown",
    "self",
    "unit {unit} could not be asked about: {error}",
    explain="systemd did not answer. It says nothing about the node. Confirm: `systemctl status nvidia-fabricmanager`. "
    "Do: look why systemd does not answer.",
)


@check(lane="system", interval=120, timeout=3.0, codes=(DOWN, STARTING, ABSENT, RESTARTED, UNASKED))
def fabric_manager(host: Host) -> Iterator[Finding]:
    """State of the fabric manager's unit; without an NVSwitch, or what manages one, it is irrelevant and may fail.

    Confirm by hand: ``systemctl status nvidia-fabricmanager``.
    """
    switches = [*pci_switches(host), *switch_managers(host)]
    if not switches:
        raise Skip("no NVSwitch in this node")
    try:
        state = unit_state(host, UNIT)
    except (OSError, ValueError) as error:
        yield UNASKED("node", unit=UNIT, error=str(error))
        return
    if state.load in ("not-found", "masked") and state.active != "active":
        yield ABSENT("node", switches=len(switches), unit=UNIT, load=state.load)
    elif state.starting:
        yield STARTING("node", unit=UNIT, **state.words)
    elif state.active != "active":
        yield DOWN("node", unit=UNIT, **state.words)
    else:
        since = unit_since(host, UNIT)
        if since is not None and since > LATE:
            yield RESTARTED("node", unit=UNIT, seconds=since, limit=LATE)
