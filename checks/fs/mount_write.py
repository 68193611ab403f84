"""Where the site has named a folder for it, a small file can be written, renamed, read back and removed again."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator
from dataclasses import dataclass

from checks.declare import Skip, check, code, ok
from checks.fs.account import acting_as, find_user
from checks.fs.errors import CODES, UNTOLD, said
from checks.fs.mounts import holding, kept, mounts
from checks.host import Host
from checks.wire import Finding

FULL = code(
    "mount_write_full",
    "warn",
    "shared",
    "{step} failed: {error}",
    explain="No space or quota is left for the account that tries. Confirm: `df -h <folder>`, `df -i <folder>`, the "
    "account's quota. It drains no node."
    " Do: make room, or raise the quota of that account.",
)
REFUSED = code(
    "mount_write_refused",
    "warn",
    "config",
    "{step} failed: {error}",
    explain="The folder is not there, not writable for the account, or no safe place to write. Do: make it once, "
    "`install -d -o nodevet -m 700 <folder>`, and name its real path, not a link.",
)
WRONG = code(
    "mount_write_wrong",
    "warn",
    "shared",
    "a file read back holds something else than was written",
    explain="Confirm: write and read a file of your own there. Do: stop using it and look at the servers.",
)
_FULL = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})
_REFUSED = frozenset({errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOENT, errno.ENOTDIR, errno.ELOOP})
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_NEW = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_TEXT = b"nodevet tries whether files can be written here; this one may be removed\n"


class _Unsafe(OSError):
    """The folder is no place where a privileged process may write."""


@dataclass(slots=True)
class _Try:
    """How far one try came, and what it has left behind if it did not come to its end."""

    step: str = "opening the folder"
    left: str = ""


@check(
    lane="fs",
    scope="shared",
    interval=300,
    timeout=5.0,
    each="folders",
    codes=(FULL, REFUSED, WRONG, *CODES, UNTOLD),
)
def mount_write(host: Host, *, folders: tuple[str, ...] = (), user: str = "nodevet") -> Iterator[Finding]:
    """A file of 74 bytes with a name nobody can guess: create, write, fsync, rename, read, unlink, as ``user``.

    Root is nobody on most servers (root_squash), so an account of the node's own /etc/passwd tries; an empty ``user``
    means ourselves. No link on the way to the folder is followed, nothing that exists is opened or replaced, and a
    folder that others may write to must be sticky. Confirm by hand: ``touch <folder>/x && rm <folder>/x``.

    ``folders``: where to try, each a folder of the account's own.
    """
    if not folders:
        raise Skip("no folder is named")
    if kept(host):
        raise Skip("nothing is written into a kept tree")
    for folder in folders:
        yield _tried(host, folder, user)


def _tried(host: Host, folder: str, user: str) -> Finding:
    mounted = holding(folder, mounts(host))
    account = find_user(host, user) if user and host.privileged else None
    doing, began = host.kept(f"mount_write {folder}", _Try), host.clock()
    doing.step = "opening the folder"
    try:
        with acting_as(account):
            same = _write(host, folder, doing)
    except OSError as error:
        text = error.strerror or str(error)
        if error.errno in _FULL:
            return FULL(folder, step=doing.step, error=text)
        if error.errno in _REFUSED:
            return REFUSED(folder, step=doing.step, error=text)
        return UNTOLD(folder, error=text) if mounted is None else said(folder, mounted, error)
    seconds = host.clock() - began
    if not same:
        return WRONG(folder)
    return ok(folder, f"written, renamed and read in {seconds * 1e3:.0f} ms", seconds=round(seconds, 4))


def _write(host: Host, folder: str, doing: _Try) -> bool:
    at = _open(host, folder)
    try:
        if doing.left:
            _remove(at, doing)
        name = f".nodevet-{os.urandom(16).hex()}"
        doing.step, doing.left = "creating a file", name
        descriptor = os.open(name, _NEW, 0o600, dir_fd=at)
        try:
            doing.step = "writing"
            os.write(descriptor, _TEXT)
            os.fsync(descriptor)
            doing.step = "renaming"
            os.rename(name, f"{name}.done", src_dir_fd=at, dst_dir_fd=at)
            doing.left = f"{name}.done"
            doing.step = "reading back"
            os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
            same = os.pread(descriptor, 4096, 0) == _TEXT
        finally:
            os.close(descriptor)
        doing.step = "removing it"
        os.unlink(doing.left, dir_fd=at)
        doing.left = ""
        return same
    finally:
        os.close(at)


def _remove(at: int, doing: _Try) -> None:
    """What an earlier try could not take away, by the one name that only we know."""
    for name in (doing.left, f"{doing.left}.done"):
        try:
            os.unlink(name, dir_fd=at)
        except OSError:
            continue
    doing.left = ""


def _open(host: Host, folder: str) -> int:
    """The folder, reached without a single link, and a place where nobody can put something under our hands."""
    at = os.open(host.root, _FOLDER)
    for part in (p for p in folder.split("/") if p):
        if part == "..":
            os.close(at)
            raise _Unsafe(errno.ELOOP, "is no real path")
        try:
            below = os.open(part, _FOLDER, dir_fd=at)
        finally:
            os.close(at)
        at = below
    about = os.fstat(at)
    if about.st_mode & 0o022 and not about.st_mode & stat.S_ISVTX:
        os.close(at)
        raise _Unsafe(errno.EPERM, f"others may write to it and it is not sticky (mode {about.st_mode & 0o7777:o})")
    return at
