"""No CephFS mount is blocklisted, and no request to its servers waits without end."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from checks.declare import Skip, check, code, ok
from checks.host import Host
from checks.wire import Finding

BLOCKLISTED = code(
    "ceph_blocklisted",
    "warn",
    "node",
    "Ceph has cut client {client} off for good: its mount gives errors until it is mounted anew",
    explain="Confirm: `cat /sys/kernel/debug/ceph/*/status`, `ceph osd blocklist ls`. Do: let jobs end, unmount, mount "
    "again (or mount with recover_session=clean); look at why it did not answer in time.",
)
WAITS = code(
    "ceph_requests_stuck",
    "warn",
    "shared",
    "{count} requests to {servers} wait since at least {seconds:.0f} s",
    explain="Confirm: `cat /sys/kernel/debug/ceph/*/mdsc /sys/kernel/debug/ceph/*/osdc` twice, `ceph health detail`. "
    "Do: look at the servers named there. It drains no node.",
)
CLIENTS = "/sys/kernel/debug/ceph"
_CUT_OFF = re.compile(r"^(?:blocklisted|blacklisted): true\b", re.MULTILINE)
# A program's own wait for a lock is no trouble of the server's.
_REQUEST = re.compile(r"^(\d{1,20})\s+(mds\d{1,5}|osd\d{1,6})\b(?!.*\bsetfilelock\b)", re.MULTILINE)
# What follows stands for as long as somebody watches an object.
_LINGERING = "LINGER REQUESTS"
WAITED = 120.0
KEPT = 4096


@dataclass(slots=True)
class _Since:
    """When each request, by client and number, was seen first."""

    requests: dict[tuple[str, str], float] = field(default_factory=dict)


@check(lane="storage", scope="shared", interval=120, timeout=3.0, codes=(BLOCKLISTED, WAITS))
def ceph(host: Host) -> Iterator[Finding]:
    """What the kernel client tells in debugfs: whether it is cut off, and which requests it waits for at every look.

    Confirm by hand: ``cat /sys/kernel/debug/ceph/*/status``.
    """
    clients = [path for path in host.glob(f"{CLIENTS}/*") if path.is_dir() and "client" in path.name]
    if not clients:
        raise Skip("no CephFS mount is seen in debugfs")
    state, now = host.kept("ceph", _Since), host.clock()
    seen: dict[tuple[str, str], str] = {}
    for client in clients:
        if _CUT_OFF.search(_text(host, client / "status")):
            yield BLOCKLISTED("ceph", client=client.name.rpartition(".")[2])
        for name in ("mdsc", "osdc"):
            for number, server in _REQUEST.findall(_text(host, client / name).partition(_LINGERING)[0])[:KEPT]:
                seen[client.name, f"{name} {number}"] = server
    state.requests = {key: state.requests.get(key, now) for key in list(seen)[:KEPT]}
    stuck = [key for key, since in state.requests.items() if now - since >= WAITED]
    if stuck:
        seconds = now - min(state.requests[key] for key in stuck)
        yield WAITS("ceph", count=len(stuck), servers=", ".join(sorted({seen[k] for k in stuck})[:4]), seconds=seconds)
    yield ok("ceph", f"{len(clients)} mounts, {len(seen)} requests under way", mounts=len(clients), requests=len(seen))


def _text(host: Host, path: Path) -> str:
    try:
        return host.read(path)
    except OSError:
        return ""
