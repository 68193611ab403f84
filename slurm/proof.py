"""Whether our account may drain is proved without touching a node: slurmctld judges the account before the name."""

from __future__ import annotations

from slurm.backend import Backend
from slurm.errors import NotFound, SlurmError
from slurm.reason import compose

NO_SUCH_NODE = "nodevet-proof-no-such-node"


def prove_writes(backend: Backend) -> None:
    """Return when a drain would be accepted; raise PermissionDenied, NoCommand, Unreachable, ... when not."""
    try:
        backend.drain(NO_SUCH_NODE, compose("proof", "drain of a node that does not exist", token="0000"))
    except NotFound:
        return
    raise SlurmError(f"slurmctld accepted a drain of node {NO_SUCH_NODE}, which should not exist")
