"""A stuck worker is written down in the state directory, so that the next agent does not start a second one."""

from __future__ import annotations

import os
from pathlib import Path

import msgspec

from checks import Host
from daemon.lanes.process import stat_fields

MOST = 256
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
    place = Path(directory)
    place.mkdir(mode=0o700, parents=True, exist_ok=True)
    draft = place / f".{os.urandom(8).hex()}"
    draft.write_bytes(msgspec.json.encode(record))
    os.replace(draft, place / f"{record.pid}-{record.start}.json")


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
