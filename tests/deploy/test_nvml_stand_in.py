"""The stand-in for NVML is read by the real nvidia-ml-py, follows its state file live, fails and hangs as told."""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pynvml
import pytest

from checks.gpu.device import Device
from deploy.simcluster.nvml.state import NvmlState

LOST, RESET_REQUIRED, NOT_SUPPORTED, UNKNOWN = 15, 16, 3, 999


def gpu(index: int) -> Any:
    return pynvml.nvmlDeviceGetHandleByIndex(index)


def code_of(call: Callable[[], object]) -> int:
    with pytest.raises(pynvml.NVMLError) as caught:
        call()
    return int(caught.value.value)


USUAL: list[tuple[str, tuple[object, ...], object]] = [
    ("GetName", (), "NVIDIA H100 80GB HBM3"),
    ("GetSerial", (), "SIM0000000001"),
    ("GetUUID", (), "GPU-51a00000-0000-4000-8000-000000000000"),
    ("GetMinorNumber", (), 3),
    ("GetIndex", (), 0),
    ("GetBoardPartNumber", (), "692-2G520-0200-000"),
    ("GetVbiosVersion", (), "96.00.99.00.01"),
    ("GetInforomImageVersion", (), "G520.0200.00.05"),
    ("ValidateInforom", (), None),
    ("GetBrand", (), pynvml.NVML_BRAND_NVIDIA),
    ("GetArchitecture", (), pynvml.NVML_DEVICE_ARCH_HOPPER),
    ("GetCudaComputeCapability", (), (9, 0)),
    ("GetPersistenceMode", (), 1),
    ("GetComputeMode", (), 0),
    ("GetPerformanceState", (), 0),
    ("GetMigMode", (), [0, 0]),
    ("GetEccMode", (), [1, 1]),
    ("GetTotalEccErrors", (pynvml.NVML_MEMORY_ERROR_TYPE_UNCORRECTED, pynvml.NVML_VOLATILE_ECC), 0),
    ("GetMemoryErrorCounter", (1, 0, pynvml.NVML_MEMORY_LOCATION_SRAM), 0),
    ("GetRemappedRows", (), (0, 0, 0, 0)),
    ("GetNvLinkState", (17,), 1),
    ("GetNvLinkVersion", (0,), pynvml.NVML_NVLINK_VERSION_4_0),
    ("GetNvLinkErrorCounter", (0, pynvml.NVML_NVLINK_ERROR_DL_CRC_FLIT), 0),
    ("GetTemperature", (pynvml.NVML_TEMPERATURE_GPU,), 29),
    ("GetTemperatureV", (pynvml.NVML_TEMPERATURE_GPU,), 29),
    ("GetTemperatureThreshold", (pynvml.NVML_TEMPERATURE_THRESHOLD_SLOWDOWN,), 89),
    ("GetPowerUsage", (), 68570),
    ("GetEnforcedPowerLimit", (), 700000),
    ("GetPowerManagementLimit", (), 700000),
    ("GetPowerManagementDefaultLimit", (), 700000),
    ("GetPowerManagementLimitConstraints", (), [200000, 700000]),
    ("GetClockInfo", (pynvml.NVML_CLOCK_SM,), 345),
    ("GetMaxClockInfo", (pynvml.NVML_CLOCK_SM,), 1980),
    ("GetCurrentClocksEventReasons", (), 1),
    ("GetCurrentClocksThrottleReasons", (), 1),
    ("GetSupportedClocksEventReasons", (), 0x1FF),
    ("GetCurrPcieLinkGeneration", (), 5),
    ("GetCurrPcieLinkWidth", (), 16),
    ("GetMaxPcieLinkGeneration", (), 5),
    ("GetMaxPcieLinkWidth", (), 16),
    ("GetPcieReplayCounter", (), 0),
    ("GetComputeRunningProcesses", (), []),
    ("GetGraphicsRunningProcesses", (), []),
]


@pytest.mark.parametrize(("call", "arguments", "expected"), USUAL, ids=[row[0] for row in USUAL])
def test_a_healthy_gpu_answers(state: NvmlState, call: str, arguments: tuple[object, ...], expected: object) -> None:
    assert getattr(pynvml, f"nvmlDevice{call}")(gpu(0), *arguments) == expected


def test_the_system_answers(state: NvmlState) -> None:
    assert pynvml.nvmlDeviceGetCount() == 8
    assert pynvml.nvmlSystemGetDriverVersion() == "580.95.05"
    assert pynvml.nvmlSystemGetNVMLVersion() == "13.580.95.05"
    assert pynvml.nvmlSystemGetCudaDriverVersion() == pynvml.nvmlSystemGetCudaDriverVersion_v2() == 13000


