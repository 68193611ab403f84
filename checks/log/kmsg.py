"""The kernel's own records are read from /dev/kmsg, once each, without ever waiting."""

from __future__ import annotations

import errno
import os
import re
import stat
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from checks.log.kept.line import Captured

RECORD = re.compile(r"(\d{1,6}),(\d{1,20}),(\d{1,20}),([^;\n]{0,64});(.*)")
ROUND_LIMIT = 20_000
"""Records in one round; what is left waits for the next."""
WINDOW = 60.0
BYTES_LIMIT = 8 * 1024 * 1024
HOLD = 900.0
"""Seconds before the end of a captured log for which what it tells still stands."""
_ONE = 16 * 1024
_KERNEL = 0
_KMSG = os.makedev(1, 11)
_kept: tuple[tuple[str, int, int, int], Captured | None] | None = None
"""The kept log that was read last: several checks ask for the same one, and it may be large."""


@dataclass(frozen=True, slots=True)
class Record:
    """One record of the kernel itself; ``seconds`` since boot. ``fresh``: written since we first caught up."""

    sequence: int
    seconds: float
    text: str
    fresh: bool


@dataclass(slots=True)
class Reading:
    """What one round brought: records of the kernel, how many others, and whether the ring overran us.

    Of a captured log also its ``form`` and, in words, how far its lines are proven to be the kernel's.
    """

    records: list[Record] = field(default_factory=list)
    foreign: int = 0
    garbled: int = 0
    overrun: bool = False
    form: str = ""
    trust: str = ""

    @property
    def blind(self) -> bool:
        """Whether there was text and none of it could be read: no sign of a log without errors."""
        return bool(self.garbled) and not self.records and not self.foreign


class KernelLog:
    """Reads one log and remembers boot, sequence and place; what stands there at first is history.

    Only the last WINDOW seconds before the first look count as fresh, so that a restart of ours loses nothing.
    A device gives one record a read, a plain file many lines; both are opened without blocking and read up to a limit.
    """

    def __init__(self, path: Path, *, device: bool = False, file: bool = False, captured: bool = False) -> None:
        """``device``: nothing but the kernel's own device will do; a container may have something else in its place.

        ``file``: nothing but a file will do; a device in a kept tree would be the log of the machine we run on.

        ``captured``: a log that somebody kept, of any form and maybe of another machine, is judged as of its own end.
        """
        self._path = path
        self._device = device
        self._regular = file
        self._captured = captured
        self._fd: int | None = None
        self._file: tuple[int, int, int] | None = None
        self._boot = ""
        self._sequence = -1
        self._caught_up = False
        self._uptime: float | None = None

    def read(self, boot_id: str, uptime: float | None = None) -> Reading:
        """Records not read before, ``uptime`` in seconds; raises OSError when the log cannot be read."""
        if boot_id != self._boot:
            self._start_anew(boot_id)
        self._uptime = uptime
        reading = Reading()
        info = self._path.stat()
        if self._captured:
            self._read_captured(info, reading)
            return reading
        character = stat.S_ISCHR(info.st_mode)
        if (self._device and not character) or (character and info.st_rdev != _KMSG):
            raise OSError(errno.ENODEV, "not the kernel's log device (1:11), nothing can be seen in it")
        if self._regular and not stat.S_ISREG(info.st_mode):
            raise OSError(errno.ENODEV, "no file: a device in a tree is the machine's we run on")
        done = self._read_device(reading) if character else self._read_file(info, reading)
        self._caught_up = self._caught_up or done
        return reading

    def _start_anew(self, boot_id: str) -> None:
        self.close()
        self._boot, self._sequence, self._caught_up, self._file = boot_id, -1, False, None

    def close(self) -> None:
        """Let go of the device."""
        if self._fd is not None:
            os.close(self._fd)
            self._fd = None

    def _read_device(self, reading: Reading) -> bool:
        if self._fd is None:
            self._fd = os.open(self._path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        for _ in range(ROUND_LIMIT):
            try:
                data = os.read(self._fd, _ONE)
            except BlockingIOError:
                return True
            except OSError as error:
                if error.errno == errno.EPIPE:  # overwritten before we read it; the next read goes on behind the gap
                    reading.overrun = True
                    continue
                self.close()
                raise
            if not data:
                return True
            self._take(data, reading)
        return False

    def _read_file(self, info: os.stat_result, reading: Reading) -> bool:
        same = self._file is not None and self._file[:2] == (info.st_dev, info.st_ino) and info.st_size >= self._file[2]
        offset = self._file[2] if same and self._file else 0
        fd = os.open(self._path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        try:
            data = os.pread(fd, BYTES_LIMIT, offset)
        finally:
            os.close(fd)
        whole = data[: data.rfind(b"\n") + 1] if len(data) < BYTES_LIMIT or b"\n" in data else data
        self._file = (info.st_dev, info.st_ino, offset + len(whole))
        self._take(whole, reading)
        return offset + len(data) >= info.st_size

    def _read_captured(self, info: os.stat_result, reading: Reading) -> None:
        """The last part of the file, once; what was logged within HOLD seconds before its end counts as fresh."""
        from checks.log.kept.line import TRUST  # an agent never needs it

        if self._file is not None or not stat.S_ISREG(info.st_mode):
            return
        self._file = (info.st_dev, info.st_ino, info.st_size)
        log = _whole(self._path, info)
        if log is None:
            reading.garbled += 1
            return
        reading.foreign, reading.form, reading.trust = log.foreign, log.form, TRUST[log.trust]
        reading.records = [
            Record(number, line.seconds, line.text, log.end - line.seconds <= HOLD)
            for number, line in enumerate(log.lines)
        ]

    def _take(self, data: bytes, reading: Reading) -> None:
        """Only a line feed ends a record, whatever else a text may hold.

        Lines that begin with a blank carry KEY=value of the record before them and are left out.
        """
        for line in data.decode("utf-8", "replace").split("\n"):
            if not line or line[0] in " \t":
                continue
            match = RECORD.match(line)
            if match is None:
                reading.garbled += 1
                continue
            priority, sequence, microseconds = (int(n) for n in match.group(1, 2, 3))
            if sequence <= self._sequence:
                continue
            self._sequence = sequence
            if priority >> 3 != _KERNEL:
                reading.foreign += 1
                continue
            seconds = microseconds / 1e6
            recent = self._uptime is not None and abs(self._uptime - seconds) <= WINDOW
            reading.records.append(Record(sequence, seconds, match.group(5)[:2048], self._caught_up or recent))


def _whole(path: Path, info: os.stat_result) -> Captured | None:
    """The lines of a kept log, None when it has no known form."""
    from checks.log.kept.forms import parse
    from checks.log.kept.packed import content

    global _kept
    key = (str(path), info.st_ino, info.st_size, info.st_mtime_ns)
    if _kept is None or _kept[0] != key:
        _kept = (key, parse(content(path)))
    return _kept[1]
