"""The Lustre client is well and connected to every server that it uses."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from checks.declare import Skip, check, code, ok
from checks.host import Host
from checks.wire import Finding

BUG = code(
    "lustre_bug",
    "warn",
    "node",
    "the client met an error of its own (health_check says {health})",
    explain="A thread of the client stands still for good, and with it whoever waits for it. "
    "Confirm: `lctl get_param health_check`, `dmesg | grep -e LBUG -e ASSERTION`. Do: let jobs end, reboot.",
)
UNHEALTHY = code(
    "lustre_unhealthy",
    "warn",
    "node",
    "health_check says {health}, expected healthy",
    explain="Confirm: `lctl get_param health_check`, `dmesg | grep Lustre`. Do: let jobs end, mount it anew or reboot.",
)
DISCONNECTED = code(
    "lustre_disconnected",
    "warn",
    "shared",
    "{count} of {servers} servers are not connected since at least {seconds:.0f} s, the first {first} ({state})",
    explain="Whoever needs what lies there waits. Confirm: `lfs check servers`, `lctl get_param *.*.import`, another "
    "node. Do: look at these servers; when only this node is affected at its network. It drains no node.",
)
EVICTED = code(
    "lustre_evictions",
    "warn",
    "shared",
    "{count} servers threw this client out within {seconds:.0f} s, the first {first}",
    explain="The mount is listed and usable again; files that were open then give errors (EIO). Confirm: `dmesg | grep "
    "evicted`, `lctl get_param *.*.state`. Do: end what has such files open; many nodes at once: look at the server.",
)
HEALTH = ("/sys/fs/lustre/health_check", "/proc/fs/lustre/health_check")
FOLDERS = ("/proc/fs/lustre", "/sys/fs/lustre", "/sys/kernel/debug/lustre")
LIMIT = 4096
# Not FULL, IDLE (how a client of 2.12 and later leaves a server that nobody needs just now), CLOSED and NEW (never in
# use).
_STATES = frozenset({"DISCONN", "CONNECTING", "EVICTED", "REPLAY", "REPLAY_LOCKS", "REPLAY_WAIT", "RECOVER"})
_EVICTED = re.compile(r"^ - \[ ?(\d{1,12}), EVICTED ?\]", re.MULTILINE)
_HEALTH = re.compile(r"healthy|LBUG", re.IGNORECASE)
WAITED = 60.0


@dataclass(slots=True)
class _State:
    """Since when each server is seen without a connection, and the newest eviction that was told by each."""

    since: dict[str, float] = field(default_factory=dict)
    evicted: dict[str, int] = field(default_factory=dict)
    looked: float = 0.0


@check(lane="storage", scope="shared", interval=300, timeout=3.0, codes=(BUG, UNHEALTHY, DISCONNECTED, EVICTED))
def lustre(host: Host) -> Iterator[Finding]:
    """What the client's own tables say (2.5 to 2.16); no server is asked, one an administrator took out does not count.

    An eviction is told once, in the round after it happened; what happened before the first look is history.
    Confirm by hand: ``lctl get_param health_check``, ``lfs check servers``, ``lctl get_param osc.*.state``.
    """
    health = _health(host)
    state, now = host.kept("lustre", _State), host.clock()
    servers = _servers(host)
    if health is None and not servers:
        raise Skip("no Lustre client")
    if health is not None and health != "healthy":
        yield (BUG if "LBUG" in health else UNHEALTHY)("lustre", health=health[:60])
    bad = {name: said for name, said in servers.items() if said in _STATES}
    state.since = {name: state.since.get(name, now) for name in bad}
    waiting = sorted(name for name, since in state.since.items() if now - since >= WAITED)
    if waiting:
        first = waiting[0]
        seconds = now - min(state.since[name] for name in waiting)
        count, known = len(waiting), len(servers)
        yield DISCONNECTED("lustre", count=count, servers=known, seconds=seconds, first=first, state=bad[first])
    yield from _evictions(host, state, now)
    state.looked = now
    yield ok("lustre", f"{len(servers)} servers", servers=len(servers), connected=len(servers) - len(bad))


def _health(host: Host) -> str | None:
    for path in HEALTH:
        try:
            health = host.read(path).strip()
        except OSError:
            continue
        if not _HEALTH.search(health):
            raise ValueError(f"{path} says nothing that we know: {health[:40]!r}")
        return health
    return None


def _servers(host: Host) -> dict[str, str]:
    """The state of each connection: name of the server -> state, by the smallest file that tells it."""
    found: dict[str, str] = {}
    for folder in FOLDERS:
        for kind, name in (("osc", "ost_server_uuid"), ("mdc", "mds_server_uuid"), ("mdc", "mdt_server_uuid")):
            for path in host.glob(f"{folder}/{kind}/*/{name}")[:LIMIT]:
                try:
                    words = host.read(path).split()
                except OSError:
                    continue
                if len(words) >= 2 and words[-1] != "DEACTIVATED":
                    found[words[0].removesuffix("_UUID")] = words[1]
    return found


def _evictions(host: Host, state: _State, now: float) -> Iterator[Finding]:
    """Servers whose list of past states has an eviction newer than what was there at the look before."""
    fresh = []
    for folder in FOLDERS:
        for path in host.glob(f"{folder}/*c/*/state")[:LIMIT]:
            try:
                stamps = [int(stamp) for stamp in _EVICTED.findall(host.read(path))]
            except OSError:
                continue
            newest = max(stamps, default=0)
            name = path.parent.name
            if name in state.evicted and newest > state.evicted[name]:
                fresh.append(name.partition("-osc-")[0].partition("-mdc-")[0])
            state.evicted[name] = newest
    if fresh:
        yield EVICTED("lustre", count=len(fresh), seconds=now - state.looked, first=sorted(fresh)[0])
