"""What NVIDIA's DCGM says of a simulated node, healthy and with each fault."""

from __future__ import annotations

from deploy.simcluster import dcgm
from deploy.simcluster.faults import Effects, Site, fault
from deploy.simcluster.tree import Content
from deploy.simcluster.tree.dcgm import HEALTH, LEVELS, diag_name, recordings


@fault
def dcgm_error(site: Site, *, gpu: int = 0, error: int = 52, severity: int = 2, test: str = "memory",
               status: str = "Fail", generation: int = 4) -> Effects:  # fmt: skip
    """DCGM's diagnostic and watches report an error of one GPU, as generation 3 or 4 prints it."""
    if generation not in dcgm.VERSIONS or not 0 <= gpu < len(site.board.gpus):
        raise ValueError(f"generation {generation}, gpu {gpu}: expected generation 3 or 4 and a GPU of this board")
    bad = dcgm.Bad(gpu, error, severity, test, status)
    return Effects(
        nvml={"dcgm.generation": generation, "dcgm.bad": str(bad)},
        files=recordings(site.board, site.identity, generation, (bad,), 205 if status == "Fail" else 0),
    )


@fault
def dcgm_engine_down(site: Site) -> Effects:
    """DCGM's host engine has failed: dcgmi reaches nobody."""
    files: dict[str, Content] = dict.fromkeys((HEALTH, *map(diag_name, LEVELS)), dcgm.NO_ENGINE)
    return Effects(nvml={"dcgm.engine": 0}, files=files, failed_units=frozenset({"nvidia-dcgm"}))
