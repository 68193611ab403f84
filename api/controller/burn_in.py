"""A fault of the hardware class asks for a burn-in: clean looks in a row, spread over a time, on the drained node."""

from __future__ import annotations

from api.controller.core import Core
from api.controller.drain_record import DrainRecord


def burns(record: DrainRecord) -> bool:
    """Whether this drain ends by a burn-in; a person who says that the node is mended asks for a verification."""
    return record.step == "burn-in" and record.resume_by is None


def enough(core: Core, record: DrainRecord) -> bool:
    """Whether the clean looks so far, the last of which has just come, are what the drain's rule wants."""
    if not burns(record):
        return record.rounds >= core.settings.verify_rounds
    return record.rounds >= core.settings.burn_in_rounds and _lasted(core, record) >= core.settings.burn_in_seconds


def resting(core: Core, record: DrainRecord) -> bool:
    """Whether the next look of a burn-in is not due yet: looks all at once would prove one moment only."""
    if not burns(record) or not record.rounds or record.order_at is None:
        return False
    apart = core.settings.burn_in_seconds / max(1, core.settings.burn_in_rounds - 1)
    return 0 <= (core.clock() - record.order_at).total_seconds() < apart


def done_by(core: Core, record: DrainRecord) -> str:
    """What a node goes back by, for people."""
    if not burns(record):
        return f"{record.rounds} clean verifications"
    return f"burn-in of {record.rounds} clean looks within {_lasted(core, record):.0f} s"


def progress(core: Core, record: DrainRecord) -> str:
    """How far a burn-in is, empty where there is none."""
    if not burns(record):
        return ""
    settings = core.settings
    wants = f"burn-in: {settings.burn_in_rounds} clean looks over {settings.burn_in_seconds:.0f} s"
    if not record.rounds:
        return wants
    return f"{wants}; {record.rounds} in {_lasted(core, record):.0f} s so far"


def _lasted(core: Core, record: DrainRecord) -> float:
    # A clock that is set back makes it longer, never shorter.
    return max(0.0, (core.clock() - record.clean_since).total_seconds()) if record.clean_since else 0.0
