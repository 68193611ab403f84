"""Every file system that jobs need is mounted as it should be and answers."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator

from checks.declare import Skip, check, code
from checks.fs import wanted
from checks.fs.canary import WRONG, judge_canaries
from checks.fs.disk_space import TURNED_READ_ONLY as DISK_TURNED
from checks.fs.disk_space import by_hand
from checks.fs.errors import CODES, UNTOLD, said
from checks.fs.mounts import AUTOFS, Mount, holding, kept, mounts, place
from checks.host import Host
from checks.wire import Finding

ABSENT = code(
    "mount_absent",
    "fail",
    "node",
    "nothing is mounted here{instead}",
    explain="Confirm: `findmnt <path>`, `journalctl -b -u '*.mount'`. Do: mount it; if the server refuses, look there.",
)
TURNED = code(
    "mount_turned_read_only",
    "warn",
    "shared",
    "{kind} from {source} became read-only while we watched",
    explain="Nobody on this node does that to a shared file system unasked: a maintenance, a failing server. "
    "Confirm: `findmnt -o OPTIONS <path>`, the same on another node."
    " Do: look at the server; mount it again when it is well.",
)
_FORBIDDEN = frozenset({errno.EACCES, errno.EPERM})


@check(
    lane="fs",
    scope="shared",
    interval=60,
    timeout=5.0,
    each="paths",
    codes=(ABSENT, *CODES, *wanted.CODES, WRONG, TURNED, DISK_TURNED, UNTOLD),
)
def mount(
    host: Host,
    *,
    paths: tuple[str, ...] = (),
    types: tuple[str, ...] = (),
    sources: tuple[str, ...] = (),
    options: tuple[str, ...] = (),
    canaries: tuple[str, ...] = (),
) -> Iterator[Finding]:
    """Each of ``paths`` is a mount point whose root can be opened, listed and measured; nothing else is touched.

    An automount is triggered first and a symbolic link followed; an automounter's indirect map needs no mount of its
    own; of several mounts on one path the topmost counts. A mount that never answers is judged by the lane, as
    ``mount_hung``; of a kept tree only the list is judged. What is named is compared, with * and ? as wild cards:
    ``types`` ("/scratch=lustre"), ``sources`` ("/home=filer*:/home", a bind mount's as findmnt writes it), ``options``
    ("/scratch=rw,nosuid,vers=4.2", where exec, suid and dev mean that noexec, nosuid and nodev are absent).
    ``canaries`` ("/scratch/.canary=text") are read anew each time and compared.
    Confirm by hand: ``findmnt <path>``, ``timeout 5 stat -f <path>``.
    """
    if not paths:
        raise Skip("no mount is named")
    for path in paths:
        known = mounts(host)
        where = place(host, path, known)
        mounted, absent = _mounted(host, path, where, known)
        if absent is not None or mounted is None:
            yield from (absent,) if absent is not None else ()
            continue
        yield from wanted.judge(path, mounted, types=types, sources=sources, options=options)
        yield from _turned(host, path, mounted)
        if kept(host):
            continue
        if (error := _touch(host, where)) is not None:
            yield said(path, mounted, error)
            continue
        yield from judge_canaries(host, path, mounted, canaries)


def _mounted(host: Host, path: str, where: str, known: dict[str, Mount]) -> tuple[Mount | None, Finding | None]:
    """What is mounted there, an automount triggered or that nothing is or nobody can tell."""
    upon = holding(where, known)
    error = None
    if upon is not None and upon.kind == AUTOFS:
        error = _touch(host, where)
        known = mounts(host)
    found = known.get(where)
    if found is not None and (found.kind != AUTOFS or found.indirect):
        return found, None
    if upon is not None and upon.kind == AUTOFS and kept(host):
        return None, UNTOLD(path, error="only the automounter is listed, and a kept tree cannot be asked for more")
    return None, ABSENT(path, instead=_instead(where, known, error))


def _turned(host: Host, path: str, mounted: Mount) -> Iterator[Finding]:
    """A mount that was writable in an earlier round and is no longer."""
    seen_writable = host.kept("mount", set[tuple[str, str]])
    this = (mounted.where, mounted.source)
    if not mounted.read_only:
        seen_writable.add(this)
    elif this in seen_writable and mounted.network:
        yield TURNED(path, kind=mounted.kind, source=mounted.source)
    elif this in seen_writable and not by_hand(host, mounted):
        yield DISK_TURNED(path, source=mounted.source)


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
