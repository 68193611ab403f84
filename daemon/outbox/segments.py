"""A segment is an append-only file of records, and whatever a crash tore off at its end is recognised."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

# Length of the payload, CRC-32 of everything after itself, flags, sequence.
_HEADER = struct.Struct("<IIBQ")
_CRC_FROM = 8
RECORD_LIMIT = 16 * 1024 * 1024
KEEP = 1


@dataclass(frozen=True, slots=True)
class Record:
    """One report as it lies on disk; ``keep`` marks a refusal, which no size bound may drop."""

    sequence: int
    payload: bytes
    keep: bool = False


@dataclass(slots=True)
class Segment:
    """One file of one incarnation and what it holds; ``torn`` says that its end was not a whole record."""

    path: Path
    first: int = 0
    last: int = 0
    count: int = 0
    size: int = 0
    keep: bool = False
    torn: bool = False

    def took(self, record: Record, length: int) -> None:
        """Note that ``record`` was appended."""
        self.first = self.first or record.sequence
        self.last = max(self.last, record.sequence)
        self.count += 1
        self.size += length
        self.keep = self.keep or record.keep


def encode(record: Record) -> bytes:
    """The bytes of one record."""
    flags = KEEP if record.keep else 0
    head = _HEADER.pack(len(record.payload), 0, flags, record.sequence)
    crc = zlib.crc32(record.payload, zlib.crc32(head[_CRC_FROM:]))
    return _HEADER.pack(len(record.payload), crc, flags, record.sequence) + record.payload


def decode(data: bytes) -> Iterator[Record]:
    """The whole records at the front of ``data``; stops at the first that is not whole."""
    at = 0
    while at + _HEADER.size <= len(data):
        length, crc, flags, sequence = _HEADER.unpack_from(data, at)
        end = at + _HEADER.size + length
        if length > RECORD_LIMIT or end > len(data) or zlib.crc32(data[at + _CRC_FROM : end]) != crc:
            return
        yield Record(sequence, data[at + _HEADER.size : end], bool(flags & KEEP))
        at = end


def read(path: Path) -> tuple[Segment, list[Record]]:
    """One file with everything that is whole in it."""
    data = path.read_bytes()
    segment = Segment(path)
    records = list(decode(data))
    for record in records:
        segment.took(record, _HEADER.size + len(record.payload))
    segment.torn = segment.size != len(data)
    return segment, records
