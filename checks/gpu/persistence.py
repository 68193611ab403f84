"""The driver stays loaded between jobs: persistence mode is on."""

from __future__ import annotations

from collections.abc import Iterator

from checks.declare import Skip, check, code
from checks.gpu.ask import UNTOLD, answering, ask, opened
from checks.host import Host
from checks.wire import Finding

OFF = code(
    "gpu_persistence_off",
    "warn",
    "config",
    "persistence mode is off",
    explain="Each job waits for the driver to start, and error counters are lost between jobs. No reason to drain. "
    "Confirm: `nvidia-smi -q | grep -i persistence`. Do: `nvidia-smi -pm 1` or enable nvidia-persistenced.",
)


@check(lane="nvml", interval=300, timeout=5.0, codes=(OFF, *UNTOLD))
def gpu_persistence(host: Host, *, grace: float = 300.0) -> Iterator[Finding]:
    """NVML's mode decides, not whether a daemon runs; in the first ``grace`` seconds after boot it reads off.

    Confirm by hand: ``nvidia-smi -q | grep -i persistence``.
    """
    nvml = opened(host)
    age = host.uptime()
    if age is not None and age < grace:
        raise Skip(f"node booted {age:.0f} s ago, persistence mode may still be off until {grace:g} s")
    trouble: list[Finding] = []
    for gpu in answering(nvml):
        if ask(nvml.persistence, gpu, trouble) is False:
            yield OFF(gpu.target, uuid=gpu.uuid)
    yield from trouble
