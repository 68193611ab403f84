"""Small planted trees and an NVML made of values stand in for hardware; the code under test is always the real one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol, TypeVar, cast

from checks import Host
from checks.gpu.device import Question
from checks.gpu.values import Ecc, Fabric, Fault, Gpu, NvmlError, Remap, Temperature
from checks.wire import JobAttempt

T = TypeVar("T")
NO_ERRORS = Ecc()
NO_REMAP = Remap(0, 0, False, False)
NO_FABRIC = Fabric(0)
COOL = Temperature(35, 87)


class Plant(Protocol):
    """Write a small tree (path -> text or bytes) and return the Host rooted there."""

    def __call__(
        self,
        tree: Mapping[str, str | bytes] | None = None,
        *,
        nvml: FakeNvml | None = None,
        kmsg: Path | None = None,
        job: JobAttempt | None = None,
    ) -> Host: ...


def write_tree(root: Path, tree: Mapping[str, str | bytes]) -> None:
    """Create the files of ``tree`` below ``root``; a text "-> target" makes a symbolic link."""
    for name, content in tree.items():
        path = root / name.lstrip("/")
        path.parent.mkdir(parents=True, exist_ok=True)
        if isinstance(content, str) and content.startswith("-> "):
            path.symlink_to(content.removeprefix("-> "))
        elif isinstance(content, str):
            path.write_text(content, encoding="utf-8")
        else:
            path.write_bytes(content)


def planter(root: Path) -> Plant:
    """The ``plant`` of one test, below its own folder."""

    def plant(
        tree: Mapping[str, str | bytes] | None = None,
        *,
        nvml: FakeNvml | None = None,
        kmsg: Path | None = None,
        job: JobAttempt | None = None,
    ) -> Host:
        write_tree(root, tree or {})
        host = Host(root=root, kmsg=kmsg, job=job, simulated=True)
        host._nvml = nvml
        return host

    return plant


@dataclass
class FakeGpu:
    """What one GPU answers; an NvmlError among the values is raised instead."""

    gpu: Gpu
    recovery_action: int | NvmlError = 0
    ecc: Ecc | NvmlError = NO_ERRORS
    remap: Remap | NvmlError = NO_REMAP
    processes: tuple[int, ...] | NvmlError = ()
    links: dict[int, bool] | NvmlError | None = None
    fabric: Fabric | NvmlError = NO_FABRIC
    temperature: Temperature | NvmlError = COOL
    persistence: bool | NvmlError = True
    mig: bool | NvmlError = False
    told: dict[object, object] = field(default_factory=dict)
    """Answers by question (a function of a Device); what is not here is not supported."""


class FakeNvml:
    """An NVML whose answers are values."""

    def __init__(self, gpus: Sequence[FakeGpu], driver: str = "550.54.15") -> None:
        self._gpus = list(gpus)
        self._driver = driver

    def __getitem__(self, index: int) -> FakeGpu:
        return self._gpus[index]

    def driver(self) -> str:
        return self._driver

    def gpus(self) -> tuple[Gpu, ...]:
        return tuple(g.gpu for g in self._gpus)

    def recovery_action(self, gpu: Gpu) -> int:
        return _answer(self._of(gpu).recovery_action)

    def ecc(self, gpu: Gpu) -> Ecc:
        return _answer(self._of(gpu).ecc)

    def remap(self, gpu: Gpu) -> Remap:
        return _answer(self._of(gpu).remap)

    def processes(self, gpu: Gpu) -> tuple[int, ...]:
        return _answer(self._of(gpu).processes)

    def links(self, gpu: Gpu) -> dict[int, bool]:
        links = self._of(gpu).links
        return dict.fromkeys(range(18), True) if links is None else _answer(links)

    def fabric(self, gpu: Gpu) -> Fabric:
        return _answer(self._of(gpu).fabric)

    def temperature(self, gpu: Gpu) -> Temperature:
        return _answer(self._of(gpu).temperature)

    def persistence(self, gpu: Gpu) -> bool:
        return _answer(self._of(gpu).persistence)

    def mig(self, gpu: Gpu) -> bool:
        return _answer(self._of(gpu).mig)

    def read(self, question: Question[T], gpu: Gpu) -> T:
        return _answer(cast("T | NvmlError", self._of(gpu).told.get(question, NvmlError(Fault.NOT_SUPPORTED))))

    def close(self) -> None:
        return None

    def _of(self, gpu: Gpu) -> FakeGpu:
        if gpu.fault is not None:
            raise NvmlError(gpu.fault)
        return next(g for g in self._gpus if g.gpu.index == gpu.index)


def _answer(value: T | NvmlError) -> T:
    if isinstance(value, NvmlError):
        raise value
    return value


BDFS = tuple(f"0000:{bus:02x}:00.0" for bus in (0x18, 0x2A, 0x3A, 0x5D, 0x9A, 0xAB, 0xBA, 0xDB))


def h100s(count: int = 8, faults: Mapping[int, Fault] | None = None) -> FakeNvml:
    """``count`` healthy H100s; those in ``faults`` answer with that fault. Minors run against the index."""
    made = []
    for index in range(count):
        fault = (faults or {}).get(index)
        if fault in (Fault.GPU_IS_LOST, Fault.UNKNOWN, Fault.TIMEOUT):
            made.append(FakeGpu(Gpu(index, fault=fault)))
            continue
        uuid = f"GPU-00000000-0000-4000-8000-{index:012x}"
        minor = count - 1 - index
        gpu = Gpu(index, uuid, BDFS[index], minor, str(1650000000000 + index), "NVIDIA H100 80GB HBM3", fault)
        made.append(FakeGpu(gpu))
    return FakeNvml(made)


def pci_tree(count: int = 8, *, dead: Sequence[int] = (), switches: int = 4) -> dict[str, str | bytes]:
    """The PCI part of /sys for ``count`` H100s and their NVSwitches; the ``dead`` read all ones."""
    tree: dict[str, str | bytes] = {}
    for index in range(count):
        base = f"/sys/bus/pci/devices/{BDFS[index]}"
        config = b"\xff" * 64 if index in dead else bytes.fromhex("de103023") + bytes(60)
        tree |= {
            f"{base}/vendor": "0x10de\n",
            f"{base}/device": "0x2330\n",
            f"{base}/class": "0x030200\n",
            f"{base}/config": config,
        }
    for number in range(switches):
        base = f"/sys/bus/pci/devices/0000:0{number + 5}:00.0"
        tree |= {
            f"{base}/vendor": "0x10de\n",
            f"{base}/device": "0x22a3\n",
            f"{base}/class": "0x068000\n",
            f"{base}/config": bytes.fromhex("de10a322") + bytes(60),
        }
    return tree


def device_nodes(count: int = 8) -> dict[str, str | bytes]:
    """Stand-ins for /dev/nvidia<minor>."""
    names = ["nvidiactl", "nvidia-uvm", *(f"nvidia{minor}" for minor in range(count))]
    return {f"/dev/{name}": "" for name in names}
