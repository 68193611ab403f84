"""Every fault says what it changes on a simulated node; a node's state is its healthy state and all its faults."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from deploy.simcluster.tree import Board, Content, Identity, pci, proc
from deploy.simcluster.tree.board import bdf

Target = str | int | float | None
WARNING, ERROR, INFO = 4, 3, 6
"""Kernel log priorities."""

XID_TEXT = {
    13: "Graphics SM Warp Exception on (GPC 2, TPC 3, SM 0): Out Of Range Address",
    31: "MMU Fault: ENGINE GRAPHICS GPC1 GPCCLIENT_T1_0 faulted @ 0x7f2c_40000000. Fault is of type FAULT_PDE",
    43: "Ch 00000010",
    45: "Ch 00000010",
    48: "DBE (double bit error) ECC Error",
    63: "Row Remapper: New row marked for remapping, reset gpu to activate.",
    64: "Row Remapper: Error, unable to remap row.",
    74: "NVLink: fatal error detected on link 4(0x10000, 0x0, 0x0, 0x0, 0x0, 0x0, 0x0)",
    79: "GPU has fallen off the bus.",
    94: "Contained: SM (0x1). RST: No, D-RST: No",
    95: "Uncontained: LTC TAG (0x2,0x0). RST: Yes, D-RST: No",
    119: "Timeout after 6s of waiting for RPC response from GPU0 GSP!",
    154: "GPU recovery action changed from 0x0 (None) to 0x1 (GPU Reset Required)",
}


@dataclass(slots=True)
class Effects:
    """What one fault does: NVML state, files in place of the healthy ones, kernel messages, counters, a mount.

    ``wear`` is added to counters once and stays after healing, as on hardware. ``kernel_healed`` is what the driver
    logs when the repair has worked.
    """

    nvml: dict[str, str | int] = field(default_factory=dict)
    files: dict[str, Content] = field(default_factory=dict)
    kernel: list[tuple[int, str]] = field(default_factory=list)
    kernel_healed: list[tuple[int, str]] = field(default_factory=list)
    wear: dict[str, int] = field(default_factory=dict)
    failed_units: frozenset[str] = frozenset()
    mount: tuple[str, str, float | None] | None = None
    """Kind (hang, slow, full), path on the node, delay in seconds."""
    gone: frozenset[str] = frozenset()
    """Files, folders and links of the healthy node that are not there."""


@dataclass(frozen=True, slots=True)
class Site:
    """The node a fault strikes."""

    board: Board
    identity: Identity


Fault = Callable[..., Effects]
FAULTS: dict[str, Fault] = {}


def fault(function: Fault) -> Fault:
    """Make a fault injectable under its function's name."""
    FAULTS[function.__name__] = function
    return function


def xid_line(address: str, number: int, text: str, pid: int | None = None, name: str = "python3") -> str:
    """Return the kernel line of an Xid; the driver leaves the PCI function out."""
    who = "pid='<unknown>', name=<unknown>" if pid is None else f"pid={pid}, name={name}"
    return f"NVRM: Xid (PCI:{address.rpartition('.')[0]}): {number}, {who}, {text}"


@fault
def gpu_lost(site: Site, *, gpu: int = 3) -> Effects:
    """A GPU falls off the bus: NVML says lost, its configuration space reads as ones, Xid 79 in the log."""
    address = site.board.gpu_bdf(gpu)
    return Effects(
        nvml={f"gpu.{gpu}.error": 15},
        files=pci.lost(address),
        kernel=[
            (WARNING, xid_line(address, 79, XID_TEXT[79])),
            (ERROR, f"NVRM: GPU {address}: GPU has fallen off the bus."),
        ],
    )


@fault
def gpu_absent(site: Site, *, gpu: int = 3) -> Effects:
    """A GPU is not found after a boot: NVML enumerates one less, PCI still shows a dead function."""
    return Effects(nvml={f"gpu.{gpu}.absent": 1}, files=pci.lost(site.board.gpu_bdf(gpu)))


@fault
def gpu_reset_required(site: Site, *, gpu: int = 3) -> Effects:
    """A GPU answers but wants a reset: the recovery action says so, ECC counters do not."""
    address = site.board.gpu_bdf(gpu)
    lines = [(WARNING, xid_line(address, number, XID_TEXT[number])) for number in (95, 154)]
    cured = "GPU recovery action changed from 0x1 (GPU Reset Required) to 0x0 (None)"
    return Effects(
        nvml={f"gpu.{gpu}.recovery_action": 1}, kernel=lines, kernel_healed=[(WARNING, xid_line(address, 154, cured))]
    )


@fault
def xid(site: Site, *, xid: int = 79, gpu: int = 0, pid: int | None = None, text: str = "", times: int = 1) -> Effects:
    """The kernel logs an Xid; nothing else happens."""
    line = xid_line(site.board.gpu_bdf(gpu), xid, text or XID_TEXT.get(xid, "unknown error"), pid)
    return Effects(kernel=[(WARNING, line)] * times)


