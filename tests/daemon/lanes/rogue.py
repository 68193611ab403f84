"""A check that misbehaves on request, known only to the zygotes of these tests."""

from __future__ import annotations

import ctypes
import os
import threading
import time
from collections.abc import Iterator
from pathlib import Path

from checks import Finding, Host, Skip, check, ok

KEPT = {"keep_much": "x" * 3_000_000, "keep_strange": object()}


@check(lane="rogue")
def rogue(  # noqa: C901, PLR0912 - a list of misdeeds
    host: Host, *, do: str = "answer", path: str = "", seconds: float = 0.0
) -> Iterator[Finding]:
    """Do as told: answer, hang, sleep, crash, end or garble."""
    if do == "open":
        # Opening a FIFO blocks inside the kernel until somebody opens its other end.
        Path(path).read_bytes()
    elif do == "statvfs":
        os.statvfs(path)
    elif do == "sleep":
        time.sleep(seconds)
    elif do == "crash":
        ctypes.string_at(0)
    elif do == "end":
        os._exit(3)
    elif do in ("garble", "flood"):
        os.write(3, b"\x00\x00\x00\x04junk" if do == "garble" else b"\xff\xff\xff\xff")
    elif do == "crawl":
        _crawl()
    elif do == "keep":
        before = host.memory.get("count", 0)
        host.keep("count", int(str(before)) + 1)
        yield ok("before", count=int(str(before)))
        return
    elif do in KEPT:
        host.keep(do, KEPT[do])
    elif do == "skip":
        raise Skip(f"pid {os.getpid()}")
    elif do == "raise":
        raise ValueError("not today")
    elif do == "huge":
        for number in range(1000):
            yield ok(f"t{number}", **{f"key{k}": "x" * 400 for k in range(8)})
    fds = ",".join(sorted(os.listdir("/proc/self/fd")))
    yield ok(
        "node", pid=os.getpid(), ppid=os.getppid(), fds=fds, cwd=os.getcwd(), job=host.job.key if host.job else None
    )


def _crawl() -> None:
    # Blocked in read(), woken ten times a second: slow, but it comes forward.
    out, into = os.pipe()
    threading.Thread(target=_drip, args=(into,), daemon=True).start()
    while os.read(out, 1):
        continue


def _drip(into: int) -> None:
    while True:
        time.sleep(0.1)
        os.write(into, b".")


def cut_short(host: Host, *, seconds: float = 0.0) -> str:
    """A function for call()."""
    time.sleep(seconds)
    return "done"


def broken(host: Host) -> str:
    """A function that raises."""
    raise OSError(28, "No space left on device")
