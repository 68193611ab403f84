"""A rotated log may be packed (gzip, xz, bzip2): it is unpacked up to a bound, whatever it pretends to be."""

from __future__ import annotations

import bz2
import errno
import lzma
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Protocol

LIMIT = 64 * 1024 * 1024
"""Bytes of a log that are looked at: its last ones."""
UNPACKED_LIMIT = 512 * 1024 * 1024
PARTS_LIMIT = 100_000
_PIECE = 1024 * 1024
_FED = 4096


class _Unpacker(Protocol):
    @property
    def eof(self) -> bool: ...
    @property
    def unused_data(self) -> bytes: ...
    def decompress(self, data: bytes, max_length: int = ..., /) -> bytes: ...


def content(path: Path) -> bytes:
    """The last LIMIT bytes of a log, unpacked; OSError when it cannot be read or is no whole archive."""
    with path.open("rb") as file:
        head = file.read(6)
        if not head.startswith((b"\x1f\x8b", b"\xfd7zXZ\x00", b"BZh", b"\x28\xb5\x2f\xfd")):
            file.seek(max(0, file.seek(0, 2) - LIMIT))
            return file.read(LIMIT)
        if head.startswith(b"\x28\xb5\x2f\xfd"):
            raise OSError(errno.EINVAL, "packed by zstd: unpack it first (zstd -d)")
        file.seek(0)
        return unpacked(file.read(LIMIT))


def unpacked(data: bytes) -> bytes:
    """What an archive of one or more parts holds, its last LIMIT bytes; of a broken one what comes before the break."""
    found = bytearray()
    seen = at = parts = 0
    while (stream := _unpacker(data[at : at + 6])) is not None:
        parts += 1
        if parts > PARTS_LIMIT:
            raise OSError(errno.EFBIG, f"archive has more than {PARTS_LIMIT} parts")
        try:
            for piece, following in _pieces(stream, data, at):
                at = following
                found += piece
                seen += len(piece)
                del found[:-LIMIT]
                if seen > UNPACKED_LIMIT:
                    raise OSError(errno.EFBIG, f"unpacks to more than {UNPACKED_LIMIT >> 20} MiB")
        except (zlib.error, lzma.LZMAError, EOFError, ValueError):
            break
        except OSError as error:
            if error.errno == errno.EFBIG:
                raise
            break  # bz2 says so of broken data
    if not seen:
        raise OSError(errno.EINVAL, "archive is broken, nothing can be unpacked")
    return bytes(found)


def _pieces(stream: _Unpacker, data: bytes, at: int) -> Iterator[tuple[bytes, int]]:
    """One part, piece by piece, each with where the next part begins once this is its last.

    It is fed little by little: what an unpacker does not take it copies, and thousands of parts would copy all of it.
    """
    while not stream.eof:
        give = getattr(stream, "unconsumed_tail", b"")
        if not give and getattr(stream, "needs_input", True):
            give = data[at : at + _FED]
            at += len(give)
        piece = stream.decompress(give, _PIECE)
        yield piece, at - len(stream.unused_data)
        if not piece and not give:
            return  # cut short


def _unpacker(data: bytes) -> _Unpacker | None:
    if data.startswith(b"\x1f\x8b"):
        return zlib.decompressobj(wbits=31)
    if data.startswith(b"\xfd7zXZ\x00"):
        return lzma.LZMADecompressor(memlimit=256 * 1024 * 1024)
    return bz2.BZ2Decompressor() if data.startswith(b"BZh") else None
