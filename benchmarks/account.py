"""What processes cost is read from the kernel's account: proportional memory, nanoseconds run, times woken."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

_MAPPING = re.compile(r"[0-9a-f]+-[0-9a-f]+ \S+ ([0-9a-f]+) \S+ [0-9]+ +(/.*)")


@dataclass(frozen=True, slots=True)
class Account:
    """Some processes at one moment: seconds on a core, voluntary context switches."""

    seconds: float
    wakeups: int


@dataclass(frozen=True, slots=True)
class Memory:
    """Proportional memory in MiB: as if nothing else ran here, and as the kernel shares it with all that does run."""

    alone: float
    here: float


def tree(pid: int) -> list[int]:
    """A process and everything below it, itself first."""
    children: dict[int, list[int]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with suppress(OSError, IndexError):
                parent = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
                children.setdefault(parent, []).append(int(entry.name))
    found = [pid]
    for one in found:
        found += children.get(one, [])
    return found


def account(pids: Sequence[int]) -> Account:
    """What these processes have used so far, every thread counted."""
    tasks = [task for pid in pids for task in Path(f"/proc/{pid}/task").iterdir()]
    nanoseconds = sum(int((task / "schedstat").read_text().split()[0]) for task in tasks)
    woken = sum(_number("voluntary_ctxt_switches", (task / "status").read_text()) for task in tasks)
    return Account(nanoseconds / 1e9, woken)


def memory(pids: Sequence[int]) -> dict[int, Memory]:
    """What each of these processes holds; file pages are shared out among these processes only, not with strangers.

    Other Python programs on this machine map the same interpreter and make the kernel's PSS look smaller than it is
    on a node where the agent is the only one. Anonymous pages are shared with our own relatives only.
    """
    files = {pid: _files(pid) for pid in pids}
    sharers = Counter(key for mapped in files.values() for key in mapped)
    found = {}
    for pid, mapped in files.items():
        rollup = Path(f"/proc/{pid}/smaps_rollup").read_text()
        file = sum(resident / sharers[key] for key, resident in mapped.items())
        found[pid] = Memory((_number("Pss_Anon", rollup) + file) / 1024, _number("Pss", rollup) / 1024)
    return found


def _files(pid: int) -> dict[tuple[str, str], int]:
    """Resident kB of each part of a file that a process has mapped, without the pages it has copied."""
    found: dict[tuple[str, str], int] = {}
    for block in re.split(r"(?m)^(?=[0-9a-f]+-[0-9a-f]+ )", Path(f"/proc/{pid}/smaps").read_text())[1:]:
        if head := _MAPPING.match(block):
            found[(head[2], head[1])] = _number("Rss", block) - _number("Anonymous", block)
    return found


def _number(name: str, text: str) -> int:
    found = re.search(rf"^{name}:\s+(\d+)", text, re.MULTILINE)
    return int(found[1]) if found else 0
