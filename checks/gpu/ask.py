"""How a check asks each GPU one question, so that one bad GPU hides no other."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from checks.declare import Skip, code
from checks.gpu.device import Question
from checks.gpu.nvml import Nvml
from checks.gpu.pci import has_nvidia
from checks.gpu.values import Fault, Gpu, NvmlError
from checks.host import Host
from checks.wire import Finding

T = TypeVar("T")

GPU_UNANSWERED = code(
    "gpu_unanswered",
    "unknown",
    "node",
    "{question} not answered: {error}",
    explain="The driver gave an error for one question about this GPU. gpu_health judges whether the GPU is at fault. "
    "Confirm: `nvidia-smi -q -i <pci id>`."
    " Do: nothing by itself; if it stays, look at the driver's log.",
)

NO_PERMISSION = code(
    "gpu_no_permission",
    "unknown",
    "self",
    "driver refuses our question about this GPU",
    explain="Confirm: `ls -l /dev/nvidia*`. Do: let the agent run as root, as its unit does.",
)
UNTOLD = (GPU_UNANSWERED, NO_PERMISSION)
"""What any check that asks GPUs may find besides: one of them did not answer."""


def opened(host: Host) -> Nvml:
    """The node's NVML; Skip where there is no NVIDIA GPU or the driver does not open, which gpu_driver judges."""
    if not has_nvidia(host):
        raise Skip("no NVIDIA GPU in this node")
    try:
        return host.nvml()
    except NvmlError as error:
        raise Skip(f"NVML does not open ({error}), see gpu_driver") from error


def answering(nvml: Nvml) -> list[Gpu]:
    """The GPUs that can be asked further; those with a fault are judged by gpu_health alone, a silent driver too."""
    try:
        return [gpu for gpu in nvml.gpus() if gpu.fault is None]
    except NvmlError as error:
        raise Skip(f"driver does not list its GPUs ({error}), see gpu_health") from error


def ask(question: Callable[[Gpu], T], gpu: Gpu, trouble: list[Finding]) -> T | None:
    """The answer of one GPU; None where it is not supported or failed, a failure is added to ``trouble``."""
    return _told(lambda: question(gpu), getattr(question, "__name__", "question"), gpu, trouble)


def read(nvml: Nvml, question: Question[T], gpu: Gpu, trouble: list[Finding]) -> T | None:
    """The same for a question that stands beside its check."""
    return _told(lambda: nvml.read(question, gpu), getattr(question, "__name__", "question"), gpu, trouble)


def _told(answer: Callable[[], T], name: str, gpu: Gpu, trouble: list[Finding]) -> T | None:
    try:
        return answer()
    except NvmlError as error:
        if error.fault is Fault.NO_PERMISSION:
            trouble.append(NO_PERMISSION(gpu.target))
        elif error.fault is not Fault.NOT_SUPPORTED:
            spoken = name.strip("_").replace("_", " ")
            trouble.append(GPU_UNANSWERED(gpu.target, question=spoken, error=str(error), uuid=gpu.uuid))
        return None
