"""Who holds the GPUs of this node, and whether a job is on it, by the names of links below /proc alone."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from checks import Host, clean

PROCESSES_LIMIT = 65536
FILES_LIMIT = 4096
SHOWN = 4
_GPU = re.compile(r"/dev/nvidia(\d+)")
_STEPD = re.compile(r"slurmstepd: \[(\d+)[.\]]")
# The persistence daemon lets go when persistence mode is switched off, and the fabric manager is part of a reset.
_PART_OF_IT = frozenset({"nvidia-persiste", "nv-fabricmanage"})


def jobs(host: Host) -> list[str]:
    """The jobs whose slurmstepd runs here."""
    found = set()
    for pid in _pids(host):
        if _text(host, pid, "comm").strip() == "slurmstepd":
            match = _STEPD.match(_text(host, pid, "cmdline").replace("\0", " "))
            found.add(match[1] if match else "?")
    return sorted(found)


def holders(host: Host, minors: Sequence[int] | None) -> list[str]:
    """Processes that have one of these GPUs open, ``name (pid)``; None: any GPU."""
    found = []
    for pid in _pids(host):
        comm = clean(_text(host, pid, "comm"), 32)
        if comm not in _PART_OF_IT and any(minors is None or m in minors for m in _open(host, pid)):
            found.append(f"{comm or 'unnamed'} ({pid})")
    return found if len(found) <= SHOWN else [*found[:SHOWN], f"and {len(found) - SHOWN} more"]


def minor_of(host: Host, gpu: str) -> int | None:
    """The device minor of the GPU with this PCI id, None where the driver does not say."""
    try:
        text = host.read(f"/proc/driver/nvidia/gpus/{gpu}/information")
    except OSError:
        return None
    match = re.search(r"^Device Minor:\s*(\d+)", text, re.MULTILINE)
    return int(match[1]) if match else None


def _pids(host: Host) -> list[str]:
    return [name for name in os.listdir(host.path("/proc")) if name.isdigit()][:PROCESSES_LIMIT]


def _open(host: Host, pid: str) -> Iterator[int]:
    folder = host.path(f"/proc/{pid}/fd")
    try:
        names = os.listdir(folder)[:FILES_LIMIT]
    except OSError:
        return
    for name in names:
        try:
            match = _GPU.fullmatch(os.readlink(Path(folder, name)))
        except OSError:
            continue
        if match:
            yield int(match[1])


def _text(host: Host, pid: str, name: str) -> str:
    try:
        return host.read(f"/proc/{pid}/{name}")[:4096]
    except OSError:
        return ""
