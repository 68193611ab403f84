"""The accounts that the site names have quota left where it names them."""

from __future__ import annotations

import errno
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass

from checks.declare import Skip, check, code, ok
from checks.fs.mounts import Mount, holding, mounts, place
from checks.host import Host, NotRecorded
from checks.wire import Finding

SHORT = code(
    "quota_short",
    "warn",
    "shared",
    "{account} has used {used_pct:.0f} % of its quota of {what}, limit {limit_pct} %",
    explain="What writes as this account will soon fail with 'Disk quota exceeded'. Confirm: `quota -u <account>`, "
    "`lfs quota -u <account> <path>`, `xfs_quota -x -c report`. Do: clean up or raise it; it drains no node.",
)
UNASKED = code(
    "quota_unasked",
    "unknown",
    "self",
    "quota of {account} could not be read: {error}",
    explain="It says nothing about the account. Confirm: `quota` or `lfs quota` as root. Do: correct ``accounts`` "
    "and ``paths``.",
)
_KINDS = {"user": 0, "group": 1, "project": 2}
_GET = 0x800007
_LUSTRE = re.compile(r"(\d{1,20})\*?\s+(\d{1,20})\s+(\d{1,20})\s+\S+\s+(\d{1,20})\*?\s+(\d{1,20})\s+(\d{1,20})\s")


@dataclass(frozen=True, slots=True)
class Usage:
    """Used and allowed (0 = without limit); blocks in KiB, files by number."""

    kib: int
    kib_limit: int
    files: int
    files_limit: int


@check(lane="fs", cost="active", scope="shared", interval=3600, timeout=5.0, each="paths", codes=(SHORT, UNASKED))
def quota(
    host: Host, *, paths: tuple[str, ...] = (), accounts: tuple[str, ...] = (), used_pct: int = 95
) -> Iterator[Finding]:
    """Quota of each of ``accounts`` ("user:1000", "group:100", "project:7", by number) on each of ``paths``.

    Local file systems are asked by quotactl(2), Lustre by ``lfs quota``; what a server of another kind keeps is not
    asked. Confirm by hand: ``quota -u 1000``, ``lfs quota -u 1000 <path>``.

    ``used_pct``: of each account's limit.
    """
    if not paths or not accounts:
        raise Skip("no path or no account is named")
    for path in paths:
        known = mounts(host)
        mounted = holding(place(host, path, known), known)
        if mounted is None or (mounted.network and mounted.kind != "lustre"):
            raise Skip(f"quota of {path} is kept by a server that is not asked")
        for account in accounts:
            yield from _asked(host, path, mounted, account, used_pct)


def _asked(host: Host, path: str, mounted: Mount, account: str, limit: int) -> Iterator[Finding]:
    kind, _, number = account.partition(":")
    if kind not in _KINDS or not number.isdecimal():
        raise ValueError(f"account {account!r}: expected user:NUMBER, group:NUMBER or project:NUMBER")
    try:
        usage = (
            _lustre(host, path, kind, number) if mounted.kind == "lustre" else _local(host, mounted, kind, int(number))
        )
    except (FileNotFoundError, NotRecorded):
        raise Skip("lfs is not installed") from None
    except (OSError, TimeoutError, ValueError) as error:
        if isinstance(error, OSError) and error.errno in (errno.ESRCH, errno.ENOSYS, errno.EOPNOTSUPP):
            raise Skip(f"{path} keeps no quota of this kind") from error
        yield UNASKED(path, account=account, error=f"{type(error).__name__}: {error}"[:120])
        return
    yield from judge(path, account, usage, limit)


def judge(path: str, account: str, usage: Usage, limit: int) -> Iterator[Finding]:
    """What is nearly used up; an account without a limit has none to reach."""
    short = False
    for what, used, allowed in (("space", usage.kib, usage.kib_limit), ("files", usage.files, usage.files_limit)):
        if allowed and used * 100 >= allowed * limit:
            short = True
            yield SHORT(path, account=account, what=what, used_pct=100 * used / allowed, limit_pct=limit)
    if not short:
        yield ok(path, f"{account} uses {usage.kib >> 20} GiB", account=account, kib=usage.kib, files=usage.files)


def _lustre(host: Host, path: str, kind: str, number: str) -> Usage:
    text = host.run(["lfs", "quota", "-q", f"-{kind[0]}", number, path], timeout=4.0)
    if (found := _LUSTRE.search(text)) is None:
        raise ValueError(f"answer of lfs is not understood: {text[:60]!r}")
    kib, soft, hard, files, files_soft, files_hard = map(int, found.groups())
    return Usage(kib, hard or soft, files, files_hard or files_soft)


def _local(host: Host, mounted: Mount, kind: str, number: int) -> Usage:
    """Ask the kernel; struct if_dqblk of <linux/quota.h>: limits in KiB, use in bytes, then the files."""
    if host.redirected:
        raise OSError(errno.EOPNOTSUPP, "a captured tree keeps no quota")
    import ctypes

    libc = ctypes.CDLL(None, use_errno=True)
    block = (ctypes.c_uint64 * 9)()
    if libc.quotactl(_GET << 8 | _KINDS[kind], mounted.source.encode(), number, block) != 0:
        number_of_error = ctypes.get_errno()
        raise OSError(number_of_error, os.strerror(number_of_error))
    hard, soft, used, files_hard, files_soft, files = block[:6]
    return Usage(used >> 10, hard or soft, files, files_hard or files_soft)
