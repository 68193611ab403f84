"""What each error of a mounted file system says, and whom it blames, stands in one place."""

from __future__ import annotations

import errno

from checks.declare import Code, code
from checks.fs.disk_space import BROKEN as DISK_BROKEN
from checks.fs.mounts import AUTOFS, Mount
from checks.wire import Finding

BROKEN = code(
    "mount_broken",
    "fail",
    "shared",
    "mounted as {kind} from {source} and not usable: {error}",
    explain="The mount is listed and its server does not serve us. "
    "Confirm: `stat -f <path>`, `ls <path>` here and on another node. "
    "Do: look at the server first; when only this node is affected, remount.",
)
STALE = code(
    "mount_stale",
    "fail",
    "node",
    "mounted as {kind} from {source}, whose handle is stale: {error}",
    explain="What this client holds no longer exists at the server: an export made anew, a file system that its own "
    "client program (GPFS's mmfsd) has given up. It does not come back until it is mounted anew, and no job can use it "
    "here. Where many nodes say the same the guard takes it for the server's and drains none. "
    "Confirm: `stat -f <path>` here and on another node. Do: `umount -f -l <path>`, mount it again.",
)
EVICTED = code(
    "mount_evicted",
    "fail",
    "shared",
    "mounted as {kind} from {source}, which has cut this client off: {error}",
    explain="The server has thrown this client out or no longer speaks to it; the mount stays listed and every open "
    "file gives errors. Confirm: `dmesg | grep -i evict`, `lfs check servers`, a read of a file. "
    "Do: look at server and network; a Lustre client comes back by itself, a blocklisted Ceph client is mounted anew.",
)
UNREACHABLE = code(
    "mount_unreachable",
    "fail",
    "shared",
    "mounted as {kind} from {source}, which is not reached: {error}",
    explain="The server is down or no way leads there. Confirm: `ping` of the server, the same path on another node."
    " Do: mend the server or the network; the finding ends by itself.",
)
CLIENT_DEAD = code(
    "mount_client_dead",
    "fail",
    "node",
    "mounted as {kind} from {source}, and the process that serves it here has died: {error}",
    explain="A FUSE file system lives in a process of this node, and that one is gone. "
    "Confirm: `ls <path>` says 'Transport endpoint is not connected'. Do: `fusermount -u <path>`, mount it again.",
)
UNTOLD = code(
    "mount_untold",
    "unknown",
    "self",
    "mounted, and what it said is no verdict: {error}",
    explain="An error that tells nobody's fault. Confirm: `stat <path>`. Do: report it if it stays.",
)
CODES = (BROKEN, STALE, EVICTED, UNREACHABLE, CLIENT_DEAD, DISK_BROKEN)

_CUT_OFF = frozenset({errno.ESHUTDOWN, errno.ENOTCONN})
_NO_WAY = frozenset(
    {errno.ETIMEDOUT, errno.EHOSTDOWN, errno.EHOSTUNREACH, errno.ENETUNREACH, errno.ECONNREFUSED, errno.ECONNRESET}
)
_ERRORS = frozenset({errno.EIO, errno.EREMOTEIO, errno.ENODEV, errno.ENXIO, errno.EUCLEAN})


def said(path: str, mounted: Mount, error: OSError) -> Finding:
    """The finding for an error that a mounted file system gave; what proves nothing is our own trouble."""
    text, number = error.strerror or str(error), error.errno or 0
    made = None if mounted.kind == AUTOFS else _made(mounted, number)
    if made is None:
        return UNTOLD(path, error=text)
    if made is DISK_BROKEN:
        return DISK_BROKEN(path, error=text)
    return made(path, kind=mounted.kind, source=mounted.source, error=text)


def _made(mounted: Mount, number: int) -> Code | None:
    if not mounted.network:
        return DISK_BROKEN if number in _ERRORS | {errno.ESTALE, errno.ESHUTDOWN} else None
    if number == errno.ESTALE:
        return STALE
    if number == errno.ENOTCONN and mounted.kind.startswith("fuse"):
        return CLIENT_DEAD
    if number in _CUT_OFF:
        return EVICTED
    if number in _NO_WAY:
        return UNREACHABLE
    return BROKEN if number in _ERRORS else None
