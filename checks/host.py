"""Host is the only door through which a check looks at its node, and its roots can be redirected."""

from __future__ import annotations

import contextlib
import os
import select
import subprocess  # noqa: TID251 - the one place where a check may start a read-only command
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timezone
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from checks import tree
from checks.late import LATE, remembered, started
from checks.wire import JobAttempt

if TYPE_CHECKING:
    from checks.gpu.nvml import Nvml

READ_LIMIT = 4 * 1024 * 1024
# The kernel makes a buffer as large as one read asks for, and refuses large ones for settings (ENOMEM).
_PIECE = 16 * 1024
_PIPE = 64 * 1024
_PATH = "/usr/sbin:/usr/bin:/sbin:/bin"
_KEPT: dict[tuple[Path, str], object] = {}
_LEFT: list[subprocess.Popen[bytes]] = []
"""Commands that did not end when they were asked to."""
T = TypeVar("T")


class NotRecorded(OSError):
    """A redirected host has no recording of this command: the question cannot be answered."""


@dataclass(frozen=True, slots=True)
class Ended:
    """How a command ended: its status, negative for a signal, and what it wrote to output and error."""

    status: int
    output: str
    error: str = ""


def _end(child: subprocess.Popen[bytes], grace: float | None) -> None:
    """End a late command; one that is not to be killed may outlive us, its pipes are closed."""
    child.kill() if grace is None else child.terminate()
    with contextlib.suppress(subprocess.TimeoutExpired):
        _hear(child, grace or 1.0)
    _close(child)
    if child.returncode is None:
        _LEFT.append(child)


def _hear(child: subprocess.Popen[bytes], seconds: float) -> tuple[bytes, bytes]:
    """What a command writes until it ends, the first READ_LIMIT bytes of output and of error; the rest is thrown away.

    TimeoutExpired when it has not ended after ``seconds``.
    """
    until = time.monotonic() + seconds
    heard = [(pipe.fileno(), bytearray()) for pipe in (child.stdout, child.stderr) if pipe is not None]
    texts, poll = dict(heard), select.poll()
    opened = set(texts)
    for number in opened:
        poll.register(number, select.POLLIN)
    while opened:
        if (left := until - time.monotonic()) <= 0:
            raise subprocess.TimeoutExpired(child.args, seconds)
        for number, _ in poll.poll(left * 1000):
            piece = os.read(number, _PIPE)
            texts[number] += piece[: READ_LIMIT - len(texts[number])]
            if not piece:
                poll.unregister(number)
                opened.discard(number)
    child.wait(max(0.0, until - time.monotonic()))
    return bytes(heard[0][1]), bytes(heard[1][1])


def _close(child: subprocess.Popen[bytes]) -> None:
    for pipe in (child.stdout, child.stderr):
        if pipe is not None:
            pipe.close()


