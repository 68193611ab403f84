"""The spool of one agent incarnation is a folder of segments; those of earlier incarnations are sent and deleted."""

from __future__ import annotations

import contextlib
import errno
import os
import re
from collections.abc import Iterator
from pathlib import Path

from daemon.outbox.segments import Record, Segment, encode, read

SEGMENT_BYTES = 1024 * 1024
TOTAL_BYTES = 64 * 1024 * 1024
READ_BYTES = 512 * 1024
_INCARNATION = re.compile(r"[0-9A-Za-z][0-9A-Za-z._-]{0,79}")
_ACKNOWLEDGED = "acknowledged"


class Spool:
    """All disk work of the outbox, blocking; used in the outbox process only.

    ``lost`` counts records dropped by the size bound, ``torn`` segments with a broken end. ``refusals`` are the
    newest of earlier incarnations, acknowledged or not, so that a repeated request gets the same answer.
    """

    def __init__(
        self, root: Path, incarnation: str, *, segment_bytes: int = SEGMENT_BYTES, total_bytes: int = TOTAL_BYTES
    ) -> None:
        if _INCARNATION.fullmatch(incarnation) is None:
            raise ValueError(f"incarnation {incarnation!r} is no file name")
        self.root, self.incarnation = root, incarnation
        self.lost = self.torn = 0
        self.refusals: list[bytes] = []
        self._segment_bytes, self._total_bytes = segment_bytes, total_bytes
        self._segments: dict[str, list[Segment]] = {}
        self._acknowledged: dict[str, int] = {}
        self._fd = -1
        self._dirty = False

    def open(self) -> None:
        """Make the folders and learn what earlier incarnations left."""
        own = self.root / self.incarnation
        own.mkdir(parents=True, exist_ok=True, mode=0o700)
        for folder in sorted(p for p in self.root.iterdir() if p.is_dir() and _INCARNATION.fullmatch(p.name)):
            self._acknowledged[folder.name] = _read_number(folder / _ACKNOWLEDGED)
            self._segments[folder.name] = [self._scan(p) for p in sorted(folder.glob("[0-9]*.seg")) if p.stem.isdigit()]
        self.refusals = self._refusals()
        for incarnation in self.earlier():
            self._drop_acknowledged(incarnation)

    def _scan(self, path: Path) -> Segment:
        try:
            segment, _ = read(path)
        except OSError:
            return Segment(path, torn=True)
        self.torn += segment.torn
        return segment

    def earlier(self) -> list[str]:
        """Incarnations before ours that still hold records, oldest first."""
        return [name for name in sorted(self._segments) if name != self.incarnation]

    def waiting(self, incarnation: str) -> int:
        """How many records of an incarnation are not acknowledged, counted by sequence."""
        done = self._acknowledged.get(incarnation, 0)
        return sum(min(s.count, max(0, s.last - done)) for s in self._segments.get(incarnation, []))

    def append(self, record: Record) -> None:
        """Write one record behind the others; raises OSError and then leaves no part of it behind."""
        data = encode(record)
        segment = self._current(len(data), record.keep)
        written = 0
        try:
            while written < len(data):
                written += os.write(self._fd, data[written:])
        except OSError:
            self._cut(segment)
            raise
        segment.took(record, len(data))
        self._dirty = True

    def commit(self) -> None:
        """Make everything appended so far survive a power loss."""
        if self._dirty and self._fd >= 0:
            os.fsync(self._fd)
            self._dirty = False

    def _current(self, room: int, keep: bool) -> Segment:
        mine = self._segments.setdefault(self.incarnation, [])
        if self._fd >= 0 and mine and mine[-1].size + room <= self._segment_bytes:
            return mine[-1]
        self._close()
        self._make_room(room, keep)
        folder = self.root / self.incarnation
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        number = int(mine[-1].path.stem) + 1 if mine else 1
        path = folder / f"{number:08d}.seg"
        self._fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND | os.O_CLOEXEC, 0o600)
        mine.append(Segment(path))
        _sync_folder(folder)
        return mine[-1]

    def _cut(self, segment: Segment) -> None:
        """Take a half-written record away; where even that fails, the next record begins a new file."""
        try:
            os.ftruncate(self._fd, segment.size)
        except OSError:
            self._close()

    def _close(self) -> None:
        if self._fd >= 0:
            with contextlib.suppress(OSError):
                self.commit()
            os.close(self._fd)
        self._fd = -1

    def _make_room(self, room: int, keep: bool) -> None:
        """Drop the oldest segments without a refusal until the bound is kept; refusals alone may fill it twice."""
        for incarnation, segment in list(self._oldest_first()):
            if self.size() + room <= self._total_bytes:
                return
            if segment.keep:
                continue
            self.lost += max(0, segment.last - max(self._acknowledged.get(incarnation, 0), segment.first - 1))
            self._remove(incarnation, segment)
        if self.size() + room > self._total_bytes * (2 if keep else 1):
            raise OSError(errno.EDQUOT, f"outbox holds {self.size()} of {self._total_bytes} bytes, all of refusals")

    def size(self) -> int:
        """Bytes of all segments."""
        return sum(s.size for _, s in self._oldest_first())

    def _oldest_first(self) -> Iterator[tuple[str, Segment]]:
        for incarnation in sorted(self._segments):
            for segment in self._segments[incarnation]:
                yield incarnation, segment

    def read(self, incarnation: str, after: int) -> list[Record]:
        """The next unacknowledged records behind sequence ``after``, about READ_BYTES of them."""
        found: list[Record] = []
        size = 0
        for segment in self._segments.get(incarnation, []):
            if segment.last <= after:
                continue
            for record in read(segment.path)[1]:
                if record.sequence > after:
                    found.append(record)
                    size += len(record.payload)
                    if size >= READ_BYTES:
                        return found
        return found

    def acknowledge(self, incarnation: str, upto: int) -> None:
        """Remember that everything up to ``upto`` is stored at the server, and delete what is done with."""
        if incarnation not in self._segments or upto <= self._acknowledged.get(incarnation, 0):
            return
        self._acknowledged[incarnation] = upto
        self._drop_acknowledged(incarnation)
        if incarnation in self._segments:
            put(self.root / incarnation / _ACKNOWLEDGED, str(upto).encode(), sync=False)

    def _drop_acknowledged(self, incarnation: str) -> None:
        own = incarnation == self.incarnation
        for segment in list(self._segments[incarnation]):
            open_now = own and self._fd >= 0 and segment is self._segments[incarnation][-1]
            if segment.last <= self._acknowledged.get(incarnation, 0) and not open_now:
                self._remove(incarnation, segment)
        if not own and not self._segments[incarnation]:
            del self._segments[incarnation]
            folder = self.root / incarnation
            with contextlib.suppress(OSError):
                (folder / _ACKNOWLEDGED).unlink(missing_ok=True)
                folder.rmdir()

    def _remove(self, incarnation: str, segment: Segment) -> None:
        with contextlib.suppress(OSError):
            segment.path.unlink(missing_ok=True)
        self._segments[incarnation].remove(segment)

    def _refusals(self, limit: int = 16) -> list[bytes]:
        found: list[bytes] = []
        for incarnation in self.earlier():
            for segment in self._segments[incarnation]:
                if segment.keep:
                    with contextlib.suppress(OSError):
                        found += [r.payload for r in read(segment.path)[1] if r.keep]
        return found[-limit:]


def put(path: Path, data: bytes, *, sync: bool = True) -> None:
    """Replace a small file as a whole."""
    made = path.with_name(path.name + ".new")
    fd = os.open(made, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    try:
        os.write(fd, data)
        if sync:
            os.fsync(fd)
    finally:
        os.close(fd)
    os.replace(made, path)


def _read_number(path: Path) -> int:
    try:
        text = path.read_text(encoding="ascii").strip()
    except (OSError, UnicodeDecodeError):
        return 0
    return int(text) if text.isdigit() and len(text) < 19 else 0


def _sync_folder(folder: Path) -> None:
    fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
