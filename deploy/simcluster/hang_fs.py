"""A file system whose server reads every request and never answers, or answers late: a mount that hangs for real.

Run as a program of its own (``hang_fs.py MOUNTPOINT [SECONDS]``, as root): mounts, prints its process id and stays
in the background. Without SECONDS nothing is ever answered, and callers are in uninterruptible sleep (D) until the
server ends. Only the standard library is used, so that it runs without an environment.
"""

from __future__ import annotations

import ctypes
import errno
import os
import signal
import struct
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

LOOKUP, FORGET, GETATTR, STATFS, INIT, OPENDIR, READDIR, RELEASEDIR, INTERRUPT, BATCH_FORGET = (
    1, 2, 3, 17, 26, 27, 28, 29, 36, 42,
)  # fmt: skip
DETACH_AND_FORCE = 3
_HEADER = struct.Struct("<IIQQ")
_libc = ctypes.CDLL(None, use_errno=True)


def cannot_run() -> str | None:
    """Return why no such mount can be made on this machine, or None."""
    if os.geteuid() != 0:
        return "a hanging mount needs root"
    try:
        os.close(os.open("/dev/fuse", os.O_RDWR))
    except OSError as error:
        return f"/dev/fuse cannot be opened: {error.strerror}"
    return None


def start(where: Path, delay: float | None = None) -> int:
    """Mount on ``where`` and return the server's process id; ``delay`` in seconds answers late instead of never."""
    argv = [sys.executable, "-I", __file__, str(where), *([] if delay is None else [str(delay)])]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=30, check=False)
    if done.returncode != 0:
        raise OSError(f"no hanging mount on {where}: {done.stderr.strip()[-500:]}")
    return int(done.stdout)


def stop(pid: int, where: Path) -> None:
    """End the server, which frees everybody who waits, and take the mount away."""
    if pid > 1 and _is_server(pid, where):
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
        deadline = time.monotonic() + 10
        while _runs(pid) and time.monotonic() < deadline:
            time.sleep(0.01)
    unmount(where)


def _runs(pid: int) -> bool:
    """Whether it is still there: a process that ends has no command line any more and is not yet gone."""
    with suppress(OSError, IndexError):
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in {"Z", "X"}
    return False


def _is_server(pid: int, where: Path) -> bool:
    with suppress(OSError):
        return str(where).encode() in Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
    return False


def mount(source: str, where: Path, kind: str, options: str) -> None:
    """Mount a file system."""
    words = [word.encode() for word in (source, str(where), kind)]
    if _libc.mount(*words, ctypes.c_ulong(0), options.encode()) != 0:
        code = ctypes.get_errno()
        raise OSError(code, f"mount {kind} on {where}: {os.strerror(code)}")


def unmount(where: Path) -> None:
    """Take the mount on ``where`` away at once, even if it is in use; nothing happens when there is none."""
    if _libc.umount2(str(where).encode(), DETACH_AND_FORCE) != 0 and ctypes.get_errno() not in {
        errno.EINVAL,
        errno.ENOENT,
    }:
        code = ctypes.get_errno()
        raise OSError(code, f"umount {where}: {os.strerror(code)}")


# -- the server


def _answer(device: int, unique: int, body: bytes = b"", error: int = 0) -> None:
    with suppress(OSError):  # ENOENT: the caller is gone
        os.write(device, struct.pack("<IiQ", 16 + len(body), -error, unique) + body)


def _read(device: int) -> tuple[int, int]:
    """Return operation and identity of the next request; INIT is answered here."""
    while True:
        try:
            request = os.read(device, 1 << 20)
        except InterruptedError:
            continue
        _, operation, unique, _ = _HEADER.unpack_from(request)
        if operation != INIT:
            return operation, unique
        body = struct.pack("<IIIIHHIIHHI28x", 7, 31, 0, 0, 8, 8, 65536, 1, 1, 0, 0)
        _answer(device, unique, body)


def _make_uninterruptible(device: int, where: str) -> None:
    """Tell the kernel once that requests cannot be interrupted; from then on callers wait in D state.

    The kernel asks only when a caller gets a signal, so a child of ours makes a call and is given one.
    """
    child = os.fork()
    if child == 0:
        signal.signal(signal.SIGALRM, lambda *_: None)
        signal.setitimer(signal.ITIMER_REAL, 0.05, 0.05)
        with suppress(OSError):
            os.statvfs(where)
        os._exit(0)
    first = 0
    while True:
        operation, unique = _read(device)
        if operation == INTERRUPT:
            _answer(device, unique, error=errno.ENOSYS)
            break
        first = first or unique
    _answer(device, first, error=errno.EIO)
    os.waitpid(child, 0)


def _serve_late(device: int, delay: float) -> None:
    attributes = struct.pack("<QII6Q10I", 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0o40755, 2, 0, 0, 0, 4096, 0)
    space = struct.pack("<5Q4I24x", 1 << 20, 1 << 19, 1 << 19, 1 << 16, 1 << 15, 4096, 255, 4096, 0)
    bodies = {GETATTR: attributes, STATFS: space, OPENDIR: bytes(16), READDIR: b"", RELEASEDIR: b""}
    while True:
        operation, unique = _read(device)
        if operation in {FORGET, BATCH_FORGET, INTERRUPT}:
            continue
        time.sleep(delay)
        if operation in bodies:
            _answer(device, unique, bodies[operation])
        else:
            _answer(device, unique, error=errno.ENOENT if operation == LOOKUP else errno.ENOSYS)


def serve(where: str, delay: float | None) -> None:
    """Mount, tell the process id and serve until killed or unmounted."""
    device = os.open("/dev/fuse", os.O_RDWR)
    mount("hang", Path(where), "fuse.hang", f"fd={device},rootmode=40000,user_id=0,group_id=0,allow_other")
    told, tell = os.pipe()
    if os.fork() != 0:
        os.close(tell)
        os.close(device)
        answer = os.read(told, 32)
        sys.stdout.write(answer.decode())
        sys.exit(0 if answer else 1)
    os.setsid()
    if delay is None:
        _make_uninterruptible(device, where)
    os.write(tell, str(os.getpid()).encode())
    null = os.open(os.devnull, os.O_RDWR)
    for descriptor in (0, 1, 2, told, tell):
        os.dup2(null, descriptor)
    with suppress(OSError):  # ENODEV: unmounted
        if delay is not None:
            _serve_late(device, delay)
        while True:
            _read(device)


if __name__ == "__main__":
    serve(sys.argv[1], float(sys.argv[2]) if len(sys.argv) > 2 else None)
