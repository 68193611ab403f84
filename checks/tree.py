"""A kept or simulated tree is never left: what its links name lies inside it, and nothing in it is a device to us."""

from __future__ import annotations

import errno
import os
import re
import stat
from collections.abc import Callable, Iterator
from fnmatch import translate
from functools import lru_cache

_MAGIC = re.compile(r"[*?\[]")
_LINKS_LIMIT = 40
# Folders whose way is known to stay inside, of all trees that this process looks at.
_PROVEN: set[str] = set()
_REGULAR: set[str] = set()
_PROVEN_LIMIT = 8192


def inside(root: str, real: str) -> str:
    """Where ``real`` (below ``root``) lies when links are followed as the node itself would follow them.

    The path stays as it is unless a link would lead out of the tree. OSError (ELOOP) when links go round.
    """
    if not _proven(root, real):
        return _resolved(root, real)
    return _resolved(root, real) if os.path.islink(real) and not _stays(root, real) else real


def readable(root: str, real: str) -> str:
    """Like ``inside`` of a file that may be opened: a device in a tree is our machine's, a pipe never ends."""
    if real in _REGULAR:
        return real
    if _proven(root, real) and stat.S_ISREG(os.lstat(real).st_mode):
        if len(_REGULAR) < _PROVEN_LIMIT:
            _REGULAR.add(real)
        return real
    real = inside(root, real)
    kind = os.stat(real).st_mode
    if stat.S_ISCHR(kind) or stat.S_ISBLK(kind):
        raise OSError(errno.ENXIO, "a device in a tree is the machine's we run on", real)
    if stat.S_ISFIFO(kind):
        raise OSError(errno.ENXIO, "a pipe in a tree holds nothing that was kept", real)
    return real


def opened(root: str, descriptor: int) -> None:
    """OSError unless a file that was opened is a plain one of the tree: who owns it may exchange folders meanwhile."""
    kind = os.fstat(descriptor).st_mode
    if not stat.S_ISREG(kind) and not stat.S_ISDIR(kind):
        raise OSError(errno.ENXIO, "no plain file any more")
    if not os.readlink(f"/proc/self/fd/{descriptor}").startswith(_place(root)):
        raise OSError(errno.ELOOP, "leads out of the tree since it was looked at")


@lru_cache(maxsize=64)
def _place(root: str) -> str:
    return os.path.realpath(root).rstrip("/") + "/"


def _proven(root: str, real: str) -> bool:
    """Whether the way to the folder of ``real`` stays inside."""
    folder, _, name = real.rpartition("/")
    if name in ("", ".", ".."):
        return False
    if folder in _PROVEN:
        return True
    stays = _stays(root, folder)
    if stays and len(_PROVEN) < _PROVEN_LIMIT:
        _PROVEN.add(folder)
    return stays


def _resolved(root: str, real: str) -> str:
    """Every link followed by hand; an absolute one begins at ``root`` and .. ends there."""
    return _followed(root, real)[0]


def _stays(root: str, real: str) -> bool:
    """Whether the kernel would follow the links of ``real`` without leaving the tree."""
    return _followed(root, real)[1]


def _followed(root: str, real: str) -> tuple[str, bool]:
    """Where ``real`` leads, and whether no link on the way is absolute or climbs over ``root``.

    Nothing outside is asked; OSError (ELOOP) when links go round.
    """
    left = real[len(root) :].split("/")[::-1]
    at: list[str] = []
    links, plain = 0, True
    while left:
        part = left.pop()
        if part == "..":
            plain = plain and bool(at)
            del at[-1:]
        elif part not in ("", "."):
            try:
                target = os.readlink("/".join([root, *at, part]))
            except OSError:
                at.append(part)
                continue
            links += 1
            if links > _LINKS_LIMIT:
                raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), real)
            if target.startswith("/"):
                # A link to the tree's own place on this machine means the same as one to its root.
                plain, own = plain and target.startswith(root + "/"), target.startswith(root + "/")
                target = target[len(root) :] if own else target
                at.clear()
            left += target.split("/")[::-1]
    return "/".join([root, *at]), plain


def matching(root: str, pattern: str, *, kept: bool) -> Iterator[str]:
    """Paths below ``root`` that fit ``pattern`` (``*``, ``?``, ``[``; each within one name), in no order."""
    parts = [part for part in pattern.split("/") if part]
    magic = [number for number, part in enumerate(parts) if _MAGIC.search(part)]
    first = magic[0] if magic else len(parts)
    yield from _matching(root, "/".join([root, *parts[:first]]), tuple(parts[first:]), kept)


def _matching(root: str, base: str, parts: tuple[str, ...], kept: bool) -> Iterator[str]:
    if not parts:
        if os.path.exists(inside(root, base) if kept else base):
            yield base
        return
    if not _MAGIC.search(parts[0]):
        yield from _matching(root, f"{base}/{parts[0]}", parts[1:], kept)
        return
    fits = _pattern(parts[0])
    for name in _listed(inside(root, base) if kept else base):
        if fits(name):
            if len(parts) == 1:
                yield f"{base}/{name}"
            else:
                yield from _matching(root, f"{base}/{name}", parts[1:], kept)


def _listed(folder: str) -> list[str]:
    """The names in a folder; one that is missing or closed to us has none."""
    try:
        return os.listdir(folder)
    except (FileNotFoundError, NotADirectoryError, PermissionError):
        return []


@lru_cache(maxsize=256)
def _pattern(part: str) -> Callable[[str], re.Match[str] | None]:
    """Whether a name fits one part of a pattern."""
    return re.compile(translate(part)).match
