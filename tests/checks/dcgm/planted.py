"""A node with DCGM whose answers are planted, and its GPUs."""

from __future__ import annotations

from checks import Host
from checks.gpu.values import Gpu
from checks.wire import JobAttempt
from tests.fakes import BDFS, FakeGpu, FakeNvml, Plant, pci_tree

PROGRAMS: dict[str, str | bytes] = {"/usr/bin/dcgmi": "", "/usr/bin/nv-hostengine": ""}
SERIALS = tuple(f"16500{n}" for n in range(8))


def gpus(*, mig: bool = False, busy: tuple[int, ...] = (), swapped: bool = False) -> FakeNvml:
    """Eight GPUs; ``swapped``: NVML counts them the other way round than DCGM."""
    order = list(reversed(range(8))) if swapped else list(range(8))
    made = [
        FakeGpu(
            Gpu(index, f"GPU-{n}", BDFS[n], (n + 3) % 8, SERIALS[n], "H100"),
            mig=mig,
            processes=(4711,) if n in busy else (),
        )
        for index, n in enumerate(order)
    ]
    return FakeNvml(made)


def node(plant: Plant, answers: dict[str, str], *, nvml: FakeNvml | None = None, status: int = 0,
         job: JobAttempt | None = None) -> Host:  # fmt: skip
    """A node whose dcgmi says for each command line, ``diag -r 1 -j``, what is given."""
    tree: dict[str, str | bytes] = {**pci_tree(), **PROGRAMS}
    for line, text in answers.items():
        name = f"/nodevet-commands/dcgmi_{line.replace(' ', '_')}"
        tree |= {name: text, f"{name}.status": f"{status}\n"}
    return plant(tree, nvml=nvml or gpus(), job=job)
