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
        "dvs",
        "fhgfs",
        "smbfs",
        "gfs2",
        "ocfs2",
    ]
)
AUTOFS = "autofs"
LINKS_LIMIT = 40
STACKED_LIMIT = 64
_OCTAL = re.compile(r"\\([0-7]{3})")


@dataclass(frozen=True, slots=True)
class Mount:
    """One line of mountinfo; ``read_only`` by the mount's own or the file system's options.

    ``indirect``: an automounter's map that mounts below itself and never on itself. ``root`` is the folder within the
    file system that is seen here (a bind mount's is not /), ``options`` are the mount's and the file system's together.
    """

    where: str
    kind: str
    source: str
    read_only: bool
    indirect: bool = False
    root: str = "/"
    options: frozenset[str] = frozenset()

    @property
    def network(self) -> bool:
        """Whether a server stands behind it."""
        return self.kind in NETWORK or self.kind.startswith("fuse.")


def mounts(host: Host) -> dict[str, Mount]:
    """Mount point -> what a process sees there: the topmost of several, and none that lies hidden below another.

    A cut or garbled list = ValueError.
    """
    text = _text(host)
    read = _line if " - " in text or not host.redirected else _short
    lines = [made for n, line in enumerate(text.split("\n")) if (made := read(line, n)) is not None]
    # Of the kernel's own list the last line is whole; an editor may have taken the end of a kept one.
    if not lines or not (text.endswith("\n") or kept(host)):
        raise ValueError(f"list of mounts is cut or garbled: {len(text)} characters, {len(lines)} mounts")
    known = {own for own, _, _ in lines}
    # Whose parent is not in the list, or is itself, hangs from nothing that could hide it.
    tree = {(p if p in known and p != n else "", m.where): (n, m) for n, p, m in lines}
    found = {}
    for where in {mount.where for _, _, mount in lines}:
        if (seen := _arrive(where, tree)) is not None:
            found[where] = seen
    return found


def _line(line: str, at: int) -> tuple[str, str, Mount] | None:
    """Number, parent and meaning of one line of mountinfo."""
    left, _, right = line.partition(" - ")
    before, after = left.split(), right.split(" ")
    if len(before) < 6 or len(after) < 3:
        return None
    own, shared = before[5].split(","), after[2].split(",")
    options = frozenset(map(_plain, (*own, *shared)))
    where, root, source = _plain(before[4]), _plain(before[3]), _plain(after[1])
    made = Mount(where, after[0], source, "ro" in options, "indirect" in options, root, options)
    return before[0], before[1], made


def _short(line: str, at: int) -> tuple[str, str, Mount] | None:
    """One line of /proc/mounts, which tells no parent: what comes later lies on top, and below / as a whole."""
    words = line.split(" ")
    if len(words) != 6 or not words[1].startswith("/"):
        return None
    options = frozenset(map(_plain, words[3].split(",")))
    where, source = _plain(words[1]), _plain(words[0])
    return str(at), "", Mount(where, words[2], source, "ro" in options, "indirect" in options, "/", options)


def _arrive(where: str, tree: dict[tuple[str, str], tuple[str, Mount]]) -> Mount | None:
    """The mount that walking along ``where`` ends on, as the kernel walks: into what is mounted at every step."""
    number, at, seen = "", "", None
    for part in ["", *(p for p in where.split("/") if p)]:
        at = f"{at}/{part}" if at != "/" else f"/{part}"
        entered = tree.get((number, at)) or tree.get(("", at))
        for _ in range(STACKED_LIMIT):
            if entered is None:
                break
            number, seen = entered
            entered = tree.get((number, at))
    return seen if seen is not None and seen.where == where else None


def _text(host: Host) -> str:
    """The list of the first process; ours may be hardened by its unit and show the node's disks as read-only.

    In a container or a chroot the first process lives under another root, and its list says nothing about our paths.
    """
    if host.redirected or same_root(Path("/proc/1/root"), Path("/")):
        try:
            return host.read("/proc/1/mountinfo")
        except OSError:
            pass
    if not host.redirected:
        return host.read("/proc/self/mountinfo")
    # Who keeps a tree by hand often copies the older lists only.
    for path in ("/proc/self/mountinfo", "/proc/1/mounts", "/proc/self/mounts", "/proc/mounts"):
        try:
            return host.read(path)
        except OSError:
            continue
    return host.read("/proc/self/mountinfo")


def same_root(first: Path, ours: Path) -> bool:
    """Whether two roots are one directory; what cannot be seen counts as another."""
    try:
        return os.path.samestat(first.stat(), ours.stat())
    except OSError:
        return False


def kept(host: Host) -> bool:
    """Whether this is a tree that somebody kept: it tells what was mounted, and nothing of it can be measured in it."""
    return host.redirected and not host.simulated


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
