"""Which GPUs, adapters and board stand in the node, by serial number, GUID or UUID, is asked in lanes like a check."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator
from typing import TYPE_CHECKING

import msgspec

from checks import Host
from checks.gpu.inventory import gpu_vbios
from checks.gpu.values import Gpu, NvmlError
from checks.wire import NodeFacts, Part
from daemon.lanes.pool import LaneError, LanePool

if TYPE_CHECKING:
    # Lanes import this module, and need nothing of reports.
    from checks.gpu.nvml import Nvml
    from daemon.agent.reporting import Reporter

log = logging.getLogger(__name__)
NVML_LANE, GROUND_LANE = "nvml", "ground"
GPUS, REST = "daemon.agent.parts:gpus", "daemon.agent.parts:others"
WITHIN = 5.0
PARTS_LIMIT = 128
_UNKNOWN = frozenset({"", "none", "not specified", "to be filled by o.e.m.", "default string", "0", "n/a"})


async def look(pool: LanePool, reporter: Reporter, held: bool) -> None:
    """Look at the parts before a whole report; while hands are off nothing is opened."""
    if reporter.full_due and not held:
        reporter.facts = await seen(pool, reporter.facts)


async def seen(pool: LanePool, facts: NodeFacts) -> NodeFacts:
    """The facts with the parts as they stand now; what does not answer stays as it was told before."""
    gpus = tuple(p for p in facts.parts if p.kind == "gpu")
    if facts.driver:
        gpus = await _asked(pool, NVML_LANE, GPUS, gpus)
    rest = await _asked(pool, GROUND_LANE, REST, tuple(p for p in facts.parts if p.kind != "gpu"))
    uuids = tuple(p.uuid for p in gpus if p.uuid)
    model = next((p.model for p in gpus if p.model), facts.gpu_model)
    return msgspec.structs.replace(facts, parts=(*gpus, *rest), gpus=uuids or facts.gpus, gpu_model=model)


async def _asked(pool: LanePool, lane: str, function: str, known: tuple[Part, ...]) -> tuple[Part, ...]:
    try:
        told = msgspec.convert(await pool.call(lane, function, timeout=WITHIN), tuple[Part, ...])
    except (LaneError, msgspec.ValidationError) as error:
        log.warning("event=parts_not_seen lane=%s why=%r", lane, str(error))
        return known
    return told or known


def gpus(host: Host) -> object:
    """Called in the lane of NVML: the GPUs that answer."""
    nvml = host.nvml()
    found = [
        Part(
            kind="gpu",
            slot=g.bdf or f"gpu{g.index}",
            uuid=g.uuid,
            serial=_number(g.serial),
            model=g.name,
            firmware=_vbios(nvml, g),
        )
        for g in nvml.gpus()
        if g.uuid
    ]
    return msgspec.to_builtins(found[:PARTS_LIMIT])


def _vbios(nvml: Nvml, gpu: Gpu) -> str:
    try:
        return nvml.read(gpu_vbios, gpu)[:128]
    except NvmlError:
        return ""


def others(host: Host) -> object:
    """Called in a lane that may look at files: RDMA adapters by GUID, network cards by address, the board by serial."""
    found = [*_adapters(host), *_cards(host), *_board(host)]
    return msgspec.to_builtins(found[:PARTS_LIMIT])


def _adapters(host: Host) -> Iterator[Part]:
    for path in host.glob("/sys/class/infiniband/*"):
        guid = _line(host, f"{host.name(path)}/node_guid")
        if guid and set(guid) - set("0:"):
            model, firmware = (_line(host, f"{host.name(path)}/{name}") for name in ("hca_type", "fw_ver"))
            slot = _slot(path.joinpath("device"), path.name)
            yield Part(kind="hca", slot=slot, uuid=guid, model=model, firmware=firmware)


def _cards(host: Host) -> Iterator[Part]:
    """Ethernet cards with a device of their own; bonds, bridges and virtual functions are none.

    Nor is one whose address was given by software: that of a BMC over USB is the same on every node of a make, and
    would be told as a card that wanders from node to node.
    """
    for path in host.glob("/sys/class/net/*"):
        device = path.joinpath("device")
        if not os.path.lexists(device) or os.path.lexists(device / "physfn"):
            continue
        address = _line(host, f"{host.name(path)}/address")
        if _line(host, f"{host.name(path)}/type") == "1" and _of_the_card(address):
            yield Part(kind="nic", slot=_slot(device, path.name), uuid=address)


def _of_the_card(address: str) -> bool:
    """Whether the maker gave it: not all zeros, and without the bit of locally administered addresses."""
    try:
        return bool(set(address) - set("0:")) and not int(address[:2], 16) & 2
    except ValueError:
        return False


def _board(host: Host) -> Iterator[Part]:
    serial = _number(_line(host, "/sys/class/dmi/id/product_serial"))
    if serial:
        model, bios = (_line(host, f"/sys/class/dmi/id/{name}") for name in ("product_name", "bios_version"))
        yield Part(kind="board", slot="board", serial=serial, model=model, firmware=bios)


def _slot(device: os.PathLike[str], name: str) -> str:
    """The PCI id at the end of a device's link, since names may change from boot to boot."""
    try:
        return os.path.basename(os.readlink(device))
    except OSError:
        return name


def _line(host: Host, path: str) -> str:
    try:
        return host.read(path).strip()[:128]
    except OSError:
        return ""


def _number(text: str) -> str:
    """A serial number, or nothing where the maker left a word in its place."""
    return "" if text.strip().lower() in _UNKNOWN else text.strip()
