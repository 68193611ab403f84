"""A tray of an NVLink rack can share memory with the others: IMEX has its driver, nodes file and daemon."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterator

from checks.declare import Skip, check, code
from checks.gpu.pci import has_nvidia
from checks.host import Host
from checks.system.units import unit_state
from checks.wire import Finding

UNIT = "nvidia-imex.service"
DRIVER = "nvidia-caps-imex-channels"
NODES_LIMIT = 64 * 1024

NO_DRIVER = code(
    "imex_unsupported",
    "warn",
    "node",
    "driver has registered no device for IMEX channels",
    explain="No job can share memory over the rack's NVLink. Confirm: `grep imex /proc/devices`. Do: compare the "
    "driver's version with that of the other trays; load it anew when idle.",
)
NO_CHANNEL = code(
    "imex_channel_missing",
    "warn",
    "config",
    "{count} of {expected} IMEX channels in {folder}",
    explain="Confirm: `ls -l /dev/nvidia-caps-imex-channels`. Do: `options nvidia NVreg_CreateImexChannel0=1`, or have "
    "the channels made at boot; where Slurm's switch/nvidia_imex makes them for each job, expect none here.",
)
DOWN = code(
    "imex_down",
    "warn",
    "node",
    "unit {unit} is {active} ({sub})",
    explain="Jobs over several trays cannot share memory: NCCL falls back to the network, or fails. Confirm: "
    "`systemctl status nvidia-imex`, `nvidia-imex-ctl -N`. Do: start it on all trays of the domain.",
)
NO_NODES = code(
    "imex_nodes_missing",
    "warn",
    "config",
    "nodes file {path} {problem}",
    explain="The daemon meets no other tray. Confirm: `cat /etc/nvidia-imex/nodes_config.cfg`, `ip address`. Do: list "
    "the addresses of all trays of the domain, the same on each, and start the daemons anew.",
)
UNASKED = code(
    "imex_unasked",
    "unknown",
    "self",
    "IMEX could not be asked about: {error}",
    explain="It says nothing about the node. Confirm: `systemctl status nvidia-imex`, `nvidia-imex-ctl -N`. "
    "Do: look why they do not answer.",
)
_LOCAL = re.compile(r"\|-- (\d{1,3}(?:\.\d{1,3}){3})\n\s+/32 host LOCAL")


@check(
    lane="system",
    interval=600,
    timeout=3.0,
    codes=(NO_DRIVER, NO_CHANNEL, DOWN, NO_NODES, UNASKED),
    only_with=("rack",),
)
def imex(
    host: Host,
    *,
    rack: bool = False,
    service: bool = False,
    channels: int = 0,
    nodes_file: str = "/etc/nvidia-imex/nodes_config.cfg",
) -> Iterator[Finding]:
    """What a job over several trays of one ``rack`` (GB200, GB300 NVL72) needs of its own tray.

    Many sites start the daemon and make the channels for each job, so only a failed daemon is told unless ``service``
    says that it always runs, and only as many ``channels`` are wanted as are promised. The nodes file is read where the
    daemon runs. Confirm by hand: ``systemctl status nvidia-imex``, ``ls /dev/nvidia-caps-imex-channels``.

    ``nodes_file``: where the daemon's list of trays lies.
    """
    if not rack:
        raise Skip("no rack of NVLink by this node's profile")
    if not has_nvidia(host):
        raise Skip("no NVIDIA GPU in this node")
    yield from _driver(host, channels)
    try:
        state = unit_state(host, UNIT)
    except (OSError, ValueError) as error:
        yield UNASKED("node", error=str(error))
        return
    if state.active == "failed" or (service and state.active != "active" and not state.starting):
        yield DOWN("node", unit=UNIT, **state.words)
    if state.active == "active" or service:
        yield from _nodes(host, nodes_file)


def _driver(host: Host, channels: int) -> Iterator[Finding]:
    try:
        registered = DRIVER in host.read("/proc/devices").split()
    except OSError:
        registered = None
    if registered is False:
        yield NO_DRIVER("node")
    if channels:
        count = len(host.glob(f"/dev/{DRIVER}/channel*"))
        if count < channels:
            yield NO_CHANNEL("node", count=count, expected=channels, folder=f"/dev/{DRIVER}")


def _nodes(host: Host, path: str) -> Iterator[Finding]:
    """The file must name somebody, and this node where it has addresses; names are resolved by nobody here."""
    try:
        text = host.read_bytes(path, NODES_LIMIT).decode("utf-8", "replace")
    except FileNotFoundError:
        yield NO_NODES("node", path=path, problem="does not exist")
        return
    except OSError as error:
        yield UNASKED("node", error=f"{path}: {error.strerror or error}")
        return
    named = [line.split("#")[0].strip() for line in text.splitlines()]
    entries = [entry for entry in named if entry]
    if not entries:
        yield NO_NODES("node", path=path, problem="names no node")
    elif all(_is_ipv4(entry) for entry in entries):
        own = _addresses(host)
        if own and own.isdisjoint(entries):
            yield NO_NODES("node", path=path, problem=f"names {len(entries)} addresses and none of this node")


def _is_ipv4(text: str) -> bool:
    try:
        return isinstance(ipaddress.ip_address(text), ipaddress.IPv4Address)
    except ValueError:
        return False


def _addresses(host: Host) -> set[str]:
    """This node's own addresses, from the kernel's routing tree."""
    try:
        return set(_LOCAL.findall(host.read("/proc/net/fib_trie")))
    except OSError:
        return set()
