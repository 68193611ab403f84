"""Where GPFS is in use its daemon runs, and what it says of its own health is good."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator

from checks.declare import Skip, check, code, ok
from checks.fs.mounts import mounts
from checks.host import Host, NotRecorded
from checks.wire import Finding

DEAD = code(
    "gpfs_daemon_dead",
    "warn",
    "node",
    "mmfsd does not run, and {mounted} GPFS mounts need it",
    explain="Every access gives 'Stale file handle'; mount tells it of those that jobs need. "
    "Confirm: `mmgetstate`, `pgrep mmfsd`, /var/adm/ras/mmfs.log.latest. Do: `mmstartup`.",
)
DOWN = code(
    "gpfs_unhealthy",
    "warn",
    "node",
    "component {component} is {state}{events}",
    explain="Confirm: `mmhealth node show -v`. Do: `mmhealth event show <event>` says what; it drains no node.",
)
UNASKED = code(
    "gpfs_unasked",
    "unknown",
    "self",
    "mmhealth could not be read: {error}",
    explain="It says nothing about the node. Confirm: `mmhealth node show`. Do: look why it does not answer.",
)
_HEALTH = ["/usr/lpp/mmfs/bin/mmhealth", "node", "show", "-Y"]
_ESCAPED = re.compile(r"%([0-9A-Fa-f]{2})")
_ILL = frozenset({"DEGRADED", "FAILED", "DEPEND"})


@check(lane="storage", interval=300, timeout=3.0, codes=(DEAD,))
def gpfs(host: Host, *, expected: bool = False) -> Iterator[Finding]:
    """The process mmfsd is alive where GPFS is mounted, or where the site says that it is ``expected``.

    It is looked for by name once and by its number from then on. Confirm by hand: ``mmgetstate``, ``pgrep mmfsd``.
    """
    mounted = sum(1 for m in mounts(host).values() if m.kind == "gpfs")
    if not mounted and not expected:
        raise Skip("no GPFS mount")
    known = host.kept("gpfs", lambda: [0])
    if not (known[0] and _is_mmfsd(host, known[0])):
        known[0] = _found(host)
    if not known[0]:
        yield DEAD("gpfs", mounted=mounted)
    else:
        yield ok("gpfs", f"mmfsd runs, {mounted} mounts", pid=known[0], mounted=mounted)


def _found(host: Host) -> int:
    """Its number, 0 without one; Skip where no process tells its name."""
    told = False
    for name in os.listdir(host.path("/proc")):
        if name.isdecimal() and (comm := _name(host, int(name))):
            told = True
            if comm == "mmfsd" and _is_mmfsd(host, int(name)):
                return int(name)
    if not told:
        raise Skip("no process is seen, as in a tree that was kept without them")
    return 0


def _name(host: Host, pid: int) -> str:
    try:
        return host.read_bytes(f"/proc/{pid}/comm", 64).decode("utf-8", "replace").strip()
    except OSError:
        return ""


def _is_mmfsd(host: Host, pid: int) -> bool:
    """Root's process of this name; anybody may call a process of his own so."""
    try:
        if _name(host, pid) != "mmfsd":
            return False
        return any(
            line.split()[1:2] == ["0"] for line in host.read(f"/proc/{pid}/status").splitlines() if "Uid:" in line
        )
    except OSError:
        return False


@check(lane="gpfs", cost="active", interval=3600, timeout=5.0, codes=(DOWN, UNASKED), only_with=("enabled",))
def gpfs_health(host: Host, *, enabled: bool = False) -> Iterator[Finding]:
    """What ``mmhealth node show -Y`` says of each component; asked only where the site has ``enabled`` it.

    TIPS and CHECKING are no trouble. Confirm by hand: ``mmhealth node show -v``.
    """
    if not enabled:
        raise Skip("mmhealth is not asked unless the site wants it")
    try:
        rows = [line.split(":") for line in host.run(_HEALTH, timeout=4.0).splitlines()]
    except (FileNotFoundError, NotRecorded):
        raise Skip("GPFS is not installed") from None
    except (OSError, TimeoutError) as error:
        yield UNASKED("gpfs", error=f"{type(error).__name__}: {error}"[:120])
        return
    states = {_plain(r[7]): r[10] for r in rows if r[:2] == ["mmhealth", "State"] and len(r) > 10 and r[9] == "NODE"}
    states.pop("component", None)
    if not states:
        yield UNASKED("gpfs", error="no state of any component in its answer")
        return
    for component, state in states.items():
        if state in _ILL and component != "NODE":
            events = [
                _plain(r[10]) for r in rows if r[:2] == ["mmhealth", "Event"] and len(r) > 10 and r[7] == component
            ]
            yield DOWN("gpfs", component=component, state=state, events=f": {', '.join(events[:3])}" if events else "")
    yield ok("gpfs", f"{len(states)} components", components=len(states))


def _plain(text: str) -> str:
    """What its answers write as %3A is a colon, and so on."""
    return _ESCAPED.sub(lambda m: chr(int(m[1], 16)), text)
