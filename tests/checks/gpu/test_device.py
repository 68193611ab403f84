"""A question is asked through a Device, which takes pynvml and drivers of any age as they are."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pynvml
import pytest

from checks.gpu.clocks import Clocks, Load, load
from checks.gpu.device import Device
from checks.gpu.ecc import error_places
from checks.gpu.gsp import Gsp, gsp_firmware
from checks.gpu.owners import Holders, holders
from checks.gpu.slowdown import SW_THERMAL, event_reasons, slowed
from checks.gpu.thermal import Margin, margin_left, memory_heat
from checks.gpu.values import Fault, NvmlError

FIELD = "NVML_FI_DEV_MEMORY_TEMP"


def answering(**functions: Any) -> Device:
    """A pynvml that has these functions and nothing else; one that is a number gives that error."""

    def function(answer: Any) -> Any:
        def call(_handle: object, *arguments: Any) -> Any:
            if type(answer) is int and answer < 0:
                raise pynvml.NVMLError(-answer)
            return answer(*arguments) if callable(answer) else answer

        return call

    made = {f"nvmlDevice{name}": function(answer) for name, answer in functions.items()}
    fields = {name: number for name, number in vars(pynvml).items() if name.startswith("NVML_FI_")}
    return Device(SimpleNamespace(**made, **fields, nvmlMemory_v2=pynvml.nvmlMemory_v2), object())


def value(number: float = 0, kind: int = 1, status: int = 0) -> Any:
    member = {0: "dVal", 1: "uiVal", 3: "ullVal", 5: "siVal"}.get(kind, "uiVal")
    return SimpleNamespace(nvmlReturn=status, valueType=kind, value=SimpleNamespace(**{member: number}))


@pytest.mark.parametrize(
    ("told", "expected"),
    [
        (value(37), 37),
        (value(-2, 5), -2),
        (value(36.9, 0), 36),
        (value(0xFFFFFFFF), None),
        (value((1 << 64) - 1, 3), None),
        (value(5, kind=77), None),
        (value(status=3), None),
        (value(status=2), None),
        (value(status=13), None),
    ],
)
def test_a_field_is_read_by_its_type(told: Any, expected: int | None) -> None:
    assert answering(GetFieldValues=lambda _: [told]).fields(FIELD) == (expected,)


@pytest.mark.parametrize(
    ("told", "fault"),
    [
        (value(float("nan"), 0), Fault.OTHER),
        (value(float("inf"), 0), Fault.OTHER),
        (value(status=15), Fault.GPU_IS_LOST),
        (value(status=4711), Fault.OTHER),
    ],
)
def test_a_field_that_is_garbled_or_failed_is_an_error_of_ours_to_tell(told: Any, fault: Fault) -> None:
    with pytest.raises(NvmlError) as caught:
        answering(GetFieldValues=lambda _: [told]).fields(FIELD)
    assert caught.value.fault is fault


def test_what_an_older_pynvml_or_driver_lacks_is_not_supported() -> None:
    """The oldest that we take has neither the fields nor some functions; a library older than pynvml raises its own."""
    bare = Device(SimpleNamespace(), object())
    assert bare.fields(FIELD, "NVML_FI_DEV_RETIRED_SBE") == (None, None)
    assert bare.number("nvmlDeviceGetPowerUsage") is None

    def older(*_: object) -> None:
        raise pynvml.NVMLLibraryMismatchError("use a versioned function")

    with pytest.raises(NvmlError) as caught:
        holders(answering(GetComputeRunningProcesses=older))
    assert caught.value.fault is Fault.NOT_SUPPORTED


@pytest.mark.parametrize("garbage", ["words", None, b"\xff", [1]])
def test_an_answer_that_is_no_number_is_told_as_one(garbage: object) -> None:
    with pytest.raises(NvmlError, match="garbled"):
        answering(GetPowerUsage=lambda: garbage).number("nvmlDeviceGetPowerUsage")


@pytest.mark.parametrize("slows", [value(-2, 5), value((1 << 32) - 2, 1)])
def test_a_negative_limit_may_come_as_an_unsigned_number(slows: Any) -> None:
    device = answering(GetFieldValues=lambda _: [slows], GetMarginTemperature=58, GetTemperature=lambda _: 29)
    assert margin_left(device) == Margin(29, 58, -2)


def test_what_is_told_in_part_is_no_margin_and_no_limit() -> None:
    none = [value(status=3)]
    assert margin_left(answering(GetFieldValues=lambda _: none, GetMarginTemperature=58)) is None
    assert memory_heat(answering(GetFieldValues=lambda _: none, GetTemperatureThreshold=lambda _: 95)) is None
    assert memory_heat(answering(GetFieldValues=lambda _: [value(37)], GetTemperatureThreshold=-3)) is None
    assert memory_heat(answering(GetFieldValues=lambda _: [value(37)], GetTemperatureThreshold=lambda _: 95)) == (
        37,
        95,
    )


def test_the_older_name_of_the_clock_reasons_is_asked_where_the_newer_is_not_there() -> None:
    assert event_reasons(answering(GetCurrentClocksThrottleReasons=0x48)) == 0x48
    assert event_reasons(answering(GetCurrentClocksEventReasons=1, GetCurrentClocksThrottleReasons=0x48)) == 1
    with pytest.raises(NvmlError):
        event_reasons(answering())
    assert slowed(answering(GetFieldValues=lambda ids: [value(status=3)] * len(ids))).of(SW_THERMAL) is None


def test_clocks_are_measured_against_what_programs_are_given() -> None:
    device = answering(
        GetUtilizationRates=SimpleNamespace(gpu=99),
        GetClockInfo=lambda domain: 1000 + domain,
        GetMaxClockInfo=lambda domain: 2000 + domain,
        GetApplicationsClock=lambda domain: {0: 1410, 2: 5000}[domain],
    )
    assert load(device) == Load(99, Clocks(1000, 1410), Clocks(1002, 2002))


def test_errors_by_place_are_asked_as_each_generation_tells_them() -> None:
    """Like E24: an older board counts caches, a newer one SRAM; a place that a driver does not know is left out."""

    def counter(_kind: int, _which: int, place: int) -> int:
        if place not in (1, 2):
            raise pynvml.NVMLError(2 if place == 7 else 3)
        return {1: 4, 2: 0}[place]

    assert error_places(answering(GetMemoryErrorCounter=counter)) == {"L2": 4}
    with pytest.raises(NvmlError):
        error_places(answering(GetMemoryErrorCounter=-15))


def process(pid: int) -> Any:
    return SimpleNamespace(pid=pid, usedGpuMemory=1)


def test_holders_are_those_of_all_kinds_and_their_memory() -> None:
    """E62: a board without graphics is asked as well; one whose memory is the kernel's own tells no use."""
    memory = SimpleNamespace(used=7 << 20)
    some = {"GetComputeRunningProcesses": [process(1), process(2)], "GetMemoryInfo": lambda _: memory}
    assert holders(answering(**some)) == Holders((1, 2), 7 << 20)
    assert holders(answering(**some, GetGraphicsRunningProcesses=[process(2), process(3)])).pids == (1, 2, 3)
    assert holders(answering(**some, GetNumaNodeId=4)).used is None
    assert holders(answering(**{**some, "GetMemoryInfo": -3})).used is None
    with pytest.raises(NvmlError):
        holders(answering(**some, GetGraphicsRunningProcesses=-999))


def test_gsp_firmware_may_be_off_or_keep_its_version() -> None:
    def mode(on: int) -> Any:
        return lambda enabled, _usual: setattr(enabled._obj, "value", on)

    def version(buffer: Any) -> None:
        buffer.value = b"580.95.05"

    assert gsp_firmware(answering(GetGspFirmwareMode=mode(0))) == Gsp(False)
    assert gsp_firmware(answering(GetGspFirmwareMode=mode(1), GetGspFirmwareVersion=version)) == Gsp(True, "580.95.05")
    assert gsp_firmware(answering(GetGspFirmwareMode=mode(1), GetGspFirmwareVersion=-999)) == Gsp(True)
