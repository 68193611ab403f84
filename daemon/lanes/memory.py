"""A stuck worker, and what checks ask to have kept, are written down in the state directory for the next agent."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import msgspec

from checks import Host
from daemon.lanes.process import stat_fields

MOST = 256
KEPT = "kept.msgpack"
KEEP_LIMIT = 512 * 1024
KEPT_LIMIT = 1536 * 1024
"""Bytes that are kept of one instance and of all: both travel between agent and lane in one message."""
_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")


class Stuck(msgspec.Struct, frozen=True, kw_only=True):
    """One worker that did not come back; pid and start time name the process, the boot id the boot."""

    lane: str
    pid: int
    start: int
    boot_id: str = ""
    check: str = ""
    since: float = 0.0


def remember(host: Host, directory: str, stuck: dict[str, object]) -> None:
    """Write one down; called in the memory lane."""
    record = msgspec.structs.replace(msgspec.convert(stuck, Stuck), boot_id=_boot())
    _write(Path(directory), f"{record.pid}-{record.start}.json", msgspec.json.encode(record))


def keep(host: Host, directory: str, kept: dict[str, object]) -> None:
    """Write down what checks asked to have kept, in place of what is there; called in the memory lane."""
    _write(Path(directory), KEPT, msgspec.msgpack.encode(bounded(kept)))


def bounded(kept: dict[str, object]) -> dict[str, object]:
    """As much of it as may be written down, the largest left out."""
    sizes = {name: len(msgspec.msgpack.encode({name: keep})) for name, keep in kept.items()}
    room, chosen = KEPT_LIMIT - 8, set()
    for name in sorted(sizes, key=sizes.__getitem__):
        if (room := room - sizes[name]) < 0:
            break
        chosen.add(name)
    return {name: keep for name, keep in kept.items() if name in chosen}


def kept(host: Host, directory: str) -> dict[str, dict[str, object]]:
    """What checks asked an earlier agent to keep, nothing where it cannot be read. Called in the memory lane.

    What another user wrote, or could have written, is not ours: checks would judge by it.
    """
    try:
        descriptor = os.open(Path(directory, KEPT), os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
        with open(descriptor, "rb") as file:
            held = os.fstat(descriptor)
            foreign = held.st_uid not in (0, os.geteuid()) or held.st_mode & 0o022
            if foreign or not stat.S_ISREG(held.st_mode) or held.st_size > KEPT_LIMIT:
                return {}
            found = msgspec.msgpack.decode(file.read(KEPT_LIMIT), type=dict[str, dict[str, object]])
    except (OSError, ValueError, RecursionError):
        return {}
    return {name: keep for name, keep in found.items() if fits(keep)}


def fits(keep: dict[str, object]) -> bool:
    """Whether one instance may have so much kept: more would not go through to its lane with the next question."""
    try:
        return len(msgspec.msgpack.encode(keep)) <= KEEP_LIMIT
    except (TypeError, ValueError, OverflowError, RecursionError):
        return False


def _write(place: Path, name: str, data: bytes) -> None:
    """Whole or not at all."""
    place.mkdir(mode=0o700, parents=True, exist_ok=True)
    draft = place / f".{os.urandom(8).hex()}"
    try:
        draft.write_bytes(data)
        os.replace(draft, place / name)
    except OSError:
        draft.unlink(missing_ok=True)
        raise


def forget(host: Host, directory: str, pid: int, start: int) -> None:
    """Remove what is written about one worker; called in the memory lane."""
    Path(directory, f"{pid}-{start}.json").unlink(missing_ok=True)


def recall(host: Host, directory: str) -> list[dict[str, object]]:
    """Workers written down that still live in this boot; the others are forgotten. Called in the memory lane."""
    boot = _boot()
    alive: list[dict[str, object]] = []
    for path in sorted(Path(directory).glob("*.json"))[:MOST]:
        record = _read(path)
        if record is not None and record.boot_id == boot and _lives(record):
            alive.append(msgspec.to_builtins(record))
            continue
        try:
            path.unlink()
        except OSError:
            continue
    return alive


def _read(path: Path) -> Stuck | None:
    try:
        with path.open("rb") as file:
            return msgspec.json.decode(file.read(65536), type=Stuck)
    except (OSError, msgspec.DecodeError):
        return None


def _lives(record: Stuck) -> bool:
    fields = stat_fields(record.pid)
    return bool(fields) and fields[0] not in "ZX" and int(fields[19]) == record.start


def _boot() -> str:
    try:
        return _BOOT_ID.read_text(encoding="ascii").strip()
    except OSError:
        return ""
