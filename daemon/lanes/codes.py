"""What a lane says when it has no answer: always unknown and our own trouble, never the node's fault."""

from __future__ import annotations

from checks import code

LANE_BUSY = code(
    "lane_busy",
    "unknown",
    "self",
    "lane {lane} was busy for {waited} s",
    explain="Earlier questions to the same worker process were still being answered. It says nothing about the node. "
    "Do: nothing once; if it stays, see `nodevet status` and the load of the node.",
)
LANE_SLOW = code(
    "lane_slow",
    "unknown",
    "self",
    "no answer from lane {lane} within the {budget} s this occasion allows",
    explain="The time of this occasion ran out before the check's own. It says nothing about the node. "
    "Do: nothing once; if it stays, see `nodevet status` and the load of the node.",
)
LANE_BROKEN = code(
    "lane_broken",
    "unknown",
    "self",
    "lane {lane}: {why}",
    explain="A worker process ended or could not be started. It is started again after a pause. "
    "Nothing is said about the node. A driver library that crashes its caller shows here too. "
    "Do: read `journalctl -u nodevet-agent`; if it comes again, look at the driver that this worker calls.",
)
