"""What the firmware's table (SMBIOS) says of the memory modules."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass

from checks.host import Host

TABLE = "/sys/firmware/dmi/tables/DMI"
TABLE_LIMIT = 1024 * 1024
MEMORY_DEVICE, END = 17, 127
_STRUCTURES = 10_000
_HEAD = 4


@dataclass(frozen=True, slots=True)
class Module:
    """One slot for memory: ``mib`` 0 = empty, None = the firmware does not know; ``mts`` as configured, 0 = unknown."""

    slot: str
    mib: int | None
    mts: int
    maker: str
    part: str
    serial: str


def memory_modules(host: Host) -> list[Module]:
    """Every slot for memory; a table that breaks off raises ValueError."""
    table = host.read_bytes(TABLE, TABLE_LIMIT)
    return [_module(head, strings) for kind, head, strings in structures(table) if kind == MEMORY_DEVICE]


def structures(table: bytes) -> Iterator[tuple[int, bytes, list[str]]]:
    """Type, formatted part and strings of each structure up to the end-of-table one."""
    at = 0
    for _ in range(_STRUCTURES):
        if len(table) - at < _HEAD:
            return
        kind, length = table[at], table[at + 1]
        if length < _HEAD or at + length > len(table):
            raise ValueError(f"firmware table: structure at byte {at} has length {length}")
        end = table.find(b"\0\0", at + length)
        if end < 0:
            raise ValueError(f"firmware table: structure at byte {at} has no end")
        texts = [t.decode("utf-8", "replace").strip() for t in table[at + length : end].split(b"\0")]
        yield kind, table[at : at + length], texts
        if kind == END:
            return
        at = end + 2


def _module(head: bytes, strings: list[str]) -> Module:
    """Fields of a memory device by the SMBIOS specification, 7.18; older firmware leaves the last ones out."""
    size = _word(head, 0x0C)
    mib: int | None
    if size == 0xFFFF:
        mib = None
    elif size == 0x7FFF:
        mib = _long(head, 0x1C) & 0x7FFF_FFFF
    else:
        # The highest bit says KiB in place of MiB.
        mib = (size & 0x7FFF) // 1024 if size & 0x8000 else size
    slow, fast = _word(head, 0x20), _long(head, 0x58)
    names = [_text(head, strings, at) for at in (0x10, 0x17, 0x1A, 0x18)]
    return Module(names[0], mib, fast if slow == 0xFFFF else slow, names[1], names[2], names[3])


def _word(head: bytes, at: int) -> int:
    return int(struct.unpack_from("<H", head, at)[0]) if len(head) >= at + 2 else 0


def _long(head: bytes, at: int) -> int:
    return int(struct.unpack_from("<I", head, at)[0]) if len(head) >= at + 4 else 0


def _text(head: bytes, strings: list[str], at: int) -> str:
    number = head[at] if len(head) > at else 0
    return strings[number - 1][:64] if 0 < number <= len(strings) else ""
