"""Every GPU answers the driver and asks for no reset."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from checks.declare import Code, check, code
from checks.gpu.ask import NO_PERMISSION, opened
from checks.gpu.nvml import Nvml
from checks.gpu.pci import pci_gpus
from checks.gpu.values import Fault, Gpu, NvmlError
from checks.host import Host
from checks.wire import Finding

LOST = code(
    "gpu_lost",
    "fail",
    "node",
    "GPU is lost: {sign}",
    explain="The GPU no longer answers on the bus; every job that touches it fails. "
    "Confirm: `nvidia-smi -L`, `lspci -s <pci id>` (rev ff), `dmesg | grep -i 'fallen off the bus'`. "
    "Do: let jobs end, power-cycle the node; if it comes back twice, reseat or replace the GPU.",
)
RESET = code(
    "gpu_reset_required",
    "fail",
    "node",
    "GPU must be reset: {sign}",
    explain="The driver refuses new work on this GPU until it is reset. "
    "Confirm: `nvidia-smi -q -i <pci id> | grep -i recovery`. "
    "Do: when idle, `nvidia-smi --gpu-reset -i <pci id>`, on NVSwitch machines all GPUs at once, else reboot.",
)
REBOOT = code(
    "gpu_reboot_required",
    "fail",
    "node",
    "GPU asks for a reboot of the node: {sign}",
    explain="Confirm: `nvidia-smi -q -i <pci id> | grep -i recovery`. Do: let jobs end, reboot.",
)
DRAIN_RESET = code(
    "gpu_drain_and_reset",
    "fail",
    "node",
    "GPU runs with reduced capacity and must be reset when idle: {sign}",
    explain="Running work may end. Confirm: `nvidia-smi -q -i <pci id> | grep -i recovery`. Do: drain, then reset.",
)
P2P = code(
    "gpu_drain_p2p",
    "warn",
    "node",
    "GPU asks that peer-to-peer work ends: {sign}",
    explain="Confirm: `nvidia-smi -q -i <pci id> | grep -i recovery`, `nvidia-smi nvlink -s`."
    " The GPU's NVLinks need mending, its own work is right. Do: when idle, reset the GPU; if it comes "
    "again, a person looks at the links.",
)
IMEX = code(
    "gpu_recover_imex",
    "warn",
    "fabric",
    "GPU asks that the IMEX domain is recovered: {sign}",
    explain="Confirm: `nvidia-imex-ctl -N`, `nvidia-smi -q -i <pci id>`. Do: restart nvidia-imex on all trays of "
    "the domain when idle.",
)
FAILING = code(
    "gpu_failing",
    "fail",
    "node",
    "GPU gave {sign} for {seconds:g} s while {siblings} others answered",
    explain="The driver answers for the other GPUs and not for this one. "
    "Confirm: `nvidia-smi -q -i <pci id>`, `dmesg | grep -i xid`. Do: let jobs end, reset the GPU or reboot.",
)
UNSURE = code(
    "gpu_unsure",
    "unknown",
    "node",
    "GPU gave {sign}: {why}",
    explain="One odd answer is no fault. It becomes one when it stays for 30 s while other GPUs answer."
    " Do: wait for the next look.",
)
INFOROM = code(
    "gpu_inforom",
    "warn",
    "node",
    "GPU's infoROM is corrupted",
    explain="The GPU works; it may lose its error history. Do: plan a firmware repair with the vendor.",
)

STAYS = 30.0
"""Seconds an UNKNOWN or TIMEOUT must stay, over two rounds at least, before it is the GPU's fault (DESIGN rule 1)."""

ACTIONS: dict[int, Code] = {1: RESET, 2: REBOOT, 3: P2P, 4: DRAIN_RESET, 5: IMEX, 6: RESET, 7: REBOOT}
ACTION_NAMES = {
    1: "reset",
    2: "reboot",
    3: "drain P2P",
    4: "drain and reset",
    5: "recover IMEX",
    6: "bus reset",
    7: "reboot",
}
_ALIKE = (
    Fault.GPU_IS_LOST,
    Fault.UNKNOWN,
    Fault.TIMEOUT,
    Fault.OTHER,
    Fault.INSUFFICIENT_POWER,
    Fault.IRQ_ISSUE,
)


