"""Each GPU is divided (MIG), or whole, as Slurm hands it out."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from checks.declare import Skip, check, code, ok
from checks.gpu.ask import UNTOLD, answering, opened, read
from checks.gpu.device import Device
from checks.gpu.values import Fault, Gpu, NvmlError
from checks.host import Host
from checks.wire import Finding

_LOOK = "Confirm: `nvidia-smi mig -lgi`, `nvidia-smi --query-gpu=pci.bus_id,mig.mode.current,mig.mode.pending "
_LOOK += "--format=csv`, /etc/slurm/gres.conf. "
PENDING = code(
    "gpu_mig_pending",
    "warn",
    "config",
    "MIG mode is {current} and will be {pending} after a reset",
    explain=_LOOK + "Do: when idle, reset the GPU, or set the mode back.",
)
ON = code(
    "gpu_mig_on",
    "warn",
    "config",
    "GPU is divided into {found} instances, gres.conf promises it whole",
    explain="A job that is given this GPU gets one instance of it, or none. " + _LOOK + "Do: switch MIG off and reset "
    "the GPU, or tell Slurm of the instances.",
)
OFF = code(
    "gpu_mig_off",
    "fail",
    "config",
    "MIG is off, {expected} instances are promised",
    explain="Jobs that ask for an instance find no device. " + _LOOK + "Do: `nvidia-smi -i <pci id> -mig 1`, reset, "
    "make the instances (nvidia-mig-parted), restart slurmd.",
)
MISSING = code(
    "gpu_mig_missing",
    "fail",
    "config",
    "{found} of {expected} instances: {lacking}",
    explain="Instances do not outlive a reboot or a reset: whoever makes them has not run or has failed. "
    + _LOOK
    + "Do: start nvidia-mig-manager or make them (`nvidia-mig-parted apply`), then restart slurmd.",
)
EMPTY = code(
    "gpu_mig_empty",
    "warn",
    "config",
    "MIG is on and there is no instance",
    explain="Nobody can use the GPU. " + _LOOK + "Do: make the instances, or switch MIG off and reset the GPU.",
)
GARBLED = code(
    "gpu_mig_setting",
    "unknown",
    "self",
    "setting layout is not understood at {entry!r}",
    explain="The setting ``layout`` cannot be read. Do: write it as `nodevet explain gpu_mig` says.",
)

_NOT_FOUND = 6
_UNNAMED = "?"
"""An instance whose profile the driver does not tell."""
_INSTANCES = 32
_OUTSIDE = re.compile(r",(?![^()]*\))")
_GRES = re.compile(
    r"(?P<name>[a-z_]\w*)(?::(?P<type>(?!\d+[KMGT]?(?:\(|$))[\w.+-]+))?(?::no_consume)?(?::(?P<count>\d{1,4})[KMGT]?)?"
    r"(?:\([^()]*\))*",
    re.IGNORECASE,
)
_PROFILE = re.compile(r"(?:(\d)c\.)?(\d)g\.(\d{1,3})gb", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Mig:
    """MIG mode now and after the next reset, and the instances by their profile, such as 1g.10gb."""

    current: bool
    pending: bool
    instances: tuple[str, ...] = ()


def mig_state(device: Device) -> Mig:
    current, pending = (bool(mode) for mode in device.call("nvmlDeviceGetMigMode"))
    if not current:
        return Mig(current, pending)
    most = int(device.call("nvmlDeviceGetMaxMigDeviceCount"))
    found = (_instance(device, index) for index in range(min(most, _INSTANCES)))
    return Mig(current, pending, tuple(sorted(name for name in found if name is not None)))


def _instance(device: Device, index: int) -> str | None:
    """The profile of one instance by Slurm's and NVIDIA's name, None where no instance has this number."""
    try:
        handle = device.call("nvmlDeviceGetMigDeviceHandleByIndex", index)
    except NvmlError as error:
        if getattr(error.__cause__, "value", None) == _NOT_FOUND:
            return None
        raise
    try:
        told = Device(device.lib, handle).call("nvmlDeviceGetAttributes")
    except NvmlError as error:
        if error.fault is Fault.NOT_SUPPORTED:
            return _UNNAMED
        raise
    slices, parts = int(told.gpuInstanceSliceCount), int(told.computeInstanceSliceCount)
    name = f"{slices}g.{-(-int(told.memorySizeMB) // 1024)}gb"
    return name if parts == slices else f"{parts}c.{name}"


@check(lane="nvml", interval=300, timeout=5.0, codes=(PENDING, ON, OFF, MISSING, EMPTY, GARBLED, *UNTOLD))
def gpu_mig(host: Host, *, layout: str = "", gres_mig: tuple[str, ...] = ()) -> Iterator[Finding]:
    """MIG of each GPU against gres.conf, and of the node against ``layout``, its Gres as in slurm.conf.

    ``gres_mig`` is what gres.conf gives for each device minor: ``0:`` whole, ``1:1g.10gb`` one instance of 1. With
    AutoDetect=nvml gres.conf names neither, so ``layout`` says it: ``gpu:a100_1g.5gb:7,gpu:a100:1``. More than is
    promised is no fault. Confirm by hand: ``nvidia-smi mig -lgi``, ``scontrol show node NODE | grep Gres``.
    """
    nvml = opened(host)
    trouble: list[Finding] = []
    seen = [(gpu, told) for gpu in answering(nvml) if (told := read(nvml, mig_state, gpu, trouble)) is not None]
    if not seen and not trouble:
        raise Skip("no GPU of this node can be divided")
    promised = _promised(gres_mig)
    for gpu, told in seen:
        if told.current != told.pending:
            yield PENDING(gpu.target, current=_word(told.current), pending=_word(told.pending), uuid=gpu.uuid)
        yield from _judge(gpu, told, promised.get(gpu.minor), bool(layout))
    if layout:
        yield from _whole_node(seen, layout)
    yield from trouble
    divided = sum(told.current for _, told in seen)
    yield ok("node", f"{divided} of {len(seen)} GPUs are divided", divided=divided)


def _word(on: bool) -> str:
    return "on" if on else "off"


def _promised(told: Sequence[str]) -> dict[int | None, list[str]]:
    """What Slurm hands out by device minor: an empty list is a whole GPU."""
    found: dict[int | None, list[str]] = {}
    for entry in told:
        minor, colon, profile = entry.partition(":")
        if colon and minor.isascii() and minor.isdecimal():
            found.setdefault(int(minor), []).extend([profile] if profile else [])
    return found


def _judge(gpu: Gpu, told: Mig, promised: list[str] | None, layout: bool) -> Iterator[Finding]:
    if promised is None:
        if told.current and not told.instances and not layout:
            yield EMPTY(gpu.target, uuid=gpu.uuid)
    elif not promised:
        if told.current:
            yield ON(gpu.target, found=len(told.instances), uuid=gpu.uuid, minor=gpu.minor)
    elif not told.current:
        yield OFF(gpu.target, expected=len(promised), uuid=gpu.uuid, minor=gpu.minor)
    elif lacking := _lacking(promised, told.instances):
        yield MISSING(
            gpu.target,
            found=len(told.instances),
            expected=len(promised),
            lacking=lacking,
            uuid=gpu.uuid,
            minor=gpu.minor,
        )


def _lacking(promised: Sequence[str], found: Sequence[str]) -> str:
    """Which instances are too few, in words; a type whose name tells no profile is only counted."""
    named = [profile for name in promised if (profile := _profile(name))]
    if len(named) == len(promised) and _UNNAMED not in found:
        wanted, there = Counter(named), Counter(_profile(name) or name for name in found)
        few = {profile: (there[profile], n) for profile, n in wanted.items() if there[profile] < n}
        return ", ".join(f"{have} of {n} {profile}" for profile, (have, n) in sorted(few.items()))
    return f"{len(found)} of {len(promised)}" if len(found) < len(promised) else ""


def _profile(name: str) -> str:
    """The profile in the name of a GRES type: 1g.5gb of nvidia_a100_1g.5gb+me; empty where there is none."""
    found = _PROFILE.search(name)
    if found is None:
        return ""
    parts = f"{found[1]}c." if found[1] and found[1] != found[2] else ""
    return f"{parts}{found[2]}g.{int(found[3])}gb"


def _whole_node(seen: Sequence[tuple[Gpu, Mig]], layout: str) -> Iterator[Finding]:
    """The node's instances and whole GPUs against a GRES string; what is no GPU there is left out."""
    wanted: Counter[str] = Counter()
    for entry in filter(None, (part.strip() for part in _OUTSIDE.split(layout))):
        found = _GRES.fullmatch(entry)
        if found is None:
            yield GARBLED("node", entry=entry[:64])
            return
        if found["name"] == "gpu":
            wanted[_profile(found["type"] or "") or "whole"] += int(found["count"] or 1)
    there = _there(seen)
    if there[_UNNAMED]:
        return
    few = {kind: (there[kind], n) for kind, n in wanted.items() if there[kind] < n}
    if few:
        lacking = ", ".join(f"{have} of {n} {kind}" for kind, (have, n) in sorted(few.items()))
        yield MISSING("node", found=sum(there.values()), expected=sum(wanted.values()), lacking=lacking)


def _there(seen: Sequence[tuple[Gpu, Mig]]) -> Counter[str]:
    found: Counter[str] = Counter()
    for _, told in seen:
        found.update([_profile(name) or _UNNAMED for name in told.instances] if told.current else ["whole"])
    return found
