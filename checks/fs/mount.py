"""Every file system that jobs need is mounted and answers."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator

from checks.declare import Skip, check, code
from checks.fs.mounts import AUTOFS, Mount, holding, mounts, place
from checks.host import Host
from checks.wire import Finding

ABSENT = code(
    "mount_absent",
    "fail",
    "node",
    "nothing is mounted here{instead}",
    explain="Confirm: `findmnt <path>`, `journalctl -b -u '*.mount'`. Do: mount it; if the server refuses, look there.",
)
BROKEN = code(
    "mount_broken",
    "fail",
    "shared",
    "mounted as {kind} from {source} and not usable: {error}",
    explain="The mount is listed and its server does not serve us: a stale handle, an eviction. "
    "Confirm: `stat -f <path>`, `ls <path>` here and on another node. "
    "Do: look at the server first; when only this node is affected, remount.",
)
UNTOLD = code("mount_untold", "unknown", "self", "mounted, and what it said is no verdict: {error}")

_BROKEN = frozenset(
    {
        errno.ESTALE,
        errno.EIO,
        errno.ESHUTDOWN,
        errno.ENOTCONN,
        errno.EHOSTDOWN,
        errno.EHOSTUNREACH,
        errno.ETIMEDOUT,
        errno.EREMOTEIO,
        errno.ENODEV,
    }
)
_FORBIDDEN = frozenset({errno.EACCES, errno.EPERM})


@check(lane="fs", scope="shared", interval=60, timeout=5.0, each="paths", codes=(ABSENT, BROKEN, UNTOLD))
def mount(host: Host, *, paths: tuple[str, ...] = ()) -> Iterator[Finding]:
    """Each of ``paths`` is a mount point whose root can be opened, listed and measured; nothing else is touched.

    An automount is triggered first and a symbolic link followed; an automounter's indirect map needs no mount of its
    own. A mount that never answers is judged by the lane, as ``mount_hung``.
    Confirm by hand: ``findmnt <path>``, ``timeout 5 stat -f <path>``.
    """
    if not paths:
        raise Skip("no mount is named")
    for path in paths:
        yield from _judge(host, path)


def _judge(host: Host, path: str) -> Iterator[Finding]:
    known = mounts(host)
    where = place(host, path, known)
    upon = holding(where, known)
    error = None
    if upon is not None and upon.kind == AUTOFS:
        error = _touch(host, where)
        known = mounts(host)
    mounted = known.get(where)
    if mounted is None or (mounted.kind == AUTOFS and not mounted.indirect):
        yield ABSENT(path, instead=_instead(where, known, error))
        return
    error = _touch(host, where)
    if error is not None:
        yield _failed(path, mounted, error)


def _instead(where: str, known: dict[str, Mount], error: OSError | None) -> str:
    """What lies there in place of the mount."""
    upon = holding(where, known)
    if upon is None:
        return ""
    if upon.kind == AUTOFS:
        return f", only the automounter: {error.strerror}" if error else ", only the automounter"
    return f", it lies on {upon.where} ({upon.kind})"


def _touch(host: Host, path: str) -> OSError | None:
    """Measure, open and list the root of a mount, and let go of it; what the server forbids root is no error."""
    real = host.path(path)
    try:
        os.statvfs(real)
        os.stat(real)
        with os.scandir(real) as entries:
            next(entries, None)
    except OSError as error:
        return None if error.errno in _FORBIDDEN else error
    return None


def _failed(path: str, mounted: Mount, error: OSError) -> Finding:
    text = error.strerror or str(error)
    if error.errno in _BROKEN and mounted.kind != AUTOFS:
        return BROKEN(path, kind=mounted.kind, source=mounted.source, error=text)
    return UNTOLD(path, error=text)
