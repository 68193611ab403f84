"""What identifies a node's hardware and software, as it travels in a report."""

from __future__ import annotations

import msgspec


class Part(msgspec.Struct, frozen=True, kw_only=True):
    """One replaceable part: ``kind`` gpu, hca, nic or board; ``slot`` is its place, ``uuid`` a GPU's, or a GUID.

    ``firmware`` is what runs on it: a GPU's VBIOS, an adapter's firmware, a board's BIOS.
    """

    kind: str
    slot: str
    uuid: str = ""
    serial: str = ""
    model: str = ""
    firmware: str = ""


class NodeFacts(msgspec.Struct, frozen=True, kw_only=True):
    """What identifies the node's hardware and software, for inventory and profile."""

    profile: str = "generic"
    boot_id: str = ""
    kernel: str = ""
    driver: str = ""
    gpus: tuple[str, ...] = ()
    gpu_model: str = ""
    agent_version: str = ""
    simulated: bool = False
    parts: tuple[Part, ...] = ()
