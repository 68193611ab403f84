"""Within one look a device is asked nothing twice; another look asks anew, and an error is never remembered."""

from __future__ import annotations

from typing import TypeVar

import pytest

from checks import Host
from checks.gpu.device import Device, Question
from checks.gpu.values import Fault, Gpu, NvmlError, Remap
from tests.fakes import FakeNvml, h100s

T = TypeVar("T")


def watts(device: Device) -> int:
    """A question that stands beside a check."""
    raise NotImplementedError


class Counting(FakeNvml):
    """Counts how often it is asked."""

    asked = 0

    def gpus(self) -> tuple[Gpu, ...]:
        self.asked += 1
        return super().gpus()

    def remap(self, gpu: Gpu) -> Remap:
        self.asked += 1
        return super().remap(gpu)

    def read(self, question: Question[T], gpu: Gpu) -> T:
        self.asked += 1
        return super().read(question, gpu)


def asked(host: Host) -> int:
    """Ask as a check does; how often the driver has been asked by now."""
    nvml = host.nvml()
    for gpu in nvml.gpus():
        nvml.remap(gpu)
    assert isinstance(host._nvml, Counting)
    return host._nvml.asked


def node() -> Host:
    return Host(_nvml=Counting([h100s()[n] for n in range(8)]))


def test_without_a_look_every_question_reaches_the_driver() -> None:
    host = node()
    assert [asked(host), asked(host)] == [9, 18]


def test_within_a_look_nothing_is_asked_twice() -> None:
    host = node()
    host.look = 1
    assert [asked(host), asked(host)] == [9, 9]
    host.look = 2
    assert asked(host) == 18


def test_an_error_is_asked_again() -> None:
    host = node()
    host.look = 1
    nvml, sick = host.nvml(), h100s()[3]
    assert isinstance(host._nvml, Counting)
    host._nvml[3].remap = NvmlError(Fault.TIMEOUT)
    for _ in range(2):
        with pytest.raises(NvmlError):
            nvml.remap(sick.gpu)
    assert host._nvml.asked == 2
    host._nvml[3].gpu = Gpu(3, fault=Fault.GPU_IS_LOST)
    for _ in range(2):
        assert nvml.gpus()[3].fault is Fault.GPU_IS_LOST
    assert host._nvml.asked == 4


def test_a_question_beside_its_check_is_asked_once_too() -> None:
    host = node()
    host.look = 1
    sick, well = h100s()[3].gpu, h100s()[4].gpu
    assert isinstance(host._nvml, Counting)
    host._nvml[3].told = {watts: 68}
    nvml = host.nvml()
    assert [nvml.read(watts, sick) for _ in range(3)] == [68, 68, 68]
    for _ in range(2):
        with pytest.raises(NvmlError):
            nvml.read(watts, well)
    assert host._nvml.asked == 3
