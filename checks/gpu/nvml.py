"""The one door to NVML: real pynvml behind a small protocol that gives values and one kind of error."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from checks.gpu.device import Device, Question, answers, available, flag
from checks.gpu.values import Ecc, Fabric, Fault, Gpu, NvmlError, Remap, Temperature, normal_bdf

if TYPE_CHECKING:
    from checks.host import Host

_SLOWDOWN = 1
_LINKS = 18
_ACTIVE = 1
# Actions are numbered from 0 upwards; what lies far beyond is no action but a garbled answer.
_ACTIONS = range(256)
T = TypeVar("T")
LIBRARIES = ("/usr/lib/x86_64-linux-gnu", "/usr/lib/aarch64-linux-gnu", "/usr/lib64", "/usr/lib")


class Nvml(Protocol):
    """Questions to the driver; each may raise NvmlError and each may hang, so ask inside a lane only.

    ``read`` asks any other question of one GPU: a function of its Device that stands beside the check that needs it.
    """

    def driver(self) -> str: ...
    def gpus(self) -> tuple[Gpu, ...]: ...
    def recovery_action(self, gpu: Gpu) -> int: ...
    def ecc(self, gpu: Gpu) -> Ecc: ...
    def remap(self, gpu: Gpu) -> Remap: ...
    def processes(self, gpu: Gpu) -> tuple[int, ...]: ...
    def links(self, gpu: Gpu) -> dict[int, bool]: ...
    def fabric(self, gpu: Gpu) -> Fabric: ...
    def temperature(self, gpu: Gpu) -> Temperature: ...
    def persistence(self, gpu: Gpu) -> bool: ...
    def mig(self, gpu: Gpu) -> bool: ...
    def read(self, question: Question[T], gpu: Gpu) -> T: ...
    def close(self) -> None: ...


def open_nvml(host: Host) -> Nvml:
    """Load the driver library of ``host`` and initialise it; raises NvmlError.

    ``host.nvml_library`` is loaded by absolute path first; pynvml then finds it under its soname. A redirected host
    without one never opens the library of the machine we run on.
    """
    path = host.nvml_library
    if path is None:
        _refuse_empty(host)
        if host.redirected:
            raise NvmlError(Fault.OTHER, f"no NVML for the tree at {host.root}: a kept tree has no driver to ask")
    else:
        _preload(path)
    return _PyNvml()


def _preload(path: Path) -> None:
    if not path.exists():
        raise NvmlError(Fault.LIBRARY_NOT_FOUND, f"driver library {path} is missing")
    if path.stat().st_size == 0:
        raise NvmlError(Fault.LIBRARY_NOT_FOUND, f"driver library {path} has 0 bytes")
    try:
        ctypes.CDLL(str(path.resolve()), mode=ctypes.RTLD_GLOBAL)
    except OSError as error:
        raise NvmlError(Fault.LIBRARY_NOT_FOUND, f"driver library {path} does not load: {error}") from error


def _refuse_empty(host: Host) -> None:
    """An empty driver library is the fault itself; the loader would only say "not found"."""
    empty = empty_library(host, ("libnvidia-ml.so.1",))
    if empty:
        raise NvmlError(Fault.LIBRARY_NOT_FOUND, empty)


def empty_library(host: Host, names: Sequence[str]) -> str:
    """Says which of the driver's libraries has 0 bytes in one folder and is whole in no other; empty when none."""
    for name in names:
        sizes = {}
        for folder in LIBRARIES:
            path = host.path(f"{folder}/{name}")
            with suppress(OSError):
                sizes[f"{folder}/{name}"] = path.stat().st_size
        if sizes and not any(sizes.values()):
            return f"driver library {next(iter(sizes))} has 0 bytes"
    return ""


