"""All GPUs of a node are the same model with the same firmware and memory, and each is one of its own."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from checks.declare import check, code, ok
from checks.gpu.ask import UNTOLD, answering, opened, read
from checks.gpu.device import Device
from checks.gpu.driver_files import information
from checks.gpu.values import Fault, Gpu, NvmlError
from checks.host import Host
from checks.wire import Finding

MIXED = code(
    "gpu_firmware_mixed",
    "warn",
    "config",
    "{what} is {found}, most of the node's {model} have {usual}",
    explain="A GPU was exchanged, or an update reached a part of them; jobs across them can be slower or differ. "
    "Confirm: `nvidia-smi --query-gpu=pci.bus_id,name,vbios_version,inforom.img --format=csv`. "
    "Do: bring it to the version of the others when the node is idle.",
)
OTHER = code(
    "gpu_firmware_other",
    "warn",
    "config",
    "{what} is {found}, expected {expected}",
    explain="The node differs from what its profile or the site expects of the fleet. "
    "Confirm: `nvidia-smi --query-gpu=pci.bus_id,name,vbios_version,inforom.img,memory.total --format=csv`. "
    "Do: update it when idle, or correct the setting.",
)
MODELS = code(
    "gpu_models_mixed",
    "warn",
    "config",
    "GPUs are of {count} models: {models}",
    explain="Confirm: `nvidia-smi -L`. Do: where that is meant, name every model in [checks.gpu_inventory] models.",
)
MEMORY = code(
    "gpu_memory_small",
    "warn",
    "node",
    "memory is {found} MiB, {than} {expected} MiB",
    explain="A part of the memory is not used: another board, a failed stack or another ECC mode. "
    "Confirm: `nvidia-smi --query-gpu=pci.bus_id,memory.total,ecc.mode.current --format=csv`. Do: compare ECC modes; "
    "if they agree, replace the GPU.",
)
TWICE = code(
    "gpu_uuid_twice",
    "warn",
    "node",
    "UUID is that of {other} as well",
    explain="Two GPUs cannot be told apart by what Slurm and CUDA know them by. Confirm: `nvidia-smi -L`. "
    "Do: power-cycle; if it stays, the board's infoROM was written wrongly: return it.",
)
EXCLUDED = code(
    "gpu_excluded",
    "warn",
    "config",
    "driver was told to leave this GPU alone",
    explain="NVreg_ExcludedGpus or the fabric manager took it out: nobody can use it. Confirm: "
    "`nvidia-smi -B`, `cat /proc/driver/nvidia/gpus/<pci id>/information`. Do: see /etc/modprobe.d and who set it.",
)

_SLACK = 0.005
"""Share by which the memory of two good GPUs of one model may differ: pages that the driver keeps back."""
_MIB = 1024 * 1024


@dataclass(frozen=True, slots=True)
class Identity:
    """What one GPU is made of; empty or 0 where the driver does not tell."""

    vbios: str = ""
    inforom: str = ""
    board: str = ""
    memory_mib: int = 0


def gpu_identity(device: Device) -> Identity:
    memory = _told(device, "nvmlDeviceGetMemoryInfo")
    return Identity(
        vbios=gpu_vbios(device),
        inforom=_text(_told(device, "nvmlDeviceGetInforomImageVersion")),
        board=_text(_told(device, "nvmlDeviceGetBoardPartNumber")),
        memory_mib=int(memory.total) // _MIB if memory is not None else 0,
    )


def gpu_vbios(device: Device) -> str:
    return _text(_told(device, "nvmlDeviceGetVbiosVersion"))


def _told(device: Device, name: str) -> Any:
    """The answer, None where it is not supported or, as for a damaged infoROM, cannot be given."""
    try:
        return device.call(name)
    except NvmlError as error:
        if error.fault in (Fault.NOT_SUPPORTED, Fault.CORRUPTED_INFOROM):
            return None
        raise


def _text(value: object) -> str:
    if isinstance(value, bytes):
        value = value.decode("utf-8", "replace")
    text = "" if value is None else str(value).strip()
    return "" if text.lower() in ("n/a", "unknown") else text


@check(
    lane="nvml",
    interval=3600,
    timeout=5.0,
    codes=(MIXED, OTHER, MODELS, MEMORY, TWICE, EXCLUDED, *UNTOLD),
)
def gpu_inventory(
    host: Host,
    *,
    models: tuple[str, ...] = (),
    vbios: tuple[str, ...] = (),
    inforom: tuple[str, ...] = (),
    boards: tuple[str, ...] = (),
    memory_mib: int = 0,
) -> Iterator[Finding]:
    """Model, VBIOS, infoROM image, board part number and memory, within each model alike and as set, if set.

    ``models``, ``vbios``, ``inforom`` and ``boards`` list what is accepted; a model is meant by any part of its name.
    gcm and imbue fail a node whose VBIOS differs; no job is wrong for it, so this only warns. Serial numbers are not
    held to be different: GPUs on one board share them (GB200). Who was swapped for whom: ``nodevet swaps``; how a node
    differs from the others of its profile: ``nodevet firmware``.
    Confirm by hand: ``nvidia-smi --query-gpu=pci.bus_id,name,serial,vbios_version,inforom.img --format=csv``.

    ``memory_mib``: the least of one GPU; 0 compares the GPUs of the node.
    """
    nvml = opened(host)
    trouble: list[Finding] = []
    known = [(g, told) for g in answering(nvml) if (told := read(nvml, gpu_identity, g, trouble)) is not None]
    yield from _models([g for g, _ in known], models)
    for model in dict.fromkeys(g.name for g, _ in known):
        like = [(g, told) for g, told in known if g.name == model]
        for what, accepted in (("VBIOS", vbios), ("infoROM image", inforom), ("board part number", boards)):
            yield from _texts(what, model, [(g, _part(told, what)) for g, told in like], accepted)
        yield from _memory([(g, told.memory_mib) for g, told in like if told.memory_mib > 0], memory_mib)
    yield from _own([g for g, _ in known])
    yield from (EXCLUDED(one.bdf, uuid=one.uuid) for one in information(host) if one.excluded)
    yield from trouble
    if known:
        first, told = known[0]
        yield ok("node", f"{len(known)} GPUs, VBIOS {told.vbios or 'not told'}", model=first.name, vbios=told.vbios)


def _part(told: Identity, what: str) -> str:
    return {"VBIOS": told.vbios, "infoROM image": told.inforom}.get(what, told.board)


def _models(gpus: Sequence[Gpu], accepted: tuple[str, ...]) -> Iterator[Finding]:
    names = Counter(g.name for g in gpus if g.name)
    if accepted:
        for gpu in gpus:
            if gpu.name and not any(word.lower() in gpu.name.lower() for word in accepted):
                yield OTHER(gpu.target, what="model", found=gpu.name, expected=" or ".join(accepted), uuid=gpu.uuid)
    elif len(names) > 1:
        yield MODELS("node", count=len(names), models=", ".join(f"{n} x {name}" for name, n in sorted(names.items())))


def _texts(what: str, model: str, found: Sequence[tuple[Gpu, str]], accepted: tuple[str, ...]) -> Iterator[Finding]:
    """One finding for each GPU that differs; with a list of what is accepted, from that, else from most of the node."""
    told = [(gpu, text) for gpu, text in found if text]
    usual = _most([text for _, text in told])
    for gpu, text in told:
        if accepted and text not in accepted:
            yield OTHER(gpu.target, what=what, found=text, expected=" or ".join(accepted), uuid=gpu.uuid)
        elif not accepted and usual and text != usual:
            yield MIXED(gpu.target, what=what, found=text, model=model, usual=usual, uuid=gpu.uuid)


def _most(texts: Sequence[str]) -> str:
    """What most have; of two that are as frequent the later by name, since updates count up."""
    counted = Counter(texts)
    return max(counted, key=lambda text: (counted[text], text), default="")


def _memory(found: Sequence[tuple[Gpu, int]], expected: int) -> Iterator[Finding]:
    most = max((size for _, size in found), default=0)
    wanted, than = (expected, "expected at least") if expected else (most, "others of its model have")
    for gpu, size in found:
        if size < wanted * (1 - _SLACK):
            yield MEMORY(gpu.target, found=size, than=than, expected=wanted, uuid=gpu.uuid)


def _own(gpus: Sequence[Gpu]) -> Iterator[Finding]:
    first: dict[str, Gpu] = {}
    for gpu in gpus:
        if gpu.uuid and first.setdefault(gpu.uuid, gpu) is not gpu:
            yield TWICE(gpu.target, other=first[gpu.uuid].target, uuid=gpu.uuid)
