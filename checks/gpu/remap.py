"""No GPU waits for a reset to remap a memory row, and none has failed to remap one."""

from __future__ import annotations

from collections.abc import Iterator

from checks.declare import check, code
from checks.gpu.ask import UNTOLD, answering, ask, opened
from checks.host import Host
from checks.wire import Finding

PENDING = code(
    "gpu_remap_pending",
    "fail",
    "node",
    "a row remap waits for a GPU reset ({uncorrectable} rows remapped for uncorrected errors so far)",
    explain="Running work may end; the bad row is replaced at the next reset. "
    "Confirm: `nvidia-smi -q -d ROW_REMAPPER -i <pci id>` says Pending: Yes. "
    "Do: when idle, reset the GPU or reboot; Xid 63 may stay in the log and means nothing then.",
)
FAILED = code(
    "gpu_remap_failed",
    "fail",
    "node",
    "a row could not be remapped ({uncorrectable} rows remapped for uncorrected errors so far)",
    explain="The spare rows are used up: NVIDIA's criterion for a replacement (Xid 64). "
    "Confirm: `nvidia-smi -q -d ROW_REMAPPER -i <pci id>` says Remapping Failure Occurred: Yes. Do: replace the GPU.",
)
MANY = code(
    "gpu_remap_many",
    "warn",
    "node",
    "{uncorrectable} rows remapped for uncorrected errors, limit {limit}",
    explain="Confirm: `nvidia-smi -q -d ROW_REMAPPER -i <pci id>`. Do: plan a replacement.",
)


@check(lane="nvml", interval=60, timeout=5.0, codes=(PENDING, FAILED, MANY, *UNTOLD))
def gpu_remap(host: Host, *, limit: int = 512) -> Iterator[Finding]:
    """Row remap state of each GPU; ``limit`` = rows remapped for uncorrected errors (512 as DCGM warns at).

    Confirm by hand: ``nvidia-smi -q -d ROW_REMAPPER``.
    """
    nvml = opened(host)
    trouble: list[Finding] = []
    for gpu in answering(nvml):
        remap = ask(nvml.remap, gpu, trouble)
        if remap is None:
            continue
        numbers = {"uncorrectable": remap.uncorrectable, "correctable": remap.correctable}
        if remap.failed:
            yield FAILED(gpu.target, uuid=gpu.uuid, **numbers)
        elif remap.pending:
            yield PENDING(gpu.target, uuid=gpu.uuid, **numbers)
        elif remap.uncorrectable >= limit:
            yield MANY(gpu.target, uuid=gpu.uuid, limit=limit, **numbers)
    yield from trouble
