"""Small changes to a known input, drawn from dice that are seeded by the caller."""

from __future__ import annotations

import random

PIECES = (
    b"\0", b"\n", b"\xff\xfe", b"\xc3", b"9" * 30, b"-1", b"0x", b"[", b"]", b"{", b"}", b'"', b"\\", b",", b";", b":",
    b"=", b"(", b")", b"%s", b"\xe2\x80\xae", b"\xef\xbf\xbd", b"\xd9\xa3", b"\xc2\xb2", b"1e999", b"NaN", b"null",
    b"\x1b[31m", b"[0-999999999]", b"../../", b" " * 40, b"[[" * 50, b"\xff\xff\xff\xff",
)  # fmt: skip
LONGEST = 4096


def mutated(data: bytes, dice: random.Random) -> bytes:
    """One to four changes: a byte, a piece put in, a part cut out, doubled or moved."""
    for _ in range(dice.randint(1, 4)):
        at, end = sorted(dice.randint(0, len(data)) for _ in range(2))
        match dice.randint(0, 5):
            case 0:
                data = data[:at] + bytes([dice.randrange(256)]) + data[at + 1 :]
            case 1:
                data = data[:at] + dice.choice(PIECES) + data[at:]
            case 2:
                data = data[:at] + data[end:]
            case 3:
                data = data[:at] + data[at:end] * 2 + data[end:]
            case 4:
                data = data[end:] + data[at:end] + data[:at]
            case _:
                data = data[:at] + dice.choice(PIECES) + data[end:]
    return data[:LONGEST]