def test_structures_read_as_the_real_ones(state: NvmlState) -> None:
    pci = pynvml.nvmlDeviceGetPciInfo(gpu(1))
    assert (pci.busId, pci.busIdLegacy, pci.pciDeviceId) == ("00000000:3B:00.0", "0000:3B:00.0", 0x233010DE)
    assert (pci.domain, pci.bus, pci.device) == (0, 0x3B, 0)
    assert pynvml.nvmlDeviceGetNvLinkRemotePciInfo(gpu(0), 5).busId == "00000000:06:00.0"
    memory = pynvml.nvmlDeviceGetMemoryInfo(gpu(0))
    assert (memory.total, memory.used) == (81559 * 2**20, 480 * 2**20)
    memory = pynvml.nvmlDeviceGetMemoryInfo(gpu(0), version=pynvml.nvmlMemory_v2)
    assert (memory.used, memory.reserved, memory.free) == (0, 480 * 2**20, (81559 - 480) * 2**20)
    histogram = pynvml.nvmlDeviceGetRowRemapperHistogram(gpu(0))
    assert (histogram.max, histogram.none) == (2560, 0)
    assert pynvml.nvmlDeviceGetUtilizationRates(gpu(0)).gpu == 0
    sram = pynvml.c_nvmlEccSramErrorStatus_v1_t()
    pynvml.nvmlDeviceGetSramEccErrorStatus(gpu(0), ctypes.byref(sram))
    assert sram.bThresholdExceeded == 0


@pytest.mark.parametrize("version", [2, 3])
def test_the_fabric_is_complete_until_told_otherwise(state: NvmlState, version: int) -> None:
    info = getattr(pynvml, f"c_nvmlGpuFabricInfo_v{version}_t")()
    pynvml.nvmlDeviceGetGpuFabricInfoV(gpu(2), ctypes.byref(info))
    assert (info.state, info.status) == (pynvml.NVML_GPU_FABRIC_STATE_COMPLETED, 0)
    state.change({"gpu.*.fabric.state": 2, "gpu.*.fabric.status": UNKNOWN})
    pynvml.nvmlDeviceGetGpuFabricInfoV(gpu(2), ctypes.byref(info))
    assert (info.state, info.status) == (pynvml.NVML_GPU_FABRIC_STATE_IN_PROGRESS, UNKNOWN)


def test_minor_numbers_are_a_permutation_that_differs_from_the_indices(state: NvmlState) -> None:
    minors = [pynvml.nvmlDeviceGetMinorNumber(gpu(index)) for index in range(8)]
    assert sorted(minors) == list(range(8))
    assert minors != list(range(8))


def test_a_gpu_is_found_by_uuid_and_by_pci_address(state: NvmlState) -> None:
    uuid = pynvml.nvmlDeviceGetUUID(gpu(4))
    by_uuid = pynvml.nvmlDeviceGetHandleByUUID(uuid.encode())
    by_address = pynvml.nvmlDeviceGetHandleByPciBusId(b"00000000:9B:00.0")
    assert pynvml.nvmlDeviceGetIndex(by_uuid) == pynvml.nvmlDeviceGetIndex(by_address) == 4
    assert code_of(lambda: pynvml.nvmlDeviceGetHandleByUUID(b"GPU-none")) == pynvml.NVML_ERROR_NOT_FOUND
    assert code_of(lambda: gpu(8)) == pynvml.NVML_ERROR_INVALID_ARGUMENT


FIELDS: list[tuple[int | tuple[int, int], int]] = [
    (pynvml.NVML_FI_DEV_GET_GPU_RECOVERY_ACTION, 0),
    (pynvml.NVML_FI_DEV_NVLINK_LINK_COUNT, 18),
    ((pynvml.NVML_FI_DEV_NVLINK_GET_SPEED, 17), 26562),
    ((pynvml.NVML_FI_DEV_NVLINK_GET_STATE, 3), 1),
    (pynvml.NVML_FI_DEV_NVLINK_SPEED_MBPS_COMMON, 26562),
    (pynvml.NVML_FI_DEV_ECC_DBE_VOL_TOTAL, 0),
    (pynvml.NVML_FI_DEV_REMAPPED_PENDING, 0),
    (pynvml.NVML_FI_DEV_MEMORY_TEMP, 37),
    (pynvml.NVML_FI_DEV_CLOCKS_EVENT_REASON_HW_THERM_SLOWDOWN, 0),
    (pynvml.NVML_FI_DEV_PCIE_REPLAY_COUNTER, 0),
]


def test_field_values_answer_each_for_itself(state: NvmlState) -> None:
    values = pynvml.nvmlDeviceGetFieldValues(gpu(0), [field for field, _ in FIELDS])
    assert [value.nvmlReturn for value in values] == [0] * len(FIELDS)
    assert [value.value.ullVal for value in values] == [expected for _, expected in FIELDS]
    unknown, beyond = pynvml.nvmlDeviceGetFieldValues(gpu(0), [9999, (pynvml.NVML_FI_DEV_NVLINK_GET_SPEED, 18)])
    assert (unknown.nvmlReturn, beyond.nvmlReturn) == (NOT_SUPPORTED, pynvml.NVML_ERROR_INVALID_ARGUMENT)


