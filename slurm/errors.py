"""Every failure of a conversation with Slurm has one class that says whose trouble it is.

SlurmError
 |- NotFound           no such node or job
 |- PermissionDenied   this account may not do that
 |- InvalidTransition  the node or job is not in a state that allows it
 |- Exists             a reservation of that name or of these nodes is there already
 |- ClockSkew          the credential was refused because two clocks differ
 |- Busy               the controller asks to come back later
 |   `- Unreachable    the controller does not answer at all
 |- Timeout            a command did not end in time; `step` names it
 |- NoCommand          the command is not installed where we look
 |- Unsupported        the command of this release lacks what we asked of it
 |   `- ReadOnly       this way of asking cannot change anything
 |- BadRequest         what we were asked to send could mean something else to Slurm
 `- BadAnswer          the answer could not be understood

None of them is ever a fault of the node it speaks of.
"""

from __future__ import annotations

import re


class SlurmError(Exception):
    """Slurm could not be asked or told."""


class NotFound(SlurmError):
    """Slurm knows no such node or job."""


class PermissionDenied(SlurmError):
    """The account we run as may not do this."""


class InvalidTransition(SlurmError):
    """The present state of the node or job does not allow this."""


class Exists(SlurmError):
    """A reservation of that name or of these nodes is there already."""


class ClockSkew(SlurmError):
    """A credential was expired or from the future: the clocks of two machines differ."""


class Busy(SlurmError):
    """The controller is too busy now; the same request may work later."""


class Unreachable(Busy):
    """No controller answers."""


class Timeout(SlurmError):
    """A command did not come back within its limit."""

    def __init__(self, step: str, seconds: float) -> None:
        super().__init__(f"{step} did not end within {seconds:g} s")
        self.step = step
        self.seconds = seconds


class NoCommand(SlurmError):
    """A Slurm command is not installed where we look for it."""


class Unsupported(SlurmError):
    """The command lacks an option or a plugin, such as JSON output."""


class ReadOnly(Unsupported):
    """The way we ask Slurm can read but change nothing, such as slurmrestd's API v0.0.38."""


class BadRequest(SlurmError):
    """A name or text was refused before it reached Slurm."""


class BadAnswer(SlurmError):
    """Slurm's answer could not be understood."""


# Slurm's own words, in the order in which they decide: a clock is the cause behind many an "unable to contact". A rate
# limit (rl_enable, from 23.02 on) has none: the commands wait for their turn in silence, and what we see is a Timeout.
_WORDS: tuple[tuple[re.Pattern[str], type[SlurmError]], ...] = (
    (re.compile(r"(expired|rewound) credential|credential (expired|rewound)", re.I), ClockSkew),
    (
        re.compile(
            r"rate limit|back off|too many (connections|requests)|socket timed out|zero bytes were|temporarily unable|"
            r"try again|please retry|resource temporarily|in standby mode|in recovery",
            re.I,
        ),
        Busy,
    ),
    (re.compile(r"invalid user id|access/permission denied|permission denied|not authorized", re.I), PermissionDenied),
    (re.compile(r"duplicate reservation|overlaps with another reservation", re.I), Exists),
    (re.compile(r"requested reservation is invalid|reservation \S+ not found", re.I), NotFound),
    (re.compile(r"invalid node name|node \S+ (not found|does not exist)|invalid job id", re.I), NotFound),
    (
        re.compile(r"(unrecognized|invalid) option|^invalid input:|serializer|data_parser|find plugin", re.I | re.M),
        Unsupported,
    ),
    (
        re.compile(r"invalid node state|job is pending|job/step already|disabled|already finished", re.I),
        InvalidTransition,
    ),
    (
        re.compile(
            r"unable to contact|connect failure|connection (refused|reset|timed out)|no route to host|"
            r"endpoint is not connected|message (send|receive) failure|establish a config",
            re.I,
        ),
        Unreachable,
    ),
    (re.compile(r"no controller|slurmctld.* (down|not respond)", re.I), Unreachable),
    # slurmrestd's word for any cause: only where it stands alone does it mean that there is no such node.
    (re.compile(r"failure to query node", re.I), NotFound),
)


def error_for(text: str, *, step: str) -> SlurmError:
    """Turn what a command printed into the one error that says what it means."""
    line = " ".join(text.split())[:300] or "no message"
    for pattern, kind in _WORDS:
        if pattern.search(text):
            return kind(f"{step}: {line}")
    return SlurmError(f"{step}: {line}")
