"""What slurmd hands on to jobs (locked memory, open files) is as much as they need."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator

from checks.declare import Skip, check, code, ok
from checks.host import Host
from checks.wire import Finding

LOW = code(
    "process_limit_low",
    "warn",
    "config",
    "{process} has {name} {value}, expected at least {expected}",
    explain="Jobs get what slurmd has: too little locked memory breaks RDMA and NCCL, too few files large jobs. "
    "Confirm: `cat /proc/$(pgrep -o slurmd)/limits`. Do: set LimitMEMLOCK, LimitNOFILE in its unit, restart slurmd.",
)
# The kernel's words in /proc/PID/limits for the names of ulimit and systemd.
NAMES = {
    "memlock": "Max locked memory",
    "nofile": "Max open files",
    "nproc": "Max processes",
    "stack": "Max stack size",
    "core": "Max core file size",
    "as": "Max address space",
    "fsize": "Max file size",
    "data": "Max data size",
    "rss": "Max resident set",
    "cpu": "Max cpu time",
    "sigpending": "Max pending signals",
    "msgqueue": "Max msgqueue size",
    "rtprio": "Max realtime priority",
}
UNLIMITED = "unlimited"
_UNITS = {"": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30, "t": 1 << 40}
_SIZE = re.compile(r"(\d{1,18})([kmgt]?)(?:i?b)?", re.IGNORECASE)
PROCESSES_LIMIT = 200_000


@check(lane="system", interval=600, timeout=3.0, codes=(LOW,))
def process_limits(host: Host, *, limits: tuple[str, ...] = (), process: str = "slurmd") -> Iterator[Finding]:
    """Each of ``limits`` (``memlock=unlimited``, ``nofile=131072``, ``stack=8M``) is met by ``process`` (soft limit).

    Nothing is expected unless it is named. aws asks for 16 GiB of locked memory, most sites for unlimited.
    Confirm by hand: ``cat /proc/$(pgrep -o slurmd)/limits``.
    """
    if not limits:
        raise Skip("no limit is named")
    wanted = [(w, *_wanted(w)) for w in limits]
    pid = _pid(host, process)
    if pid is None:
        raise Skip(f"no process {process} runs, see services")
    table = host.read(f"/proc/{pid}/limits")
    low = False
    for text, name, least in wanted:
        value = _soft(table, name)
        if value < least:
            low = True
            yield LOW(name, process=process, name=name, value=_spelled(value), expected=text.partition("=")[2].strip())
    if not low:
        yield ok(process, f"{len(wanted)} limits as expected", limits=len(wanted), pid=pid)


def _wanted(text: str) -> tuple[str, float]:
    name, _, value = (part.strip() for part in text.partition("="))
    number = _SIZE.fullmatch(value)
    if name not in NAMES or (number is None and value != UNLIMITED):
        raise ValueError(f"no limit: {text!r}, expected one of {', '.join(NAMES)} = a number or {UNLIMITED}")
    return name, float("inf") if number is None else int(number[1]) * _UNITS[number[2].lower()]


def _pid(host: Host, process: str) -> int | None:
    """The oldest process of that name: slurmd's children have its name for a moment, too."""
    root = str(host.path("/proc"))
    wanted = process.encode()[:15]
    for pid in sorted(int(name) for name in os.listdir(root)[:PROCESSES_LIMIT] if name.isdecimal()):
        try:
            if host.read_bytes(f"/proc/{pid}/comm", 64).strip() == wanted:
                return pid
        except OSError:
            continue  # it has ended since it was listed
    return None


def _soft(table: str, name: str) -> float:
    """The soft limit of one line: words, then soft, hard and sometimes a unit, at least two blanks between them."""
    for line in table.splitlines():
        if line.startswith(NAMES[name] + " "):
            value = line[len(NAMES[name]) :].split()[0]
            return float("inf") if value == UNLIMITED else int(value)
    raise ValueError(f"/proc/PID/limits has no line {NAMES[name]!r}")


def _spelled(value: float) -> str:
    return UNLIMITED if value == float("inf") else f"{value:.0f}"
