"""What sysfs says of RDMA ports, each read alone so that a broken one hides no other."""

from __future__ import annotations

import errno
import os
import re
from dataclasses import dataclass
from pathlib import Path

from checks.declare import clean
from checks.host import Host
from checks.net.adapters import adapters
from checks.net.route import management

INFINIBAND = "InfiniBand"
ETHERNET = "Ethernet"
OTHER = "other"
_LAYERS = (INFINIBAND, ETHERNET)
_STATES = ("NOP", "DOWN", "INIT", "ARMED", "ACTIVE", "ACTIVE_DEFER")
_ALSO = {"INITIALIZING": "INIT", "INITIALIZE": "INIT", "ACTIVE-DEFER": "ACTIVE_DEFER"}
_PHYSICAL = {
    "sleep": "Sleep",
    "polling": "Polling",
    "disabled": "Disabled",
    "portconfigurationtraining": "PortConfigurationTraining",
    "linkup": "LinkUp",
    "linkerrorrecovery": "LinkErrorRecovery",
    "phytest": "Phy Test",
}


@dataclass(frozen=True, slots=True)
class Port:
    """One port of one adapter; ``error`` says why it could not be read, the rest is empty then.

    ``rate`` in Gb/s, 0 where none is given. ``unsupported``: the device forbids the reading (EINVAL).
    ``management``: the adapter carries the node's default route.
    """

    name: str
    state: str = ""
    physical: str = ""
    rate: float = 0.0
    layer: str = ""
    link_downed: int | None = None
    error: str = ""
    unsupported: bool = False
    management: bool = False

    @property
    def up(self) -> bool:
        """Whether the port carries traffic."""
        return self.state in ("ACTIVE", "ACTIVE_DEFER")

    @property
    def adapter(self) -> str:
        """The name of its adapter."""
        return self.name.partition("/")[0]

    @property
    def folder(self) -> str:
        """Where it stands in sysfs."""
        adapter, _, number = self.name.partition("/")
        return f"/sys/class/infiniband/{adapter}/ports/{number}"


def ports(host: Host) -> list[Port]:
    """Every port of every adapter but virtual functions, software adapters and what manages an NVSwitch."""
    return host.once("rdma ports", lambda: _ports(host))


def _ports(host: Host) -> list[Port]:
    serving = management(host)
    found: list[Port] = []
    for adapter in adapters(host):
        serves = adapter.device in serving
        try:
            numbers = sorted((n for n in os.listdir(adapter.path / "ports") if n.isdecimal()), key=int)
        except OSError as error:
            found.append(Port(f"{adapter.name}/?", error=error.strerror or str(error), management=serves))
            continue
        found += [_port(host, f"{adapter.name}/{n}", serves) for n in numbers]
    return found


def jobs_ports(host: Host, ignore: tuple[str, ...]) -> list[Port]:
    """The ports that carry traffic of jobs: up, not ignored, and not the administrators' Ethernet."""
    return [
        p
        for p in ports(host)
        if p.up and p.name not in ignore and p.adapter not in ignore and not (p.management and p.layer != INFINIBAND)
    ]


def _port(host: Host, name: str, serves: bool) -> Port:
    folder = Port(name).folder
    try:
        state = _state(host.read(f"{folder}/state"))
        physical = _physical(host.read(f"{folder}/phys_state"))
        rate = _gbps(host.read(f"{folder}/rate"))
    except OSError as error:
        unsupported = error.errno == errno.EINVAL
        return Port(name, error=error.strerror or str(error), unsupported=unsupported, management=serves)
    if state not in _STATES:
        return Port(name, error=f"state {clean(state, 32)!r} is not known to us", management=serves)
    layer = optional(host, f"{folder}/link_layer")
    downed = number(host, f"{folder}/counters/link_downed")
    known = layer if layer in _LAYERS else ("" if layer is None else OTHER)
    return Port(name, state, physical, rate, known, downed, management=serves)


def _state(text: str) -> str:
    """ "4: ACTIVE" and "Active" -> "ACTIVE"; a number alone is as good."""
    word = _word(text).upper()
    if word.isascii() and word.isdecimal() and len(word) == 1:
        return _STATES[int(word)] if int(word) < len(_STATES) else word
    return _ALSO.get(word, word)


def _physical(text: str) -> str:
    """ "5: LinkUp", "LINK_UP" and "Link Up" -> "LinkUp"; a word that we do not know stays as it is."""
    word = _word(text)
    return _PHYSICAL.get(re.sub(r"[\s_-]", "", word).lower(), word)


def _word(text: str) -> str:
    """ "4: ACTIVE" -> "ACTIVE"."""
    return text.strip().rpartition(":")[2].strip()


def _gbps(text: str) -> float:
    """ "400 Gb/sec (4X NDR)" -> 400.0; "N/A" -> 0."""
    match = re.match(r"\s*(\d{1,6}(?:\.\d{1,3})?)\s", text + " ")
    return float(match.group(1)) if match else 0.0


def optional(host: Host, path: str | Path) -> str | None:
    """A file that not every adapter has; some give "N/A (no PMA)" or an error."""
    try:
        return host.read(path).strip()
    except OSError:
        return None


def number(host: Host, path: str | Path) -> int | None:
    """Such a file that holds a decimal number, None where it holds none."""
    text = optional(host, path)
    return int(text) if text and text.isascii() and text.isdecimal() and len(text) <= 20 else None