@check(
    lane="nvml",
    interval=30,
    timeout=5.0,
    required=True,
    codes=(LOST, RESET, REBOOT, DRAIN_RESET, P2P, IMEX, FAILING, UNSURE, INFOROM, NO_PERMISSION),
)
def gpu_health(host: Host) -> Iterator[Finding]:
    """Each GPU is asked for its identity, counters, temperature and the recovery action the driver wants.

    Lost and reset required are faults at once. An unknown error or a time-out is one only after 30 s, over two
    rounds, while other GPUs answer; where all GPUs fail alike, only the PCI bus can confirm it.
    Confirm by hand: ``nvidia-smi -q``, ``lspci -d 10de:``.
    """
    nvml = opened(host)
    try:
        gpus = nvml.gpus()
    except NvmlError as error:
        yield UNSURE("node", sign=_sign(error), why="it was asked which GPUs there are")
        return
    dead = {d.bdf for d in pci_gpus(host) if d.dead and d.ours}
    named = _named(host, gpus)
    asked = {g.index: _basics(nvml, g) for g in gpus}
    faults = {index: answer[0] for index, answer in asked.items()}
    alike = len(gpus) > 1 and len(set(faults.values())) == 1 and faults[gpus[0].index] in _ALIKE
    waiting = host.kept("gpu_health", dict[str, tuple[float, int]])
    for gpu in gpus:
        target, fault = named[gpu.index], faults[gpu.index]
        silent = target in dead
        dead.discard(target)
        if silent and fault is None:
            why = "it answers the driver while its PCI configuration reads all ones"
            yield UNSURE(target, sign="two answers", why=why, uuid=gpu.uuid)
        elif silent:
            yield LOST(target, sign="its PCI configuration reads all ones", uuid=gpu.uuid, index=gpu.index)
        elif fault in _ALIKE:
            siblings = sum(f not in _ALIKE for f in faults.values())
            yield _doubtful(host, waiting, gpu, target, fault, asked[gpu.index][1], alike=alike, siblings=siblings)
        else:
            waiting.pop(target, None)
            yield from _answered(gpu, target, *asked[gpu.index])
    for bdf in sorted(dead):
        yield LOST(bdf, sign="its PCI configuration reads all ones and the driver no longer lists it")


def _named(host: Host, gpus: Sequence[Gpu]) -> dict[int, str]:
    """Target of each GPU; one that cannot say its PCI id gets those left over on the bus, in order."""
    known = {g.bdf for g in gpus}
    left = [d.bdf for d in pci_gpus(host) if d.bdf not in known]
    silent = [g for g in gpus if not g.bdf]
    named = {g.index: g.target for g in gpus}
    if len(left) == len(silent):
        named.update({g.index: bdf for g, bdf in zip(silent, left, strict=True)})
    return named


def _basics(nvml: Nvml, gpu: Gpu) -> tuple[Fault | None, str, int]:
    """The first fault that a basic question meets, in words too, and the recovery action; not supported is no fault."""
    action = 0
    if gpu.fault is not None:
        return gpu.fault, str(gpu.fault), action
    try:
        action = nvml.recovery_action(gpu)
    except NvmlError as error:
        if error.fault is not Fault.NOT_SUPPORTED:
            return error.fault, _sign(error), action
    for question in (nvml.ecc, nvml.remap, nvml.temperature):
        try:
            question(gpu)
        except NvmlError as error:
            if error.fault is not Fault.NOT_SUPPORTED:
                return error.fault, _sign(error), action
    return None, "", action


def _sign(error: NvmlError) -> str:
    """The driver's own words where we have none."""
    return str(error) if error.fault is Fault.OTHER else str(error.fault)


def _doubtful(
    host: Host,
    waiting: dict[str, tuple[float, int]],
    gpu: Gpu,
    target: str,
    fault: Fault | None,
    sign: str,
    *,
    alike: bool,
    siblings: int,
) -> Finding:
    """A lost GPU is lost; any other doubt needs time and siblings that answer; all alike proves nothing."""
    if alike:
        return UNSURE(target, sign=sign, why="all GPUs alike and the PCI bus does not confirm it", uuid=gpu.uuid)
    if fault is Fault.GPU_IS_LOST:
        return LOST(target, sign="the driver says so", uuid=gpu.uuid, index=gpu.index)
    first, rounds = waiting.get(target, (host.clock(), 0))
    waiting[target] = (first, rounds + 1)
    seconds = host.clock() - first
    if rounds >= 1 and seconds >= STAYS and siblings and fault is not Fault.OTHER:
        return FAILING(target, sign=sign, seconds=round(seconds), siblings=siblings, uuid=gpu.uuid)
    if fault is Fault.OTHER:
        why = "what it means is not known to us"
    elif not siblings:
        why = "no other GPU answers that it could be compared with"
    else:
        why = f"for {seconds:.0f} s, limit {STAYS:.0f} s and two looks"
    return UNSURE(target, sign=sign, why=why, uuid=gpu.uuid)


def _answered(gpu: Gpu, target: str, fault: Fault | None, sign: str, action: int) -> Iterator[Finding]:
    """What a GPU that answers wants: its explicit fault, and its recovery action."""
    if fault is Fault.RESET_REQUIRED and not action:
        yield RESET(target, sign="the driver says so", uuid=gpu.uuid)
    elif fault is Fault.CORRUPTED_INFOROM:
        yield INFOROM(target, uuid=gpu.uuid)
    elif fault is Fault.NO_PERMISSION:
        yield NO_PERMISSION(target)
    elif fault not in (None, Fault.RESET_REQUIRED):
        yield UNSURE(target, sign=sign, why="not an answer about the GPU")
    if action:
        # An action newer than we are holds new work as a reset would.
        made = ACTIONS.get(action, RESET)
        yield made(target, sign=f"recovery action {ACTION_NAMES.get(action, action)}", action=action, uuid=gpu.uuid)