def test_a_change_of_state_is_seen_by_the_next_call(state: NvmlState) -> None:
    handle = gpu(3)
    for celsius in (41, 42, 43, 44):
        state.change({"gpu.3.temperature": celsius})
        assert pynvml.nvmlDeviceGetTemperature(handle, 0) == celsius
    state.change({}, remove=["gpu.3.temperature"])
    assert pynvml.nvmlDeviceGetTemperature(handle, 0) == 32


def test_errors_of_memory_show_everywhere_they_are_asked_for(state: NvmlState) -> None:
    state.change({"gpu.1.ecc.uncorrected.volatile.dram": 4, "gpu.1.ecc.uncorrected.volatile.sram": 1})
    state.change({"gpu.1.remap.pending": 1, "gpu.1.remap.failure": 1, "gpu.1.remap.uncorrectable": 2})
    assert pynvml.nvmlDeviceGetTotalEccErrors(gpu(1), 1, 0) == 5
    assert pynvml.nvmlDeviceGetMemoryErrorCounter(gpu(1), 1, 0, pynvml.NVML_MEMORY_LOCATION_DRAM) == 4
    assert pynvml.nvmlDeviceGetRemappedRows(gpu(1)) == (0, 2, 1, 1)
    values = pynvml.nvmlDeviceGetFieldValues(gpu(1), [pynvml.NVML_FI_DEV_ECC_DBE_VOL_TOTAL, 144])
    assert [value.value.ullVal for value in values] == [5, 1]
    assert pynvml.nvmlDeviceGetTotalEccErrors(gpu(0), 1, 0) == 0


def test_a_link_can_be_down_alone(state: NvmlState) -> None:
    state.change({"gpu.2.nvlink.7.state": 0, "gpu.2.nvlink.7.error.crc": 12})
    states = [pynvml.nvmlDeviceGetNvLinkState(gpu(2), link) for link in range(18)]
    assert states == [1] * 7 + [0] + [1] * 10
    assert pynvml.nvmlDeviceGetNvLinkErrorCounter(gpu(2), 7, pynvml.NVML_NVLINK_ERROR_DL_CRC_FLIT) == 12
    assert code_of(lambda: pynvml.nvmlDeviceGetNvLinkState(gpu(2), 18)) == pynvml.NVML_ERROR_INVALID_ARGUMENT


def test_a_field_of_later_hardware_is_told_by_link(state: NvmlState) -> None:
    """NVLink5's counters and rates, through the same question that the check asks."""
    rate, errors = "NVML_FI_DEV_NVLINK_COUNT_EFFECTIVE_BER", "NVML_FI_DEV_NVLINK_COUNT_EFFECTIVE_ERRORS"
    device = Device(pynvml, gpu(2))
    assert device.scoped((rate, 3), (errors, 3)) == {}
    state.change({"gpu.2.nvlink.3.field.220": 0x50C, "gpu.2.nvlink.3.field.219": 17, "gpu.2.field.219": 2})
    assert device.scoped((rate, 3), (errors, 3), (rate, 4), (errors, 4)) == {
        (rate, 3): 0x50C,
        (errors, 3): 17,
        (errors, 4): 2,
    }
    assert device.scoped(("NVML_FI_DEV_NVLINK_GET_STATE", 18), ("NVML_FI_DEV_NO_SUCH_FIELD", 0)) == {}


def test_processes_hold_memory(state: NvmlState) -> None:
    state.change({"gpu.5.processes": f"4711:{2**30},4712:{2**29}"})
    found = pynvml.nvmlDeviceGetComputeRunningProcesses(gpu(5))
    assert [(one.pid, one.usedGpuMemory) for one in found] == [(4711, 2**30), (4712, 2**29)]
    assert pynvml.nvmlDeviceGetMemoryInfo(gpu(5), version=pynvml.nvmlMemory_v2).used == 2**30 + 2**29


def test_an_absent_gpu_is_not_enumerated(state: NvmlState) -> None:
    state.change({"gpu.1.absent": 1})
    assert pynvml.nvmlDeviceGetCount() == 7
    assert pynvml.nvmlDeviceGetPciInfo(gpu(1)).busId == "00000000:4C:00.0"
    assert pynvml.nvmlDeviceGetIndex(gpu(1)) == 1


