"""Faults of links between GPUs, of the switches they lead to and of the fabric they form."""

from __future__ import annotations

from deploy.simcluster.faults import WARNING, Effects, Site, fault
from deploy.simcluster.tree.board import bdf

SXID_TEXT = {
    11004: "ingress invalid ACL (First)",
    20001: "TX Replay Error",
    20034: "LTSSM Fault Up",
    22003: "Minion Halt",
    24007: "sourcetrack timeout error (First)",
}


@fault
def nvlink_errors(site: Site, *, gpu: int = 0, link: int = 4, kind: str = "replay", count: int = 500) -> Effects:
    """One NVLink of one GPU counts errors that are put right: replay, recovery or crc."""
    if kind not in ("replay", "recovery", "crc"):
        raise ValueError(f"kind is {kind!r}, one of replay, recovery, crc")
    return Effects(nvml={f"gpu.{gpu}.nvlink.{link}.error.{kind}": count})


@fault
def nvlink_slow(site: Site, *, gpu: int = 0, link: int = 4, mbytes: int = 13281) -> Effects:
    """One NVLink of one GPU runs at half its speed."""
    return Effects(nvml={f"gpu.{gpu}.nvlink.{link}.speed": mbytes})


@fault
def fabric_degraded(site: Site, *, gpu: int = 0, mask: int = 1) -> Effects:
    """A GPU's fabric is complete and not well: NVML's health mask, 1 is degraded bandwidth, 16 an unhealthy route."""
    return Effects(nvml={f"gpu.{gpu}.fabric.health": mask})


@fault
def sxid(site: Site, *, sxid: int = 24007, switch: int = 0, word: str = "Fatal", times: int = 1) -> Effects:
    """The kernel logs an error of an NVSwitch, Fatal or Non-fatal by its word; nothing else happens."""
    where = bdf(site.board.switches[switch])
    text = f"{word}, Link 46 {SXID_TEXT.get(sxid, 'unknown error')}"
    return Effects(kernel=[(WARNING, f"nvidia-nvswitch{switch}: SXid (PCI:{where}): {sxid}, {text}")] * times)
