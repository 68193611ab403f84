"""A body is JSON, plain or gzip, and bounded both before and after it is inflated."""

from __future__ import annotations

import zlib

from starlette.datastructures import Headers
from starlette.requests import ClientDisconnect
from starlette.types import Receive

from api.problems import Problem, TooLarge, Unacceptable

_GZIP = 16 + zlib.MAX_WBITS


def check_kind(headers: Headers) -> bool:
    """Whether the body is gzip; raises 415 for anything but JSON, plain or gzip."""
    kind = headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != "application/json":
        raise Problem(f"content type {kind[:64] or 'missing'}, expected application/json", status=415)
    encoding = headers.get("content-encoding", "identity").strip().lower()
    if encoding not in ("identity", "gzip"):
        raise Problem(f"content encoding {encoding[:64]}, expected gzip or none", status=415)
    return encoding == "gzip"


async def read(receive: Receive) -> bytes:
    """The whole body; its size is bounded by whoever wrapped ``receive``."""
    parts = []
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise ClientDisconnect
        parts.append(message.get("body", b""))
        if not message.get("more_body", False):
            return b"".join(parts)


def inflate(data: bytes, limit: int) -> bytes:
    """Undo gzip, never holding more than ``limit`` bytes."""
    unzip = zlib.decompressobj(_GZIP)
    try:
        plain = unzip.decompress(data, limit + 1)
    except zlib.error as error:
        raise Unacceptable(f"body is not gzip: {error}") from error
    if len(plain) > limit:
        raise TooLarge(f"body inflates to more than {limit} bytes")
    if not unzip.eof or unzip.unused_data:
        raise Unacceptable("body is not one whole gzip member")
    return plain
