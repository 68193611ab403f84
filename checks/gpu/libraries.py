"""The driver's libraries are whole files, where the loader looks for them."""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path

from checks.host import Host

LIBRARIES = ("/usr/lib/x86_64-linux-gnu", "/usr/lib/aarch64-linux-gnu", "/usr/lib64", "/usr/lib")
NVML, CUDA = "libnvidia-ml.so.1", "libcuda.so.1"
NEEDED = (CUDA, "libnvidia-ptxjitcompiler.so.1")
"""What programs load beside NVML; an interrupted installation leaves them empty or cut off."""

_HEADER = struct.Struct("<4sBBBBB7xHHIQQQIHHHHHH")
_CACHE_LIMIT = 4 * 1024 * 1024


def broken_library(host: Host, names: Sequence[str]) -> str:
    """Which of the libraries is broken in one folder and whole in no other, and how; empty when none."""
    for name in names:
        seen = dict(_seen(host, name))
        if seen and all(seen.values()):
            path, trouble = next(iter(seen.items()))
            return f"driver library {path} {trouble}"
    return ""


def missing_library(host: Host, names: Sequence[str]) -> str:
    """Which library is nowhere although NVML's is in a usual folder: a part of the driver was not installed.

    A place that only the loader's cache knows counts; where NVML itself lies elsewhere nothing is said.
    """
    if not any(not trouble and _whole(host, path) for path, trouble in _seen(host, NVML)):
        return ""
    lacking = [name for name in names if not dict(_seen(host, name))]
    if not lacking:
        return ""
    try:
        cache = host.read_bytes("/etc/ld.so.cache", _CACHE_LIMIT)
    except OSError:
        cache = b""
    return next((name for name in lacking if name.encode() not in cache), "")


def _whole(host: Host, path: str) -> bool:
    """Whether it is a library and no mere mark for one, as captured trees have."""
    return host.path(path).stat().st_size > _HEADER.size


def _seen(host: Host, name: str) -> Iterator[tuple[str, str]]:
    """The places of a library and what is wrong with it there, empty when nothing is."""
    for folder in LIBRARIES:
        path = host.path(f"{folder}/{name}")
        try:
            yield f"{folder}/{name}", trouble_of(path)
        except FileNotFoundError:
            with suppress(OSError):
                target = host.link(f"{folder}/{name}").rpartition("/")[2]
                yield f"{folder}/{name}", f"leads to {target}, which is missing"
        except OSError as error:
            yield f"{folder}/{name}", f"cannot be read ({error.strerror})"


def trouble_of(path: Path) -> str:
    """Why the loader would refuse this file, as far as its first bytes and its size tell; empty when it would not."""
    with path.open("rb") as file:
        header = file.read(_HEADER.size)
        size = file.seek(0, 2)
    if not size:
        return "has 0 bytes"
    if header[:4] != b"\x7fELF":
        return "is no library"
    if len(header) < _HEADER.size:
        return ""  # a mere mark in a captured tree, which keeps no libraries
    fields = _HEADER.unpack(header)
    wide, little = fields[1] == 2, fields[2] == 1
    # Section headers stand at a library's end; those of 32 bits are laid out otherwise and belong to nobody here.
    end = int(fields[11]) + int(fields[16]) * int(fields[17]) if fields[11] else 0
    if wide and little and end > size:
        return f"is cut off: {size} of {end} bytes"
    return ""
