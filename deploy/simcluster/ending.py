"""What a command started on this machine is ended before the command ends, however it is told to."""

from __future__ import annotations

import signal
from types import FrameType

ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def end_on_term() -> None:
    """TERM and a closed terminal end it as Ctrl-C does, so that nothing is left running.

    So does INT where a shell script started it in the background and had INT ignored.
    """

    def interrupted(_: int, __: FrameType | None) -> None:
        raise KeyboardInterrupt

    for number in ENDING:
        signal.signal(number, interrupted)


def undisturbed() -> None:
    """A second Ctrl-C must not end the ending."""
    for number in ENDING:
        signal.signal(number, signal.SIG_IGN)
