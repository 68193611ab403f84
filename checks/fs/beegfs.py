"""Every BeeGFS target that this client knows is online."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from checks.declare import Skip, check, code, ok
from checks.host import Host
from checks.wire import Finding

OFFLINE = code(
    "beegfs_target_offline",
    "warn",
    "shared",
    "{count} of {targets} targets are offline since at least {seconds:.0f} s, the first {first} ({state})",
    explain="Whoever needs what lies there waits or sees errors. Confirm: `beegfs-ctl --listtargets --state`, `beegfs "
    "target list`, `cat /proc/fs/beegfs/*/storage_target_state`. Do: look at that server. It drains no node.",
)
BAD = code(
    "beegfs_target_bad",
    "warn",
    "shared",
    "{count} of {targets} targets hold data that must be brought up to date, the first {first} ({state})",
    explain="Its mirror serves meanwhile. Confirm: `beegfs-ctl --listtargets --state`. Do: look at the resync.",
)
UNREACHED = code(
    "beegfs_no_management",
    "warn",
    "shared",
    "client knows no management or storage node",
    explain="Confirm: `cat /proc/fs/beegfs/*/mgmt_nodes`, `beegfs-check-servers`. Do: look at beegfs-mgmtd.",
)
CLIENTS = "/proc/fs/beegfs"
_TARGET = re.compile(r"^\[Target ID: (\d{1,6})\] @ (.{1,120}?): ([\w-]{1,32}) / ([\w-]{1,32}) *$", re.MULTILINE)
WAITED = 60.0


@dataclass(slots=True)
class _Since:
    offline: dict[str, float] = field(default_factory=dict)


@check(lane="storage", scope="shared", interval=300, timeout=3.0, codes=(OFFLINE, BAD, UNREACHED))
def beegfs(host: Host) -> Iterator[Finding]:
    """The states that the management node has told this client, for each of its mounts; no server is asked.

    A server without a connection is no fault: the client drops those that it does not need.
    Confirm by hand: ``cat /proc/fs/beegfs/*/*_target_state``.
    """
    clients = [path for path in host.glob(f"{CLIENTS}/*") if path.is_dir()]
    if not clients:
        raise Skip("no BeeGFS mount")
    targets: dict[str, tuple[str, str]] = {}
    for client in clients:
        for kind in ("meta", "storage"):
            text = _text(host, f"{CLIENTS}/{client.name}/{kind}_target_state")
            targets |= {f"{kind} target {n} of {node}": (reach, good) for n, node, reach, good in _TARGET.findall(text)}
        if any(_empty(host, f"{CLIENTS}/{client.name}/{kind}_nodes") for kind in ("mgmt", "storage")):
            yield UNREACHED(client.name)
    yield from _judge(host, targets)


def _judge(host: Host, targets: dict[str, tuple[str, str]]) -> Iterator[Finding]:
    now, since = host.clock(), host.kept("beegfs", _Since)
    since.offline = {t: since.offline.get(t, now) for t, (reach, _) in targets.items() if reach.lower() == "offline"}
    lost = sorted(t for t, began in since.offline.items() if now - began >= WAITED)
    if lost:
        seconds, state = now - min(since.offline[t] for t in lost), targets[lost[0]][0]
        yield OFFLINE("beegfs", count=len(lost), targets=len(targets), seconds=seconds, first=lost[0], state=state)
    if bad := sorted(t for t, (_, good) in targets.items() if good.lower() == "bad"):
        yield BAD("beegfs", count=len(bad), targets=len(targets), first=bad[0], state=targets[bad[0]][1])
    yield ok("beegfs", f"{len(targets)} targets", targets=len(targets))


def _empty(host: Host, path: str) -> bool:
    try:
        return not host.read(path).strip()
    except OSError:
        return False


def _text(host: Host, path: str) -> str:
    try:
        return host.read(path)
    except OSError:
        return ""
