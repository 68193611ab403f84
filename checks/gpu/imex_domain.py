"""The daemons of a rack's IMEX domain have met each other, and this tray is among them."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping

from checks.declare import Skip, check, code, ok
from checks.gpu.imex import UNASKED
from checks.host import Host
from checks.wire import Finding, clean

COMMAND = ("nvidia-imex-ctl", "-N", "-j")

BROKEN = code(
    "imex_domain_down",
    "warn",
    "fabric",
    "IMEX domain is {status}, {ready} of {nodes} daemons ready",
    explain="Jobs over the trays that are not ready fail or fall back to the network. Which tray it is the others know "
    "better. Confirm: `nvidia-imex-ctl -N`. Do: look at the trays that are not READY, compare their nodes files.",
)
SMALL = code(
    "imex_domain_small",
    "warn",
    "config",
    "IMEX domain has {nodes} nodes, expected {expected}",
    explain="Confirm: `cat /etc/nvidia-imex/nodes_config.cfg`. Do: list all trays of the domain on each of them.",
)
MIXED = code(
    "imex_versions_mixed",
    "warn",
    "config",
    "daemons of the IMEX domain have {count} versions: {versions}",
    explain="Confirm: `nvidia-imex-ctl -N -j`. Do: install the same driver and IMEX on all trays.",
)
_UP = ("UP",)
_KNOWN = ("UP", "DOWN", "DEGRADED")
MOST_NODES = 1024


@check(lane="imex", interval=3600, timeout=5.0, codes=(BROKEN, SMALL, MIXED, UNASKED), only_with=("ask",))
def imex_domain(host: Host, *, ask: bool = False, nodes: int = 0) -> Iterator[Finding]:
    """State of the IMEX domain as ``nvidia-imex-ctl -N -j`` tells it, of ``nodes`` daemons where that is promised.

    Asked only where ``ask`` says so: the command speaks with every tray, and many sites have a domain only while a job
    runs. Confirm by hand: ``nvidia-imex-ctl -N``.
    """
    if not ask:
        raise Skip("not asked for by this node's profile or configuration")
    try:
        told = json.loads(host.run(COMMAND, timeout=4.0))
        status, members = _read(told)
    except FileNotFoundError as error:
        raise Skip("nvidia-imex-ctl is not installed") from error
    except (OSError, TimeoutError, ValueError, RecursionError) as error:
        yield UNASKED("node", error=clean(error, 120))
        return
    ready = sum(member.get("status") == "READY" for member in members)
    if status not in _UP:
        yield BROKEN("domain", status=status, ready=ready, nodes=len(members))
    if nodes and len(members) < nodes:
        yield SMALL("domain", nodes=len(members), expected=nodes)
    versions = sorted({clean(v, 32) for member in members if isinstance(v := member.get("version"), str) and v})
    if len(versions) > 1:
        yield MIXED("domain", count=len(versions), versions=", ".join(versions[:4]))
    yield ok("domain", f"IMEX domain is {status}, {ready} of {len(members)} daemons ready", nodes=len(members))


def _read(told: object) -> tuple[str, list[Mapping[str, object]]]:
    """The domain's state and its daemons; ValueError for another shape, which is no news of the node."""
    if not isinstance(told, dict):
        raise ValueError("nvidia-imex-ctl gave no object")
    status, nodes = told.get("status"), told.get("nodes")
    if status not in _KNOWN or not isinstance(nodes, dict):
        raise ValueError(f"nvidia-imex-ctl gave another form: status {clean(status, 32)}")
    return str(status), [member for member in list(nodes.values())[:MOST_NODES] if isinstance(member, dict)]
