"""What NVIDIA's DCGM says of a simulated node, as recordings of its answers."""

from __future__ import annotations

from deploy.simcluster import dcgm
from deploy.simcluster.tree.board import Board, Identity
from deploy.simcluster.tree.commands import recording

Content = str | bytes
PROGRAMS = ("usr/bin/dcgmi", "usr/bin/nv-hostengine")
LEVELS = (1, 2, 3, 4)
HEALTH = recording("dcgmi", "health", "-c", "-j")


def diag_name(level: int) -> str:
    """Where the answer of a diagnostic stands below the root."""
    return recording("dcgmi", "diag", "-r", str(level), "-j")


def recordings(board: Board, identity: Identity, generation: int = 4, bad: tuple[dcgm.Bad, ...] = (),
               exit_status: int = 0) -> dict[str, Content]:  # fmt: skip
    """The answers of dcgmi as files below the node's root."""
    serials = [identity.serial(gpu) for gpu in range(len(board.gpus))]
    files: dict[str, Content] = {path: f"# {dcgm.LABEL}: runs nothing\n" for path in PROGRAMS}
    files[HEALTH] = dcgm.health(bad)
    for level in LEVELS:
        name = diag_name(level)
        files[name] = dcgm.diag(generation, level, serials, bad)
        if exit_status:
            files[f"{name}.status"] = f"{exit_status}\n"
    return files
