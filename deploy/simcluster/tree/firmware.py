"""The firmware's table of memory modules, in the form that the kernel shows below /sys/firmware/dmi."""

from __future__ import annotations

import struct
from collections.abc import Collection, Mapping

from deploy.simcluster.tree.board import Board

TABLE = "sys/firmware/dmi/tables/DMI"
SPEED = 4800
"""MT/s of a healthy module."""


def files(board: Board, *, gone: Collection[int] = (), slow: Mapping[int, int] | None = None) -> dict[str, str | bytes]:
    """Return the table of a board; ``gone`` slots are empty, ``slow`` ones run at another speed."""
    table = b""
    for number in range(board.modules):
        gib = 0 if number in gone else board.module_gib
        table += module(number, gib, (slow or {}).get(number, SPEED), board.modules // 2)
    return {TABLE: table + struct.pack("<BBH", 127, 4, 0xFEFF) + b"\0\0"}


def module(number: int, gib: int, mts: int, per_socket: int) -> bytes:
    """Return one memory device (type 17 of SMBIOS 3.3); 0 GiB = an empty slot."""
    slot = f"P{number // per_socket}_DIMM_{chr(ord('A') + number % per_socket)}"
    strings = [slot, "SimMemory", f"SIM{number:05d}", "SIM-64G-4800"] if gib else [slot, "NO DIMM"]
    head = bytearray(0x5C)
    struct.pack_into("<BBH", head, 0, 17, len(head), 0x1100 + number)
    struct.pack_into("<HH", head, 0x0C, 0x7FFF if gib else 0, 0)
    head[0x10] = 1
    head[0x17], head[0x18], head[0x1A] = (2, 3, 4) if gib else (2, 0, 0)
    struct.pack_into("<H", head, 0x15, SPEED if gib else 0)
    struct.pack_into("<I", head, 0x1C, gib * 1024)
    struct.pack_into("<H", head, 0x20, mts if gib else 0)
    return bytes(head) + b"".join(text.encode() + b"\0" for text in strings) + b"\0"
