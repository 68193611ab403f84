"""Every NVLink of every GPU is up."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from checks.declare import Skip, check, code
from checks.gpu.ask import GPU_UNANSWERED, UNTOLD, answering, ask, opened, read
from checks.gpu.device import Device
from checks.gpu.nvml import Nvml
from checks.gpu.pci import pci_switches
from checks.gpu.values import Gpu
from checks.host import Host
from checks.wire import Finding

DOWN = code(
    "gpu_nvlink_down",
    "fail",
    "node",
    "{up} of {expected} NVLinks up, down: {down}",
    explain="Collectives over this GPU hang or crawl. "
    "Confirm: `nvidia-smi nvlink -s -i <pci id>`, `dmesg | grep -i -e 'Xid.* 74,' -e SXid`. "
    "Do: let jobs end, restart the fabric manager and reset all GPUs, or reboot; if it returns, replace.",
)

SLOW = code(
    "gpu_nvlink_slow",
    "warn",
    "node",
    "{count} of {up} NVLinks at less than {limit:g} GB/s, the slowest, {link}, at {slowest:g}",
    explain="Collectives run at the speed of the slowest link. Where all links of all GPUs are alike, a bandwidth mode "
    "was chosen. Confirm: `nvidia-smi nvlink -s -i <pci id>`, `nvidia-smi nvlink -gBwMode`. Do: set the mode, or reset "
    "the GPUs when idle; if one stays slow, replace.",
)
UNEVEN = code(
    "gpu_nvlink_uneven",
    "warn",
    "node",
    "{up} NVLinks up, {most} on other GPUs of this node that have any",
    explain="Of cards in pairs with bridges: one bridge is loose, or was not put on. Confirm: `nvidia-smi nvlink -s`, "
    "`nvidia-smi topo -m`. Do: reseat the bridge; where it is meant to be so, give the number as `links`.",
)
MOST_LINKS = 36
SPEEDS_FOR = 600.0


def link_speeds(device: Device) -> dict[int, float]:
    """GB/s of each link in one direction, 0 of one that is down."""
    (links,) = device.fields("NVML_FI_DEV_NVLINK_LINK_COUNT")
    speed = "NVML_FI_DEV_NVLINK_GET_SPEED"
    told = device.scoped(*((speed, link) for link in range(min(links or 0, MOST_LINKS))))
    return {link: value / 1000 for (_, link), value in told.items()}


@check(lane="nvml", interval=120, timeout=5.0, codes=(DOWN, SLOW, UNEVEN, *UNTOLD))
def gpu_nvlink(host: Host, *, links: int = 0, min_gbytes: float = 0.0) -> Iterator[Finding]:
    """State and speed of every link of each GPU against the profile: ``links`` per GPU, of ``min_gbytes`` GB/s.

    Every bad GPU is named. With ``links`` 0 a link that is down is judged only beside an NVSwitch: on other machines
    unused links are normal, and only GPUs that have some are compared with their like. A GPU in MIG mode has no
    NVLink and is left alone. Confirm by hand: ``nvidia-smi nvlink -s``.
    """
    nvml = opened(host)
    alike = not links and not pci_switches(host)
    trouble: list[Finding] = []
    ups: dict[str, tuple[str, int]] = {}
    for gpu in answering(nvml):
        if ask(nvml.mig, gpu, trouble):
            continue
        known = len(trouble)
        states = ask(nvml.links, gpu, trouble)
        if states is None and links and len(trouble) == known:
            error = f"not supported, {links} links expected"
            trouble.append(GPU_UNANSWERED(gpu.target, question="links", error=error, uuid=gpu.uuid))
        if states is None:
            continue
        expected = links or len(states)
        up = sum(states.values())
        down = [str(link) for link in range(max(expected, len(states))) if not states.get(link)]
        ups[gpu.target] = (gpu.name, up)
        if up < expected and not alike:
            text = ",".join(down)
            yield DOWN(gpu.target, up=up, expected=expected, down=text, uuid=gpu.uuid, index=gpu.index)
        if min_gbytes and up:
            yield from _slow(gpu, _speeds(host, nvml, gpu, trouble), min_gbytes)
    if alike and not trouble and not any(up for _, up in ups.values()):
        raise Skip("no NVLink in this node is in use and none is promised")
    if alike:
        yield from _uneven(ups)
    yield from trouble


def _speeds(host: Host, nvml: Nvml, gpu: Gpu, trouble: list[Finding]) -> Mapping[int, float]:
    """Speeds change when a link trains, so those of a GPU whose links are alike are good for a while."""
    known = host.kept("gpu_nvlink speeds", dict[str, tuple[float, dict[int, float]]])
    at, told = known.get(gpu.uuid, (0.0, {}))
    if not told or host.clock() - at >= SPEEDS_FOR:
        told = read(nvml, link_speeds, gpu, trouble) or {}
        known.pop(gpu.uuid, None)
        if told and min(told.values()) == max(told.values()):
            known[gpu.uuid] = host.clock(), told
    return told


def _slow(gpu: Gpu, speeds: Mapping[int, float], limit: float) -> Iterator[Finding]:
    """Links that are up and slower than promised; makers round, so a tenth is borne."""
    up = {link: speed for link, speed in speeds.items() if speed > 0}
    slow = {link: speed for link, speed in up.items() if speed < 0.9 * limit}
    if slow:
        link, slowest = min(slow.items(), key=lambda item: item[1])
        values = {"count": len(slow), "up": len(up), "link": link, "slowest": slowest, "limit": limit}
        yield SLOW(gpu.target, **values, uuid=gpu.uuid)


def _uneven(ups: Mapping[str, tuple[str, int]]) -> Iterator[Finding]:
    """GPUs of one model with fewer links up than others of it; those without any have no bridge."""
    most = {name: max(up for model, up in ups.values() if model == name) for name, _ in ups.values()}
    for target, (name, up) in ups.items():
        if 0 < up < most[name]:
            yield UNEVEN(target, up=up, most=most[name])
