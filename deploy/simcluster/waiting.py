"""A condition of a cluster is asked for until it holds; a command that fails meanwhile means: not yet."""

from __future__ import annotations

import os
import time
from collections.abc import Callable

from deploy.simcluster.lab_ground import LabError

STEP = 0.1
PATIENCE = "NODEVET_PATIENCE"
"""Environment variable: every deadline is this many times longer, for a machine that does much else meanwhile."""


class CommandFailed(LabError):
    """A Slurm command ended with an error or not in time, as while slurmctld is away or the machine is busy."""


def wait_for(
    condition: Callable[[], bool],
    timeout: float,
    told: Callable[[], str],
    forgiven: tuple[type[Exception], ...] = (CommandFailed,),
) -> float:
    """Ask until it holds and return the seconds it took; LabError with ``told()`` after ``timeout`` seconds.

    It is asked once more after the deadline: this process itself may not have run for a while.
    """
    timeout *= float(os.environ.get(PATIENCE) or 1)
    began = time.monotonic()
    while True:
        late = time.monotonic() - began > timeout
        trouble: Exception | None = None
        try:
            if condition():
                return time.monotonic() - began
        except forgiven as error:
            trouble = error
        if late:
            raise LabError(f"{_said(told, forgiven)} (after {timeout:g} s)") from trouble
        time.sleep(STEP)


def _said(told: Callable[[], str], forgiven: tuple[type[Exception], ...]) -> str:
    try:
        return told()
    except forgiven as error:
        return str(error)
