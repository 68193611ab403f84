"""The stand-in tells what slows a GPU down and wears it out, as the drivers of each generation do."""

from __future__ import annotations

from typing import Any

import pynvml
import pytest

from deploy.simcluster.nvml.state import NvmlState

NOT_SUPPORTED = 3


def gpu(index: int) -> Any:
    return pynvml.nvmlDeviceGetHandleByIndex(index)


USUAL: list[tuple[str, tuple[object, ...], object]] = [
    ("GetMarginTemperature", (), 58),
    ("GetGspFirmwareMode", (), [1, 1]),
    ("GetGspFirmwareVersion", (), b"580.95.05"),
    ("GetApplicationsClock", (pynvml.NVML_CLOCK_GRAPHICS,), 1980),
    ("GetDefaultApplicationsClock", (pynvml.NVML_CLOCK_MEM,), 2619),
    ("GetRepairStatus", (), [0, 0]),
    ("GetUnrepairableMemoryFlag_v1", (), 0),
]


@pytest.mark.parametrize(("call", "arguments", "expected"), USUAL, ids=[row[0] for row in USUAL])
def test_a_healthy_gpu_answers(state: NvmlState, call: str, arguments: tuple[object, ...], expected: object) -> None:
    assert getattr(pynvml, f"nvmlDevice{call}")(gpu(0), *arguments) == expected


def test_slowness_and_replays_grow_with_the_time(state: NvmlState) -> None:
    state.change(
        {"gpu.1.clocks.event_reasons": 0x48, "gpu.1.slowed.hw_thermal": 10**12, "gpu.1.pcie.replay_rate": 10**9}
    )
    fields = [pynvml.NVML_FI_DEV_CLOCKS_EVENT_REASON_HW_THERM_SLOWDOWN, pynvml.NVML_FI_DEV_PCIE_REPLAY_COUNTER]
    read = [[v.value.ullVal for v in pynvml.nvmlDeviceGetFieldValues(gpu(1), fields)] for _ in range(2)]
    assert 10**12 < read[0][0] < read[1][0]
    assert 0 <= read[0][1] < read[1][1]
    assert pynvml.nvmlDeviceGetFieldValues(gpu(2), fields)[0].value.ullVal == 0


def test_an_older_board_retires_pages(state: NvmlState) -> None:
    fields = [pynvml.NVML_FI_DEV_RETIRED_SBE, pynvml.NVML_FI_DEV_RETIRED_DBE, pynvml.NVML_FI_DEV_RETIRED_PENDING]
    assert [v.nvmlReturn for v in pynvml.nvmlDeviceGetFieldValues(gpu(0), fields)] == [NOT_SUPPORTED] * 3
    state.change({"gpu.0.retired.single": 7, "gpu.0.retired.pending": 1})
    assert [v.value.ullVal for v in pynvml.nvmlDeviceGetFieldValues(gpu(0), fields)] == [7, 0, 1]
