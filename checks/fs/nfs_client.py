"""The node's NFS servers answer what this client asks, without asking again and again."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from checks.declare import Skip, check, code, ok
from checks.host import Host
from checks.wire import Finding

SILENT = code(
    "nfs_server_silent",
    "warn",
    "shared",
    "{sent} requests were sent and none was answered within {seconds:.0f} s",
    explain="Confirm: `grep -A20 <server> /proc/self/mountstats` twice (xprt: what was sent and received), "
    "`rpcinfo -t <server> nfs`, another node. Do: look at the server and the way to it. It drains no node.",
)
AGAIN = code(
    "nfs_retransmissions",
    "warn",
    "shared",
    "{repeats} of {asked} requests were sent again within {seconds:.0f} s, limit {limit_pct:g} %",
    explain="Packets are lost or the server is too slow. Confirm: `nfsstat -rc`, `mountstats <path>`. "
    "Do: compare with other nodes: one alone points to its own network.",
)
# Where a line of a connection has what was sent and received (net/sunrpc, print_stats of each transport).
_COUNTERS = {"tcp": (7, 8), "udp": (4, 5), "rdma": (7, 8)}
_LEAST = 100

Mounted = tuple[str, str]
"""A server, and where something of it is mounted."""


@dataclass(slots=True)
class _Counts:
    """What one mount has counted, over all of its connections; mounts of one server may share these."""

    sends: int = 0
    receives: int = 0
    asked: int = 0
    repeats: int = 0


@dataclass(slots=True)
class _Before:
    at: float = 0.0
    mounts: dict[Mounted, _Counts] = field(default_factory=dict)


@check(lane="storage", scope="shared", interval=120, timeout=3.0, codes=(SILENT, AGAIN))
def nfs_client(host: Host, *, retransmissions_pct: float = 5.0) -> Iterator[Finding]:
    """The client's own counters of each server, by what they grew since the look before; no server is asked.

    Silence needs something that was sent; at least 100 requests are needed before repeats are judged. The limit is
    ours. Confirm by hand: ``cat /proc/self/mountstats``, ``nfsstat -rc``.

    ``retransmissions_pct``: requests that may be sent again.
    """
    mounted = _mounts(_text(host))
    if not mounted:
        raise Skip("no NFS mount")
    now, before = host.clock(), host.kept("nfs_client", _Before)
    seconds = now - before.at
    earlier, before.at, before.mounts = before.mounts, now, mounted
    told: dict[tuple[str, str], Finding] = {}
    for key, counts in mounted.items():
        if (old := earlier.get(key)) is not None and seconds > 0:
            for found in _judge(key[0], old, counts, seconds, retransmissions_pct):
                # Mounts of one server say the same of their common connections.
                told.setdefault((found.target, found.code), found)
    yield from told.values()
    servers = len({name for name, _ in mounted})
    yield ok("node", f"{servers} NFS servers", servers=servers, mounts=len(mounted))


def _judge(name: str, old: _Counts, new: _Counts, seconds: float, limit: float) -> Iterator[Finding]:
    sent, answered = new.sends - old.sends, new.receives - old.receives
    asked, repeats = new.asked - old.asked, new.repeats - old.repeats
    if min(sent, answered, asked, repeats) < 0:
        return  # mounted anew: what was counted before is gone
    if sent > 0 and answered == 0 and seconds >= 30:
        yield SILENT(name, sent=sent, seconds=seconds)
    elif asked >= _LEAST and repeats * 100 > asked * limit:
        yield AGAIN(name, repeats=repeats, asked=asked, seconds=seconds, limit_pct=limit)


def _text(host: Host) -> str:
    """Ours is as good as the first process's: the counters are those of the whole client."""
    for path in ("/proc/1/mountstats", "/proc/self/mountstats"):
        try:
            return host.read(path)
        except OSError:
            continue
    raise Skip("this kernel keeps no statistics of mounts")


def _mounts(text: str) -> dict[Mounted, _Counts]:
    """The counters of each NFS mount."""
    found: dict[Mounted, _Counts] = {}
    counts: _Counts | None = None
    for line in text.splitlines():
        words = line.split()
        if line.startswith("device "):
            counts = None
            if len(words) > 7 and words[6] == "fstype" and words[7] in ("nfs", "nfs4") and ":/" in words[1]:
                counts = found.setdefault((words[1].rpartition(":/")[0], words[4]), _Counts())
        elif counts is not None and len(words) > 1 and words[0] == "xprt:":
            _connection(counts, words)
        elif counts is not None and len(words) >= 9 and words[0].endswith(":") and words[0][:-1].isupper():
            _operation(counts, words)
    return found


def _connection(counts: _Counts, words: list[str]) -> None:
    at = _COUNTERS.get(words[1])
    if at is not None and len(words) > at[1] and all(words[i].isdecimal() for i in at):
        counts.sends += int(words[at[0]])
        counts.receives += int(words[at[1]])


def _operation(counts: _Counts, words: list[str]) -> None:
    """One operation: how often it was asked, and how often that was sent."""
    if words[1].isdecimal() and words[2].isdecimal():
        counts.asked += int(words[1])
        counts.repeats += max(0, int(words[2]) - int(words[1]))
