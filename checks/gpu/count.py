"""The node has every GPU that its profile and gres.conf promise."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from checks.declare import Skip, check, code
from checks.gpu.pci import PciDevice, device_minors, has_nvidia, pci_gpus, pci_switches
from checks.gpu.values import Fault, Gpu, NvmlError
from checks.host import Host
from checks.pci import functions
from checks.wire import Finding

LOW = code(
    "gpu_count_low",
    "fail",
    "node",
    "{found} of {expected} GPUs: PCI {pci}, NVML {nvml}, device nodes {nodes}; missing {missing}",
    explain="A GPU that the profile or gres.conf promises is absent from the bus or from the driver. "
    "Confirm: `lspci -d 10de: | grep -i -e '3D' -e VGA` (rev ff = dead), `nvidia-smi -L`, `ls /dev/nvidia*`. "
    "Do: let jobs end, power-cycle the node; if it stays away, reseat or replace the GPU.",
)
NO_SIGN = code(
    "gpu_count_no_sign",
    "unknown",
    "self",
    "0 of {expected} GPUs and no other sign that they are dead",
    explain="None was found in any way, which is more often a blind check or a wrong profile than so many dead GPUs. "
    "Confirm: `lspci -d 10de:`, `nodevet check gpu_count`."
    " Do: correct the profile, or see to the slots and the power of the GPUs.",
)
UNSURE = code(
    "gpu_count_unsure",
    "unknown",
    "node",
    "PCI shows {pci} of {expected} GPUs, the driver did not say",
    explain="The bus looks right and NVML did not answer; gpu_driver says why."
    " Do: follow what gpu_driver says; nothing follows from this one.",
)
ALL_LOST = code(
    "gpu_count_all_lost",
    "unknown",
    "node",
    "driver calls all {pci} GPUs lost and the PCI bus shows every one alive",
    explain="So many do not die at once, and a dead one no longer answers on the bus: more often the driver itself is "
    "in trouble. Confirm: `nvidia-smi`, `lspci -d 10de:` (rev ff = dead), `dmesg | grep -i nvrm`. "
    "Do: when idle, load the driver anew or reboot.",
)
CONFLICT = code(
    "gpu_count_conflict",
    "warn",
    "config",
    "profile expects {profile} GPUs, gres.conf {gres}",
    explain="Two promises differ; the larger one is held. Do: correct the profile or gres.conf.",
)
HIGH = code(
    "gpu_count_high",
    "warn",
    "config",
    "{found} GPUs, expected {expected}; correct profile and gres.conf",
    explain="Somebody added GPUs, or another profile fits. Do: correct profile and gres.conf.",
)
NO_PROMISE = code(
    "gpu_count_no_promise",
    "warn",
    "config",
    "{found} GPUs, and neither a profile nor gres.conf promises any: a lost one could not be missed",
    explain="The hardware is not known to us, so only what every node must satisfy is judged. "
    "Do: write a profile, or set [checks.gpu_count] expected.",
)
NO_NODE = code(
    "gpu_device_node_missing",
    "warn",
    "node",
    "device nodes {nodes} of {expected}: /dev/nvidia{missing} missing",
    explain="Confirm: `ls -l /dev/nvidia*`. Do: `nvidia-modprobe -u -c <minor>`, or start nvidia-persistenced.",
)


@dataclass(frozen=True, slots=True)
class _Seen:
    """The three ways of counting; ``nvml`` is None where the driver did not say.

    ``elsewhere``: GPUs that another kernel driver holds, for a virtual machine or a screen; they do not count.
    """

    pci: tuple[PciDevice, ...]
    minors: tuple[int, ...]
    nvml: tuple[Gpu, ...] | None
    elsewhere: tuple[PciDevice, ...] = ()

    def lacking(self) -> str:
        """What is missing, in words."""
        held = [f"{d.bdf} (bound to {d.driver})" for d in self.elsewhere]
        return ", ".join([*self.missing(), *held]) or "unknown"

    def missing(self) -> list[str]:
        """PCI ids that the driver does not list; without its answer those that are dead."""
        if self.nvml is None:
            return sorted(d.bdf for d in self.pci if d.dead)
        return sorted(d.bdf for d in self.pci if d.bdf not in self._listed())

    def _listed(self) -> set[str]:
        """PCI ids that the driver lists and does not call lost; whether they are well is asked by gpu_health."""
        return {g.bdf for g in self.nvml or () if g.fault is not Fault.GPU_IS_LOST}

    def unconfirmed(self) -> bool:
        """Whether the driver calls all of several GPUs lost and the bus shows every one of them alive."""
        lost = [g.fault is Fault.GPU_IS_LOST for g in self.nvml or ()]
        return len(lost) > 1 and all(lost) and len(self.pci) >= len(lost) and not any(d.dead for d in self.pci)

    def found(self) -> int:
        """How many GPUs are really there: the smallest of what each way can vouch for."""
        counts = []
        if self.pci:
            counts.append(sum(not d.dead or d.bdf in self._listed() for d in self.pci))
        if self.nvml is not None:
            counts.append(sum(g.fault is not Fault.GPU_IS_LOST for g in self.nvml))
        return min(counts, default=0)


@check(
    lane="nvml",
    interval=60,
    timeout=5.0,
    required=True,
    codes=(LOW, NO_SIGN, UNSURE, ALL_LOST, CONFLICT, HIGH, NO_PROMISE, NO_NODE),
)
def gpu_count(host: Host, *, expected: int = 0, gres: int = 0) -> Iterator[Finding]:
    """GPUs counted on PCI, as device nodes and by NVML, against the larger of ``expected`` (profile) and ``gres``.

    Without an expectation only a GPU that died on the bus or under the driver is missed, and that is a warning of its
    own: what is seen now never becomes the expectation.
    Confirm by hand: ``lspci -d 10de:``, ``nvidia-smi -L``, ``ls /dev/nvidia*``.
    """
    wanted = max(expected, gres)
    if not wanted and not has_nvidia(host):
        raise Skip("no NVIDIA GPU in this node")
    if expected and gres and expected != gres:
        yield CONFLICT("node", profile=expected, gres=gres)
    ours, elsewhere = tuple(d for d in pci_gpus(host) if d.ours), tuple(d for d in pci_gpus(host) if not d.ours)
    seen = _Seen(ours, device_minors(host), _nvml_gpus(host), elsewhere)
    if not wanted and seen.nvml is None and not seen.missing():
        raise Skip("the driver does not open and no GPU is expected")
    if not wanted and seen.found():
        yield NO_PROMISE("node", found=seen.found())
    yield from _judge(host, seen, wanted or len(seen.pci))


def _nvml_gpus(host: Host) -> tuple[Gpu, ...] | None:
    try:
        return host.nvml().gpus()
    except NvmlError:
        return None


def _judge(host: Host, seen: _Seen, wanted: int) -> Iterator[Finding]:
    found, missing = seen.found(), seen.missing()
    # An open driver that lists none, beside a bus that can be read, is a sign; so are switches that are still there.
    sign = missing or seen.elsewhere or pci_switches(host) or (seen.nvml is not None and functions(host))
    if found == 0 and not sign:
        if wanted:
            yield NO_SIGN("node", expected=wanted)
        return
    if seen.unconfirmed() and len(seen.pci) >= wanted:
        yield ALL_LOST("node", pci=len(seen.pci))
        return
    if found < wanted:
        yield LOW(
            "node",
            found=found,
            expected=wanted,
            pci=len(seen.pci),
            nvml="no answer" if seen.nvml is None else len(seen.nvml),
            nodes=len(seen.minors),
            missing=seen.lacking(),
        )
        return
    if seen.nvml is None:
        yield UNSURE("node", pci=len(seen.pci), expected=wanted)
    elif found > wanted:
        yield HIGH("node", found=found, expected=wanted)
    else:
        yield from _device_nodes(seen, wanted)


def _device_nodes(seen: _Seen, wanted: int) -> Iterator[Finding]:
    """A GPU without its device node cannot be used; where /dev is not there at all nothing is said."""
    lacking = sorted({g.minor for g in seen.nvml or () if g.minor is not None} - set(seen.minors))
    if seen.minors and lacking:
        yield NO_NODE("node", nodes=len(seen.minors), expected=wanted, missing=",".join(map(str, lacking)))
