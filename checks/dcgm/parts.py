"""The GPUs that DCGM numbers are named as every other check names them."""

from __future__ import annotations

from collections.abc import Mapping

from checks.declare import Skip
from checks.gpu.ask import answering, opened
from checks.gpu.values import Gpu, NvmlError
from checks.host import Host


class Parts:
    """The GPUs of this node as the driver lists them; none where it does not answer, then DCGM's numbers are told."""

    def __init__(self, host: Host, serials: Mapping[int, str] | None = None) -> None:
        self._serials = dict(serials or {})
        try:
            self.gpus: tuple[Gpu, ...] = tuple(answering(opened(host)))
        except (Skip, NvmlError):
            self.gpus = ()

    def gpu(self, number: int) -> str:
        """The target of DCGM's GPU ``number``: by its serial where DCGM tells it, else both count in NVML's order."""
        serial = self._serials.get(number)
        by_serial = [g for g in self.gpus if serial and g.serial == serial]
        chosen = by_serial or [g for g in self.gpus if not serial and g.index == number]
        return chosen[0].target if len(chosen) == 1 else f"gpu{number} of DCGM"