@dataclass(slots=True)
class Host:
    """One node seen through redirectable roots; ``root`` other than / is a captured or simulated tree.

    ``captured``: the kernel log is one that somebody kept. ``job`` is the attempt a hook speaks of, ``memory`` what a
    check asked to have kept, also by an earlier agent, and ``keeps`` what it asks now. ``look`` numbers what is asked
    without a pause in between: within one, devices are asked nothing twice; 0 = always anew.
    """

    root: Path = Path("/")
    kmsg: Path | None = None
    nvml_library: Path | None = None
    job: JobAttempt | None = None
    memory: Mapping[str, object] = field(default_factory=dict)
    simulated: bool = False
    captured: bool = False
    clock: Callable[[], float] = time.monotonic
    look: int = 0
    keeps: dict[str, object] = field(default_factory=dict, repr=False)
    _root: str = field(default="", init=False, repr=False)
    _told: tuple[int, dict[str, object]] = field(default=(0, {}), init=False, repr=False)
    _nvml: Nvml | None = field(default=None, repr=False)
    _seen: tuple[int, Nvml] | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        """Keep the root as text too: of hundreds of small files, paths as objects cost more than reading."""
        self._root = str(self.root).rstrip("/")

    @property
    def redirected(self) -> bool:
        """Whether this is not the live root of the machine we run on."""
        return self._root != ""

    @property
    def privileged(self) -> bool:
        """Whether we run as root."""
        return os.geteuid() == 0

    def now(self) -> datetime:
        """The current time, UTC aware."""
        return datetime.now(timezone.utc)

    def path(self, path: str | Path) -> Path:
        """Where the node's absolute ``path`` lies for us; a link in a redirected tree leads nowhere outside of it."""
        real = self._real(path)
        return Path(tree.inside(self._root, real) if self._root else real)

    def _real(self, path: str | Path) -> str:
        """One of the node's paths, or one of ours already, as ours."""
        text = path if isinstance(path, str) else str(path)
        if self._root and not isinstance(path, str) and (text == self._root or text.startswith(self._root + "/")):
            return text
        return f"{self._root}/{text.lstrip('/')}"

    def name(self, path: Path) -> str:
        """The node's own name for one of our paths, the inverse of path()."""
        return "/" + str(path.relative_to(self.root))

    def link(self, path: str | Path) -> str:
        """What a symbolic link of the node says; OSError when it is none."""
        real = self._real(path)
        folder, _, name = real.rpartition("/")
        return os.readlink(f"{tree.inside(self._root, folder)}/{name}" if self._root and folder != self._root else real)

    def glob(self, pattern: str) -> list[Path]:
        """Sorted paths of the node that match the absolute ``pattern``."""
        return [Path(found) for found in sorted(tree.matching(self._root, pattern, kept=self._root != ""))]

    def read(self, path: str | Path) -> str:
        """Text of a node's file, at most READ_LIMIT bytes, undecodable bytes replaced."""
        return self.read_bytes(path, READ_LIMIT).decode("utf-8", "replace")

    def count(self, path: str | Path) -> int:
        """What the kernel counts in a file; ValueError for anything that is no number of 64 bits."""
        text = self.read_bytes(path, 64).strip()
        if not text.isdigit() or (found := int(text)) >= 1 << 64:
            raise ValueError(f"no count in {path}: {text[:32]!r}")
        return found

    def read_bytes(self, path: str | Path, limit: int = 256) -> bytes:
        """The first ``limit`` bytes of a node's file."""
        real = self._real(path)
        if self._root:
            real = tree.readable(self._root, real)
        # Without a file object in between: a node has hundreds of these files, each of a few bytes.
        flags = os.O_RDONLY | os.O_CLOEXEC
        descriptor = os.open(real, flags | os.O_NONBLOCK | os.O_NOCTTY if self._root else flags)
        try:
            if self._root:
                tree.opened(self._root, descriptor)
            parts = []
            while limit > 0 and (part := os.read(descriptor, min(limit, _PIECE))):
                parts.append(part)
                limit -= len(part)
            return b"".join(parts)
        finally:
            os.close(descriptor)

    def kept(self, name: str, make: Callable[[], T]) -> T:
        """What a check keeps in this process between rounds, made on first use; gone when its lane ends."""
        key = (self.root, name)
        if key not in _KEPT:
            _KEPT[key] = make()
        return _KEPT[key]  # type: ignore[return-value]

    def once(self, name: str, make: Callable[[], T]) -> T:
        """What several checks need of the same moment, made anew in each look; always anew without one."""
        if not self.look:
            return make()
        if self._told[0] != self.look:
            self._told = self.look, {}
        told = self._told[1]
        if name not in told:
            told[name] = make()
        return told[name]  # type: ignore[return-value]

    def keep(self, name: str, value: object) -> None:
        """Have the agent remember plain data for this check, small, over its own restarts; given back in ``memory``."""
        self.keeps[name] = value

    def boot_id(self) -> str:
        """Kernel's random id of this boot, empty when it cannot be read."""
        try:
            return self.read("/proc/sys/kernel/random/boot_id").strip()
        except OSError:
            return ""

    def uptime(self) -> float | None:
        """Seconds since boot."""
        try:
            return float(self.read("/proc/uptime").split()[0])
        except (OSError, ValueError, IndexError):
            return None

    def run(self, argv: Sequence[str], *, timeout: float = 2.0) -> str:
        """Output of a read-only command; on a redirected host the recording ``nodevet-commands/<argv>``.

        Raises OSError (not installed, not recorded, failed) or TimeoutError. Called inside a lane only.
        """
        ended = self.outcome(argv, timeout=timeout)
        if ended.status != 0 and not ended.output:
            raise OSError(f"command {argv[0]} ended with {ended.status}: {ended.error[:200]!r}")
        return ended.output

    def outcome(self, argv: Sequence[str], *, timeout: float, grace: float | None = None) -> Ended:
        """How a command ended and all that it said, as for ``run``; ``<recording>.status`` holds a status other than 0.

        One that is late is killed, or with ``grace`` asked to end, given so many seconds and then left to itself: who
        holds a device is never killed.
        """
        if self.redirected:
            record = self.root / "nodevet-commands" / "_".join(argv).replace("/", ".")
            if not record.exists():
                raise NotRecorded(f"command {argv[0]} has no recording under {self.root}")
            status = record.with_name(record.name + ".status")
            return Ended(int(self.read(status)) if status.exists() else 0, self.read(record))
        _LEFT[:] = [late for late in _LEFT if late.poll() is None]
        if left := remembered({**self.memory, **self.keeps}):
            self.keep(LATE, left)
            if argv[0] in left:
                raise TimeoutError(f"command {argv[0]} of a former look has not ended yet: pid {left[argv[0]][0]}")
        child = subprocess.Popen(
            list(argv), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
            env={"PATH": _PATH, "LC_ALL": "C"}, cwd="/",
        )  # fmt: skip
        try:
            texts = _hear(child, timeout)
        except subprocess.TimeoutExpired as late:
            _end(child, grace)
            if start := 0 if child.returncode is not None else started(child.pid):
                self.keep(LATE, {**left, argv[0]: [child.pid, start]})
            raise TimeoutError(f"command {argv[0]} did not end within {timeout:g} s") from late
        except BaseException:
            _end(child, grace)
            raise
        _close(child)
        return Ended(child.returncode, *(text.decode("utf-8", "replace") for text in texts))

    def nvml(self) -> Nvml:
        """The node's NVML, opened on first use and kept by this process (a lane)."""
        if self._nvml is None:
            from checks.gpu.nvml import open_nvml

            self._nvml = open_nvml(self)
        if not self.look:
            return self._nvml
        if self._seen is None or self._seen[0] != self.look:
            from checks.gpu.look import OneLook

            self._seen = self.look, OneLook(self._nvml)
        return self._seen[1]
