"""A driver's number that stands for no value, or that is no answer at all, is never a fault of the GPU."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace

import pytest

from checks.gpu.device import Device
from checks.gpu.nvml import _PyNvml
from checks.gpu.values import Ecc, Fault, Gpu, NvmlError, Remap, Temperature

GPU = Gpu(0, "GPU-1", "0000:3b:00.0", 0)
NONE_32, NONE_64 = 0xFFFFFFFF, 0xFFFFFFFFFFFFFFFF


def asked(**answers: object) -> _PyNvml:
    """NVML whose library gives these answers; SIMULATION of the library alone."""
    nvml = object.__new__(_PyNvml)
    nvml._lib = SimpleNamespace(**{name: (lambda *_, told=told: told) for name, told in answers.items()})
    nvml._handles = {0: object()}
    return nvml


def fault(question: Callable[[Gpu], object]) -> Fault:
    with pytest.raises(NvmlError) as raised:
        question(GPU)
    return raised.value.fault


@pytest.mark.parametrize("flags", [(255, 0), (0, NONE_32), (2, 1), (-1, 0)])
def test_a_remap_that_is_neither_pending_nor_not_is_unknown(flags: tuple[int, int]) -> None:
    """E24, E33: pending and failure take a GPU out of service, so they are believed only as yes or no."""
    assert fault(asked(nvmlDeviceGetRemappedRows=(0, 0, *flags)).remap) is Fault.OTHER


def test_a_count_that_stands_for_none_is_none() -> None:
    """E24: 4294967295 rows were never remapped."""
    assert asked(nvmlDeviceGetRemappedRows=(NONE_32, NONE_32, 1, 0)).remap(GPU) == Remap(0, 0, True, False)


@pytest.mark.parametrize("count", [NONE_32, NONE_64])
def test_uncorrected_errors_without_a_count_are_not_supported(count: int) -> None:
    """E33: on a GPU that remaps no rows any count above 0 is a fault, and this one is no count."""
    assert fault(asked(nvmlDeviceGetTotalEccErrors=count).ecc) is Fault.NOT_SUPPORTED
    assert asked(nvmlDeviceGetTotalEccErrors=3).ecc(GPU) == Ecc(3, 3)


@pytest.mark.parametrize("degrees", [NONE_32, NONE_64])
def test_a_temperature_that_stands_for_none_is_not_supported(degrees: int) -> None:
    """E55: no GPU has 4294967295 degrees."""
    told = asked(nvmlDeviceGetTemperature=degrees, nvmlDeviceGetTemperatureThreshold=89)
    assert fault(told.temperature) is Fault.NOT_SUPPORTED
    told = asked(nvmlDeviceGetTemperature=40, nvmlDeviceGetTemperatureThreshold=89)
    assert told.temperature(GPU) == Temperature(40, 89)


@pytest.mark.parametrize(("mode", "on"), [(0, False), (1, True), (NONE_32, False), (255, False)])
def test_only_a_mig_mode_that_is_on_is_on(mode: int, on: bool) -> None:
    """E48: MIG leaves the links unjudged, so a garbled mode must not."""
    assert asked(nvmlDeviceGetMigMode=[mode, 0]).mig(GPU) is on


@pytest.mark.parametrize(("number", "action"), [(0, 0), (4, 4), (12, 12), (1 << 31, None), (-7, None)])
def test_a_number_far_beyond_all_actions_is_no_action(number: int, action: int | None) -> None:
    """E33, E123: an action newer than we are holds new work; 2147483648 is none."""
    value = SimpleNamespace(nvmlReturn=0, valueType=5, value=SimpleNamespace(siVal=number))
    nvml = asked(nvmlDeviceGetFieldValues=[value])
    nvml._lib.NVML_FI_DEV_GET_GPU_RECOVERY_ACTION = 1
    if action is None:
        assert fault(nvml.recovery_action) is Fault.OTHER
    else:
        assert nvml.recovery_action(GPU) == action


@pytest.mark.parametrize("number", [NONE_32, NONE_64])
def test_any_number_that_stands_for_none_is_none(number: int) -> None:
    """E126: a draw of 4294967 W is the driver's way to say that it has no value."""
    device = Device(SimpleNamespace(nvmlDeviceGetPowerUsage=lambda _: number), object())
    assert device.number("nvmlDeviceGetPowerUsage") is None
