"""A command that did not end, stuck in the kernel or in a device, is remembered: no second one is put beside it."""

from __future__ import annotations

from collections.abc import Mapping

LATE = "late_commands"
MOST = 16


def started(pid: int) -> int:
    """When a process that still runs began, in clock ticks since boot; 0 when it has ended."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            fields = file.read().decode("ascii", "replace").rpartition(")")[2].split()
        return 0 if fields[0] in "ZX" else int(fields[19])
    except (OSError, ValueError, IndexError):
        return 0


def remembered(memory: Mapping[str, object]) -> dict[str, list[int]]:
    """Commands that a former look left behind and that still run, each with its pid and start; garbage is none."""
    kept = memory.get(LATE)
    found: dict[str, list[int]] = {}
    for name, told in list(kept.items())[:MOST] if isinstance(kept, dict) else ():
        match told:
            case [int(pid), int(start)] if 0 < pid < 1 << 31 and start > 0 and started(pid) == start:
                found[str(name)] = [pid, start]
    return found
