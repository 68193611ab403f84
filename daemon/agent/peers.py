"""Who is at the other end of the socket is what the kernel says, and names come from local files only."""

from __future__ import annotations

import socket
import struct
from dataclasses import dataclass
from pathlib import Path

_CRED = struct.Struct("iII")
_SO_PEERGROUPS = 59
_GROUPS_BYTES = 4 * 4096


@dataclass(frozen=True, slots=True)
class Peer:
    """A connected process: its uid and all its groups; uid -1 is nobody we know."""

    pid: int
    uid: int
    groups: frozenset[int]


NOBODY = Peer(0, -1, frozenset())


def peer_of(sock: socket.socket) -> Peer:
    """The process that connected, as it was at that moment."""
    try:
        pid, uid, gid = _CRED.unpack(sock.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CRED.size))
    except OSError:
        return NOBODY
    try:
        raw = sock.getsockopt(socket.SOL_SOCKET, _SO_PEERGROUPS, _GROUPS_BYTES)
    except OSError:
        raw = b""
    return Peer(pid, uid, frozenset({gid, *struct.unpack(f"{len(raw) // 4}I", raw)}))


@dataclass(frozen=True, slots=True)
class Rights:
    """Which uids speak for Slurm, and which group may have checks run."""

    hook_uids: frozenset[int]
    check_gid: int | None

    @classmethod
    def read(cls, slurm_user: str, group: str, *, own_uid: int, etc: Path = Path("/etc")) -> Rights:
        """Look both names up in /etc directly: a directory service may hang."""
        uids = {0, own_uid}
        # SlurmdUser runs hooks; the account of slurmctld (slurm_user) is root's equal on a node by its own rights.
        slurm_uid = _id_of(etc / "passwd", slurm_user)
        if slurm_uid is not None:
            uids.add(slurm_uid)
        return cls(frozenset(uids), _id_of(etc / "group", group))

    def hooks(self, peer: Peer) -> bool:
        """Whether ``peer`` may speak for Slurm."""
        return peer.uid in self.hook_uids

    def checks(self, peer: Peer) -> bool:
        """Whether ``peer`` may have checks run."""
        return self.hooks(peer) or (self.check_gid is not None and self.check_gid in peer.groups)


def _id_of(file: Path, name: str) -> int | None:
    """The number behind a name in /etc/passwd or /etc/group."""
    try:
        with file.open("rb") as lines:
            for line in lines:
                fields = line.decode("utf-8", "replace").split(":")
                if len(fields) >= 3 and fields[0] == name and fields[2].isdigit():
                    return int(fields[2])
    except OSError:
        return None
    return None