class _PyNvml:
    """NVML through nvidia-ml-py, initialised once and kept open by its process."""

    def __init__(self) -> None:
        import pynvml

        self._lib: Any = pynvml
        self._handles: dict[int, Any] = {}
        self._known: dict[int, Gpu] = {}
        with answers():
            self._lib.nvmlInit()

    def close(self) -> None:
        """Let go of the driver, so that an administrator can reset a GPU."""
        self._handles.clear()
        with answers():
            self._lib.nvmlShutdown()

    def driver(self) -> str:
        with answers():
            return str(self._lib.nvmlSystemGetDriverVersion())

    def gpus(self) -> tuple[Gpu, ...]:
        """Every GPU, listed anew; one that does not answer carries its fault and hides no other.

        What never changes of a GPU is asked once; handle and UUID prove each time that it is still that one.
        """
        with answers():
            count = int(self._lib.nvmlDeviceGetCount())
        return tuple(self._gpu(index) for index in range(count))

    def _gpu(self, index: int) -> Gpu:
        self._handles.pop(index, None)
        faults: list[Fault] = []
        try:
            with answers():
                handle = self._lib.nvmlDeviceGetHandleByIndex(index)
        except NvmlError as error:
            return Gpu(index, fault=error.fault)
        self._handles[index] = handle

        def ask(question: Callable[[Any], Any]) -> Any:
            try:
                with answers():
                    return question(handle)
            except NvmlError as error:
                if error.fault is not Fault.NOT_SUPPORTED:
                    faults.append(error.fault)
                return None

        uuid = _text(ask(self._lib.nvmlDeviceGetUUID))
        known = self._known.get(index)
        if known is not None and known.uuid == uuid:
            return known
        pci, minor = ask(self._lib.nvmlDeviceGetPciInfo), ask(self._lib.nvmlDeviceGetMinorNumber)
        serial, name = _text(ask(self._lib.nvmlDeviceGetSerial)), _text(ask(self._lib.nvmlDeviceGetName))
        bdf = normal_bdf(_text(pci.busId)) if pci is not None else ""
        number = None if minor is None else int(minor)
        gpu = Gpu(index, uuid, bdf, number, serial, name, faults[0] if faults else None)
        if not faults and uuid and bdf:
            self._known[index] = gpu
        return gpu

    def _handle(self, gpu: Gpu) -> Any:
        if gpu.index not in self._handles:
            raise NvmlError(gpu.fault or Fault.OTHER)
        return self._handles[gpu.index]

    def recovery_action(self, gpu: Gpu) -> int:
        """NVIDIA's recovery action: 0 none, 1 reset, 2 reboot, 3 drain P2P, 4 drain and reset."""
        (action,) = Device(self._lib, self._handle(gpu)).fields("NVML_FI_DEV_GET_GPU_RECOVERY_ACTION")
        if action is None:
            raise NvmlError(Fault.NOT_SUPPORTED)
        if action not in _ACTIONS:
            raise NvmlError(Fault.OTHER, f"garbled answer: {action} is no recovery action")
        return action

    def read(self, question: Question[T], gpu: Gpu) -> T:
        return question(Device(self._lib, self._handle(gpu)))

    def ecc(self, gpu: Gpu) -> Ecc:
        """Uncorrected errors; the SRAM threshold only where the driver gives it."""
        lib, handle = self._lib, self._handle(gpu)
        with answers():
            volatile = available(int(lib.nvmlDeviceGetTotalEccErrors(handle, 1, 0)))
            aggregate = available(int(lib.nvmlDeviceGetTotalEccErrors(handle, 1, 1)))
        if volatile is None:
            raise NvmlError(Fault.NOT_SUPPORTED)
        return Ecc(volatile, aggregate or 0, self._sram(handle))

    def _sram(self, handle: Any) -> bool | None:
        if not hasattr(self._lib, "c_nvmlEccSramErrorStatus_v1_t"):
            return None
        status = self._lib.c_nvmlEccSramErrorStatus_v1_t()
        try:
            with answers():
                self._lib.nvmlDeviceGetSramEccErrorStatus(handle, ctypes.byref(status))
        except NvmlError as error:
            if error.fault is Fault.NOT_SUPPORTED:
                return None
            raise
        return flag(int(status.bThresholdExceeded))

    def remap(self, gpu: Gpu) -> Remap:
        with answers():
            correctable, uncorrectable, pending, failed = self._lib.nvmlDeviceGetRemappedRows(self._handle(gpu))
        rows = available(int(correctable)), available(int(uncorrectable))
        return Remap(rows[0] or 0, rows[1] or 0, flag(int(pending)), flag(int(failed)))

    def processes(self, gpu: Gpu) -> tuple[int, ...]:
        """Process ids with a compute context on the GPU."""
        with answers():
            return tuple(int(p.pid) for p in self._lib.nvmlDeviceGetComputeRunningProcesses(self._handle(gpu)))

    def links(self, gpu: Gpu) -> dict[int, bool]:
        """NVLink number -> up, for the links this GPU has; asked link by link where not all are up by one question."""
        handle, states, denied = self._handle(gpu), self._all_up(gpu), False
        if states:
            return states
        for link in range(_LINKS):
            try:
                with answers():
                    states[link] = bool(self._lib.nvmlDeviceGetNvLinkState(handle, link))
            except NvmlError as error:
                denied = denied or error.fault is Fault.NOT_SUPPORTED
                if error.fault is not Fault.NOT_SUPPORTED and not _no_such_link(error):
                    raise
        if denied and not states:
            raise NvmlError(Fault.NOT_SUPPORTED)
        return states

    def _all_up(self, gpu: Gpu) -> dict[int, bool]:
        """Every link of a GPU that has all of them up, empty for any other; an error leaves it to the other way."""
        device = Device(self._lib, self._handle(gpu))
        count, state = "NVML_FI_DEV_NVLINK_LINK_COUNT", "NVML_FI_DEV_NVLINK_GET_STATE"
        with suppress(NvmlError):
            told = device.scoped((count, 0), *((state, link) for link in range(_LINKS)))
            states = {link: value == _ACTIVE for (name, link), value in told.items() if name == state}
            if states and told.get((count, 0)) == len(states) and all(states.values()):
                return states
        return {}

    def fabric(self, gpu: Gpu) -> Fabric:
        if not hasattr(self._lib, "nvmlDeviceGetGpuFabricInfoV"):
            raise NvmlError(Fault.NOT_SUPPORTED)
        info = self._lib.c_nvmlGpuFabricInfo_v2_t()
        with answers():
            self._lib.nvmlDeviceGetGpuFabricInfoV(self._handle(gpu), ctypes.byref(info))
        return Fabric(info.state, info.status, info.cliqueId, bytes(info.clusterUuid).hex(), info.healthMask)

    def temperature(self, gpu: Gpu) -> Temperature:
        handle = self._handle(gpu)
        with answers():
            now = available(int(self._lib.nvmlDeviceGetTemperature(handle, 0)))
            slowdown = available(int(self._lib.nvmlDeviceGetTemperatureThreshold(handle, _SLOWDOWN)))
        if now is None or slowdown is None:
            raise NvmlError(Fault.NOT_SUPPORTED)
        return Temperature(now, slowdown)

    def persistence(self, gpu: Gpu) -> bool:
        with answers():
            return bool(self._lib.nvmlDeviceGetPersistenceMode(self._handle(gpu)))

    def mig(self, gpu: Gpu) -> bool:
        try:
            with answers():
                return int(self._lib.nvmlDeviceGetMigMode(self._handle(gpu))[0]) == 1
        except NvmlError as error:
            if error.fault is Fault.NOT_SUPPORTED:
                return False
            raise


def _no_such_link(error: NvmlError) -> bool:
    return getattr(error.__cause__, "value", None) == 2


def _text(value: object) -> str:
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    return "" if value is None else str(value)
