"""No GPU is as hot as where it slows itself down."""

from __future__ import annotations

from collections.abc import Iterator

from checks.declare import check, code
from checks.gpu.ask import GPU_UNANSWERED, answering, ask, opened
from checks.host import Host
from checks.wire import Finding

HOT = code(
    "gpu_hot",
    "warn",
    "node",
    "{celsius} degrees C, slows down at {slowdown}",
    explain="The GPU protects itself by running slower, and with it every rank of its job. "
    "Confirm: `nvidia-smi -q -d TEMPERATURE,PERFORMANCE -i <pci id>`. Do: look at fans, airflow, coolant.",
)


@check(lane="nvml", interval=120, timeout=5.0, codes=(HOT, GPU_UNANSWERED))
def gpu_thermal(host: Host, *, margin: int = 0) -> Iterator[Finding]:
    """Temperature of each GPU against the device's own slowdown limit less ``margin`` degrees C.

    Confirm by hand: ``nvidia-smi -q -d TEMPERATURE``.
    """
    nvml = opened(host)
    trouble: list[Finding] = []
    for gpu in answering(nvml):
        read = ask(nvml.temperature, gpu, trouble)
        if read is not None and 0 < read.slowdown - margin <= read.celsius:
            yield HOT(gpu.target, celsius=read.celsius, slowdown=read.slowdown, uuid=gpu.uuid)
    yield from trouble
