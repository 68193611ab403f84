"""What is mounted where, as the kernel lists it."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path

from checks.host import Host

NETWORK = frozenset(
    [
        "nfs",
        "nfs4",
        "lustre",
        "gpfs",
        "beegfs",
        "ceph",
        "cifs",
        "smb3",
        "9p",
        "glusterfs",
        "wekafs",
        "pvfs2",
        "orangefs",
        "panfs",
        "afs",
        "fuse",
        "virtiofs",
    ]
)
AUTOFS = "autofs"
LINKS_LIMIT = 40
_OCTAL = re.compile(r"\\([0-7]{3})")


@dataclass(frozen=True, slots=True)
class Mount:
    """One line of mountinfo; ``read_only`` by the mount's own or the file system's options.

    ``indirect``: an automounter's map that mounts below itself and never on itself.
    """

    where: str
    kind: str
    source: str
    read_only: bool
    indirect: bool = False

    @property
    def network(self) -> bool:
        """Whether a server stands behind it."""
        return self.kind in NETWORK or self.kind.startswith("fuse.")


def mounts(host: Host) -> dict[str, Mount]:
    """Mount point -> what is mounted there last, which is what a process sees; a cut or garbled list = ValueError."""
    found, text = {}, _text(host)
    for line in text.split("\n"):
        left, _, right = line.partition(" - ")
        before, after = left.split(), right.split(" ")
        if len(before) < 6 or len(after) < 3:
            continue
        options = set(before[5].split(",")) | set(after[2].split(","))
        where = _plain(before[4])
        found[where] = Mount(where, after[0], _plain(after[1]), "ro" in options, "indirect" in options)
    if not found or not text.endswith("\n"):
        raise ValueError(f"list of mounts is cut or garbled: {len(text)} characters, {len(found)} mounts")
    return found


def _text(host: Host) -> str:
    """The list of the first process; ours may be hardened by its unit and show the node's disks as read-only.

    In a container or a chroot the first process lives under another root, and its list says nothing about our paths.
    """
    if host.redirected or same_root(Path("/proc/1/root"), Path("/")):
        try:
            return host.read("/proc/1/mountinfo")
        except OSError:
            pass
    return host.read("/proc/self/mountinfo")


def same_root(first: Path, ours: Path) -> bool:
    """Whether two roots are one directory; what cannot be seen counts as another."""
    try:
        return os.path.samestat(first.stat(), ours.stat())
    except OSError:
        return False


def holding(path: str, known: dict[str, Mount]) -> Mount | None:
    """The mount that ``path`` lies on: its longest prefix among mount points."""
    fitting = [m for w, m in known.items() if path == w or w == "/" or path.startswith(w.rstrip("/") + "/")]
    return max(fitting, key=lambda m: len(m.where), default=None)


def place(host: Host, path: str, known: dict[str, Mount]) -> str:
    """Where ``path`` really lies: doubled and last slashes gone, symbolic links followed, mount points left alone."""
    done, ahead, links = "", [p for p in path.split("/") if p not in ("", ".")], 0
    while ahead:
        part = ahead.pop(0)
        if part == "..":
            done = done.rpartition("/")[0]
            continue
        target = _link(host, f"{done}/{part}", known)
        links += bool(target)
        if not target or links > LINKS_LIMIT:
            done = f"{done}/{part}"
            continue
        done = "" if target.startswith("/") else done
        ahead = [p for p in target.split("/") if p not in ("", ".")] + ahead
    return done or "/"


def _link(host: Host, path: str, known: dict[str, Mount]) -> str:
    if path in known:
        return ""
    try:
        return host.link(path)
    except OSError:
        return ""


def _plain(text: str) -> str:
    r"""The kernel writes blanks and the like as \040."""
    return _OCTAL.sub(lambda m: chr(int(m.group(1), 8)), text)
