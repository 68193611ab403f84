"""Every NVLink of every GPU is up."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from checks.declare import Skip, check, code
from checks.gpu.ask import GPU_UNANSWERED, UNTOLD, answering, ask, opened
from checks.gpu.pci import pci_switches
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

UNEVEN = code(
    "gpu_nvlink_uneven",
    "warn",
    "node",
    "{up} NVLinks up, {most} on other GPUs of this node that have any",
    explain="Of cards in pairs with bridges: one bridge is loose, or was not put on. Confirm: `nvidia-smi nvlink -s`, "
    "`nvidia-smi topo -m`. Do: reseat the bridge; where it is meant to be so, give the number as `links`.",
)


@check(lane="nvml", interval=120, timeout=5.0, codes=(DOWN, UNEVEN, *UNTOLD))
def gpu_nvlink(host: Host, *, links: int = 0) -> Iterator[Finding]:
    """State of every link of each GPU against ``links`` per GPU from the profile; every bad GPU is named.

    With ``links`` 0 a link that is down is judged only beside an NVSwitch: on other machines
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
    if alike and not trouble and not any(up for _, up in ups.values()):
        raise Skip("no NVLink in this node is in use and none is promised")
    if alike:
        yield from _uneven(ups)
    yield from trouble


def _uneven(ups: Mapping[str, tuple[str, int]]) -> Iterator[Finding]:
    """GPUs of one model with fewer links up than others of it; those without any have no bridge."""
    most = {name: max(up for model, up in ups.values() if model == name) for name, _ in ups.values()}
    for target, (name, up) in ups.items():
        if 0 < up < most[name]:
            yield UNEVEN(target, up=up, most=most[name])
