"""What several checks ask of the driver at one moment is asked once."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar, cast

from checks.gpu.device import Question
from checks.gpu.nvml import Nvml
from checks.gpu.values import Ecc, Fabric, Gpu, Remap, Temperature

T = TypeVar("T")


class OneLook:
    """NVML for checks that follow each other without a pause; an error is never remembered, so it is asked again."""

    def __init__(self, nvml: Nvml) -> None:
        self._nvml = nvml
        self._told: dict[tuple[object, int], object] = {}

    def driver(self) -> str:
        return self._nvml.driver()

    def gpus(self) -> tuple[Gpu, ...]:
        if ("gpus", 0) not in self._told:
            found = self._nvml.gpus()
            if any(gpu.fault is not None for gpu in found):
                return found
            self._told["gpus", 0] = found
        return cast("tuple[Gpu, ...]", self._told["gpus", 0])

    def recovery_action(self, gpu: Gpu) -> int:
        return self._once("recovery_action", self._nvml.recovery_action, gpu)

    def ecc(self, gpu: Gpu) -> Ecc:
        return self._once("ecc", self._nvml.ecc, gpu)

    def remap(self, gpu: Gpu) -> Remap:
        return self._once("remap", self._nvml.remap, gpu)

    def processes(self, gpu: Gpu) -> tuple[int, ...]:
        return self._nvml.processes(gpu)

    def links(self, gpu: Gpu) -> dict[int, bool]:
        return self._nvml.links(gpu)

    def fabric(self, gpu: Gpu) -> Fabric:
        return self._nvml.fabric(gpu)

    def temperature(self, gpu: Gpu) -> Temperature:
        return self._once("temperature", self._nvml.temperature, gpu)

    def persistence(self, gpu: Gpu) -> bool:
        return self._nvml.persistence(gpu)

    def mig(self, gpu: Gpu) -> bool:
        return self._nvml.mig(gpu)

    def read(self, question: Question[T], gpu: Gpu) -> T:
        key = (question, gpu.index)
        if key not in self._told:
            self._told[key] = self._nvml.read(question, gpu)
        return cast("T", self._told[key])

    def close(self) -> None:
        self._told.clear()
        self._nvml.close()

    def _once(self, name: str, question: Callable[[Gpu], T], gpu: Gpu) -> T:
        key = (name, gpu.index)
        if key not in self._told:
            self._told[key] = question(gpu)
        return cast("T", self._told[key])