def test_a_lost_gpu_fails_from_its_handle_on_and_leaves_the_others_alone(state: NvmlState) -> None:
    handle = gpu(3)
    state.change({"gpu.3.error": LOST})
    assert code_of(lambda: gpu(3)) == LOST
    assert code_of(lambda: pynvml.nvmlDeviceGetTemperature(handle, 0)) == LOST
    assert pynvml.nvmlDeviceGetCount() == 8
    assert pynvml.nvmlDeviceGetTemperature(gpu(4), 0) == 29


def test_one_call_on_one_gpu_can_fail(state: NvmlState) -> None:
    state.change({"gpu.3.call.GetTemperature.error": UNKNOWN, "call.GetTotalEccErrors.error": RESET_REQUIRED})
    assert code_of(lambda: pynvml.nvmlDeviceGetTemperature(gpu(3), 0)) == UNKNOWN
    assert pynvml.nvmlDeviceGetTemperature(gpu(2), 0) == 31
    assert code_of(lambda: pynvml.nvmlDeviceGetTotalEccErrors(gpu(2), 1, 0)) == RESET_REQUIRED
    assert pynvml.nvmlDeviceGetPowerUsage(gpu(3)) == 69500


@pytest.mark.parametrize(
    "call",
    [
        lambda handle: pynvml.nvmlDeviceGetRetiredPages(handle, 0),
        lambda handle: pynvml.nvmlDeviceGetRetiredPagesPendingStatus(handle),
        lambda handle: pynvml.nvmlDeviceGetNumaNodeId(handle),
        lambda handle: pynvml.nvmlDeviceGetNvLinkErrorCounter(handle, 0, pynvml.NVML_NVLINK_ERROR_DL_ECC_DATA),
        lambda handle: pynvml.nvmlDeviceGetMemoryErrorCounter(handle, 1, 0, pynvml.NVML_MEMORY_LOCATION_L1_CACHE),
    ],
)
def test_what_an_h100_does_not_have_is_not_supported(state: NvmlState, call: Callable[[Any], object]) -> None:
    assert code_of(lambda: call(gpu(0))) == NOT_SUPPORTED


def test_a_version_mismatch_fails_init_and_leaves_the_library_closed(state: NvmlState) -> None:
    pynvml.nvmlShutdown()
    state.change({"init.error": 18})
    assert code_of(pynvml.nvmlInit) == pynvml.NVML_ERROR_LIB_RM_VERSION_MISMATCH
    assert code_of(pynvml.nvmlDeviceGetCount) == pynvml.NVML_ERROR_UNINITIALIZED
    state.change({}, remove=["init.error"])
    pynvml.nvmlInit()


def test_without_a_state_file_no_driver_is_loaded(state: NvmlState, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NODEVET_SIM_NVML", "/nonexistent/nvml.state")
    assert code_of(pynvml.nvmlInit) == pynvml.NVML_ERROR_DRIVER_NOT_LOADED


def test_the_state_beside_the_library_counts_when_none_is_named(library: Path, tmp_path: Path) -> None:
    (tmp_path / library.name).symlink_to(library)
    NvmlState(tmp_path / "nvml.state").write({"gpu.0.name": "garbled \x1b[31m name", "latency.scale": 0})
    script = (
        "import ctypes, sys, pynvml; ctypes.CDLL(sys.argv[1], ctypes.RTLD_GLOBAL); pynvml.nvmlInit();"
        "print(repr(pynvml.nvmlDeviceGetName(pynvml.nvmlDeviceGetHandleByIndex(0))))"
    )
    argv = [sys.executable, "-c", script, str(tmp_path / library.name)]
    environment = {key: value for key, value in os.environ.items() if key != "NODEVET_SIM_NVML"}
    done = subprocess.run(argv, capture_output=True, text=True, timeout=60, check=True, env=environment)
    assert done.stdout.strip() == r"'garbled \x1b[31m name'"


def test_a_call_takes_its_latency(state: NvmlState) -> None:
    handle = gpu(0)
    state.change({"latency.scale": 1, "call.GetTemperature.latency": 20000})
    began = time.monotonic()
    pynvml.nvmlDeviceGetTemperature(handle, 0)
    assert time.monotonic() - began >= 0.02


def test_a_hang_ends_when_the_state_says_so(state: NvmlState) -> None:
    handle = gpu(6)
    state.change({"gpu.6.hang": 1})
    answers: list[int] = []
    caller = threading.Thread(target=lambda: answers.append(pynvml.nvmlDeviceGetTemperature(handle, 0)), daemon=True)
    caller.start()
    caller.join(0.3)
    assert caller.is_alive()
    assert pynvml.nvmlDeviceGetTemperature(gpu(5), 0) == 30
    state.change({}, remove=["gpu.6.hang"])
    caller.join(30)
    assert answers == [31]


def test_a_value_of_two_lines_is_refused_by_the_writer(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="does not fit on one line"):
        NvmlState(tmp_path / "s").write({"gpu.0.name": "a\nb"})
