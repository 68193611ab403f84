"""How one of our own workers looks from outside, read from the real /proc by the control lane."""

from __future__ import annotations

import platform
from dataclasses import dataclass
from pathlib import Path

from checks import Host
from daemon.lanes.process import stat_fields

# Calls that end in a file system or a driver, by machine: open, read, ioctl, stat, statfs and their like.
_CALLS = {
    "x86_64": {0, 2, 3, 4, 5, 6, 16, 17, 21, 78, 89, 137, 138, 191, 217, 257, 262, 267, 269, 332, 439},
    "aarch64": {29, 43, 44, 48, 56, 57, 61, 63, 67, 78, 79, 80, 8, 291, 439},
}
# Where a process waits whose page has to come from disk first, or that memory is short for.
_PAGING = (
    "folio_wait", "io_schedule", "wait_on_page", "filemap_", "swap_", "mem_cgroup", "shrink_", "balance_dirty",
    "throttle_direct_reclaim", "do_swap_page", "handle_mm_fault", "try_to_free",
)  # fmt: skip
# A simulated driver hangs in a sleep of its own library; only there does a sleep stand for the driver's wait.
_SIMULATED_CALLS = {"x86_64": {34, 35, 230}, "aarch64": {73, 101, 115}}


@dataclass(frozen=True, slots=True)
class Sight:
    """One look: whether the process lives, its state letter, its wait channel, and whether it sits in the kernel."""

    alive: bool
    state: str = ""
    channel: str = ""
    call: int = -1
    in_kernel: bool = False
    switches: int = 0

    @property
    def paging(self) -> bool:
        """Whether it waits for memory: that delays every process of a loaded node and accuses no device."""
        return self.channel.startswith(_PAGING)

    def __str__(self) -> str:
        return f"state {self.state or '-'}, waiting in {self.channel or '-'}"


def look(host: Host, pid: int, start: int) -> dict[str, object]:
    """Called in the control lane: that it answers proves that forking and messages between processes work."""
    fields = stat_fields(pid)
    if not fields or fields[0] in "ZX" or int(fields[19]) != start:
        return {"alive": False}
    call = _call(pid)
    below = [s for s in map(_state, _children(pid)) if s == "D"]
    known = _CALLS.get(platform.machine(), set())
    if host.simulated:
        known = known | _SIMULATED_CALLS.get(platform.machine(), set())
    stuck = fields[0] == "D" or bool(below) or (fields[0] == "S" and call in known)
    return {
        "alive": True,
        "state": fields[0],
        "channel": _text(pid, "wchan"),
        "call": call,
        "in_kernel": stuck,
        "switches": _switches(pid),
    }


def sight(value: object) -> Sight | None:
    """The look as told by the lane, None when the answer has another shape."""
    if not isinstance(value, dict) or not isinstance(value.get("alive"), bool):
        return None
    call, switches = value.get("call", -1), value.get("switches", 0)
    return Sight(
        alive=value["alive"],
        state=str(value.get("state", ""))[:1],
        channel=str(value.get("channel", ""))[:64],
        call=call if isinstance(call, int) else -1,
        in_kernel=value.get("in_kernel") is True,
        switches=switches if isinstance(switches, int) else 0,
    )


def _call(pid: int) -> int:
    """Number of the system call the process is blocked in, -1 when unknown or running."""
    try:
        return int(_text(pid, "syscall").split()[0])
    except (ValueError, IndexError):
        return -1


def _switches(pid: int) -> int:
    """How often it has been given and taken the processor: it does not rise in a call that never comes back."""
    lines = [line.partition(":") for line in _text(pid, "status").splitlines()]
    return sum(int(value) for name, _, value in lines if name.endswith("ctxt_switches") and value.strip().isdigit())


def _children(pid: int) -> list[int]:
    return [int(p) for p in _text(pid, f"task/{pid}/children").split() if p.isdigit()][:64]


def _state(pid: int) -> str:
    fields = stat_fields(pid)
    return fields[0] if fields else ""


def _text(pid: int, name: str) -> str:
    try:
        return Path(f"/proc/{pid}/{name}").read_text(encoding="ascii", errors="replace").strip()[:4096]
    except OSError:
        return ""
