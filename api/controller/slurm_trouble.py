"""Each way in which Slurm fails us has an incident of its own that says what to look at; none is a node's fault."""

from __future__ import annotations

from slurm import errors

UNREACHABLE = "slurm_unreachable"
UNREADABLE = "slurm_unreadable"

# The first class that fits counts; a time-out of our own queue is one of Slurm's commands that did not come back.
_CODES: tuple[tuple[type[Exception], str], ...] = (
    (errors.ClockSkew, "slurm_clock_skew"),
    (errors.PermissionDenied, "slurm_denied"),
    (errors.Unreachable, UNREACHABLE),
    (errors.Busy, "slurm_busy"),
    (errors.Timeout, "slurm_timeout"),
    (TimeoutError, "slurm_timeout"),
)
CODES = frozenset(code for _, code in _CODES) | {UNREADABLE}

_SAYS = {
    "slurm_clock_skew": "slurm refuses our credential, since the clocks of two machines differ",
    "slurm_denied": "slurm does not let our account read it",
    UNREACHABLE: "slurm does not answer",
    "slurm_busy": "slurm is busy",
    "slurm_timeout": "slurm does not answer in time, hung, overloaded or limiting our rate",
    UNREADABLE: "slurm is not understood",
}


def code_of(error: Exception) -> str:
    """The code of the incident for an error of `slurm.errors`."""
    return next((code for kind, code in _CODES if isinstance(error, kind)), UNREADABLE)


def text_of(code: str, error: str) -> str:
    """What people read: the kind of trouble, and the step that failed in Slurm's own words."""
    return f"{_SAYS.get(code, _SAYS[UNREADABLE])}: {error}"