@fault
def ecc(site: Site, *, gpu: int = 0, count: int = 1, remap: str = "pending") -> Effects:
    """Uncorrectable memory errors; ``remap`` says what became of the row: pending, failure, done or none."""
    address = site.board.gpu_bdf(gpu)
    place = f"gpu.{gpu}"
    nvml: dict[str, str | int] = {
        f"{place}.ecc.uncorrected.volatile.dram": count,
        f"{place}.ecc.uncorrected.aggregate.dram": count,
    }
    lines = [(WARNING, xid_line(address, 48, XID_TEXT[48]))]
    if remap in {"pending", "done"}:
        nvml |= {f"{place}.remap.uncorrectable": count, f"{place}.remap.pending": int(remap == "pending")}
        lines.append((WARNING, xid_line(address, 63, XID_TEXT[63])))
    elif remap == "failure":
        nvml[f"{place}.remap.failure"] = 1
        lines.append((WARNING, xid_line(address, 64, XID_TEXT[64])))
    elif remap != "none":
        raise ValueError(f"remap is {remap!r}, one of pending, failure, done, none")
    return Effects(nvml=nvml, kernel=lines)


@fault
def nvlink_down(site: Site, *, gpu: int = 0, link: int = 4) -> Effects:
    """One NVLink of one GPU is inactive and has counted errors."""
    text = f"NVLink: fatal error detected on link {link}(0x10000, 0x0, 0x0, 0x0, 0x0, 0x0, 0x0)"
    place = f"gpu.{gpu}.nvlink.{link}"
    return Effects(
        nvml={f"{place}.state": 0, f"{place}.error.crc": 37, f"{place}.error.recovery": 1},
        kernel=[(WARNING, xid_line(site.board.gpu_bdf(gpu), 74, text))],
    )


@fault
def fabric_down(site: Site) -> Effects:
    """The fabric manager has failed: no GPU gets beyond "in progress", the unit is failed."""
    return Effects(nvml={"gpu.*.fabric.state": 2}, failed_units=frozenset({"nvidia-fabricmanager"}))


@fault
def throttled(site: Site, *, gpu: int = 0, celsius: int = 91) -> Effects:
    """A GPU is too hot and slows itself down (hardware thermal slowdown)."""
    return Effects(nvml={f"gpu.{gpu}.temperature": celsius, f"gpu.{gpu}.clocks.event_reasons": 0x48})


@fault
def nvml_hang(site: Site, *, gpu: int | None = None, uninterruptible: bool = True) -> Effects:
    """Calls into the driver do not return: those on one GPU, or all of them."""
    deaf: dict[str, str | int] = {"hang.uninterruptible": int(uninterruptible)}
    if gpu is not None:
        return Effects(nvml={f"gpu.{gpu}.hang": 1, **deaf})
    calls = ("GetCount", "SystemGetDriverVersion", "SystemGetNVMLVersion")
    return Effects(nvml={"init.hang": 1, "gpu.*.hang": 1, **{f"call.{call}.hang": 1 for call in calls}, **deaf})


@fault
def nvml_error(site: Site, *, code: int = 999, call: str = "GetTemperature", gpu: int | None = None) -> Effects:
    """One NVML call gives an error code, on one GPU or on all."""
    return Effects(nvml={f"{'' if gpu is None else f'gpu.{gpu}.'}call.{call}.error": code})


@fault
def driver_mismatch(site: Site, *, module: str = "570.172.08") -> Effects:
    """The library was upgraded under a loaded kernel module: NVML does not initialise."""
    files: dict[str, Content] = {
        "proc/driver/nvidia/version": proc.kernel_module(module),
        "sys/module/nvidia/version": f"{module}\n",
    }
    line = f"NVRM: API mismatch: the client has the version 580.95.05, but this kernel module has {module}."
    return Effects(nvml={"init.error": 18}, files=files, kernel=[(ERROR, line)])


@fault
def leftover_process(
    site: Site, *, gpu: int = 0, pid: int = 90210, uid: int = 20001, mib: int = 4096, job: int | None = None
) -> Effects:
    """A process holds memory of a GPU: one that no job owns, or one of ``job``."""
    started = 100 * 86_400
    return Effects(
        nvml={f"gpu.{gpu}.processes": f"{pid}:{mib << 20}"},
        files=proc.process(pid, command="python3 train.py", uid=uid, started=started, job=job),
    )


@fault
def switch_lost(site: Site, *, switch: int = 0) -> Effects:
    """An NVSwitch no longer answers on the bus."""
    return Effects(files=pci.lost(bdf(site.board.switches[switch])))


@fault
def hung_mount(site: Site, *, path: str = "/scratch") -> Effects:
    """A file system never answers: everybody who touches it sleeps in the kernel (root, FUSE)."""
    return Effects(mount=("hang", path, None))


@fault
def slow_disk(site: Site, *, path: str = "/scratch", seconds: float = 2.0) -> Effects:
    """A file system answers every request late (root, FUSE)."""
    return Effects(mount=("slow", path, seconds))


@fault
def disk_full(site: Site, *, path: str = "/tmp") -> Effects:
    """A file system has no byte left (root, a small tmpfs)."""
    return Effects(mount=("full", path, None))


@fault
def reset_hangs(site: Site) -> Effects:
    """nvidia-smi hangs in a reset and hears no signal."""
    return Effects(nvml={"smi.hang": 1})


@fault
def reset_together(site: Site) -> Effects:
    """nvidia-smi resets all GPUs of the board at once or none, as NVSwitch boards before Hopper need it."""
    return Effects(nvml={"smi.together": 1})
