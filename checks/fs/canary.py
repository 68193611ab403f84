"""A canary file is read from its server anew and holds what it held when the site put it there."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator

from checks.declare import code
from checks.fs.errors import said
from checks.fs.mounts import Mount
from checks.host import Host
from checks.wire import Finding

WRONG = code(
    "mount_canary_wrong",
    "warn",
    "shared",
    "canary file {file}: {problem}",
    explain="The file system answers, and not with the data that was put there. Confirm: `cat <file>` here and on "
    "another node. Do: look at the servers; put the canary back if somebody removed it.",
)
READ_AT_MOST = 65536


def judge_canaries(host: Host, path: str, mounted: Mount, canaries: tuple[str, ...]) -> Iterator[Finding]:
    """Read those of ``canaries`` that lie on this mount and compare them."""
    for entry in canaries:
        file, equals, text = entry.partition("=")
        if not equals or not file.startswith("/"):
            raise ValueError(f"{entry!r}: expected /path/of/file=text")
        if file.startswith(path.rstrip("/") + "/"):
            yield from _judge(host, path, mounted, file, text)


def _judge(host: Host, path: str, mounted: Mount, file: str, text: str) -> Iterator[Finding]:
    try:
        found = _read(host, file)
    except OSError as error:
        if error.errno in (errno.ENOENT, errno.ELOOP, errno.EISDIR, errno.EACCES, errno.EPERM):
            yield WRONG(path, file=file, problem=error.strerror or str(error))
        else:
            yield said(path, mounted, error)
        return
    if text and found.strip() != text.strip().encode():
        yield WRONG(path, file=file, problem=f"{len(found)} bytes that differ from what is expected")


def _read(host: Host, file: str) -> bytes:
    """The file's beginning, not from this node's cache; a link, a pipe or a device in its place is not opened."""
    flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
    folder, _, name = file.rpartition("/")
    descriptor = os.open(host.path(folder or "/") / name, flags)
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise OSError(errno.EISDIR, "is no regular file")
        os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
        return os.read(descriptor, READ_AT_MOST)
    finally:
        os.close(descriptor)
