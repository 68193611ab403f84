"""A packed log is unpacked up to a bound, and a broken or hostile archive is unknown, never a fault."""

from __future__ import annotations

import bz2
import contextlib
import gzip
import lzma
import os
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from checks.catalog import load
from checks.log.kept import packed
from checks.log.kept.packed import content, unpacked
from checks.log.kmsg import KernelLog
from checks.runner import run_check
from tests.fakes import Plant

XID = "NVRM: Xid (PCI:0000:3b:00): 79, pid=4711, name=python3, GPU has fallen off the bus."
USUAL = "Linux version 6.8.0-60-generic"
DMESG = f"[    1.000000] {USUAL}\n[  125.500000] {XID}\n".encode()
SYSLOG = f"Dec  1 11:50:01 n1 kernel: {USUAL}\nDec  1 11:52:05 n1 kernel: [  125.500000] {XID}\n".encode()


@pytest.mark.parametrize("pack", [gzip.compress, lzma.compress, bz2.compress])
def test_a_rotated_log_is_unpacked(tmp_path: Path, pack: Callable[[bytes], bytes]) -> None:
    data = DMESG * 1000
    path = tmp_path / "kern.log.2"
    path.write_bytes(pack(data))
    assert content(path) == data
    path.write_bytes(pack(data) + pack(b"more"))  # what logrotate appends
    assert content(path) == data + b"more"


@pytest.mark.parametrize("pack", [gzip.compress, lzma.compress])
def test_of_a_cut_archive_its_begin_is_read(tmp_path: Path, pack: Callable[[bytes], bytes]) -> None:
    """A log that was copied while it was packed; bzip2 gives nothing of a block that is not whole."""
    path = tmp_path / "kern.log.2"
    path.write_bytes(pack(DMESG + os.urandom(5000))[:-20])
    assert content(path).startswith(DMESG)


def test_a_packed_log_is_judged_like_any_other(tmp_path: Path) -> None:
    path = tmp_path / "kern.log.3.gz"
    path.write_bytes(gzip.compress(SYSLOG))
    reading = KernelLog(path, captured=True).read("")
    assert [r.text for r in reading.records if r.fresh] == [USUAL, XID]
    assert "any user" in reading.trust


def test_an_archive_of_nothing_but_zeros_ends(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Hostile input is bounded: 1 GiB packs into 1 MiB."""
    monkeypatch.setattr(packed, "UNPACKED_LIMIT", 8 << 20)
    path = tmp_path / "bomb.gz"
    path.write_bytes(gzip.compress(bytes(20 << 20)))
    with pytest.raises(OSError, match="unpacks to more than 8 MiB"):
        content(path)


@pytest.mark.parametrize("head", [b"\x1f\x8b", b"BZh", b"\xfd7zXZ\x00", b"\x28\xb5\x2f\xfd"])
def test_a_broken_archive_is_unknown_and_says_why(plant: Plant, tmp_path: Path, head: bytes) -> None:
    """Rule 1: our own trouble with a file is never a node's fault."""
    path = tmp_path / "kern.log.1.gz"
    path.write_bytes(head + b"garbage" * 9)
    host = plant({"/proc/uptime": "1.0 1.0\n"}, kmsg=path)
    host.captured = True
    (found,) = run_check(load()["kernel_oom"], host).findings
    assert (found.status, found.blame, found.code) == ("unknown", "self", "kernel_log_unreadable")


@given(st.sampled_from([gzip.compress, lzma.compress, bz2.compress]), st.integers(0, 80), st.binary(max_size=8))
@settings(max_examples=60)
def test_no_broken_archive_makes_it_fail(pack: Callable[[bytes], bytes], at: int, noise: bytes) -> None:
    data = pack(DMESG)
    with contextlib.suppress(OSError):
        unpacked(data[:at] + noise + data[at + 1 :])


@pytest.mark.parametrize("pack", [gzip.compress, lzma.compress, bz2.compress])
def test_an_archive_of_countless_parts_is_refused(
    monkeypatch: pytest.MonkeyPatch, pack: Callable[[bytes], bytes]
) -> None:
    """64 MiB hold three million empty parts, each of which costs something and holds nothing."""
    monkeypatch.setattr(packed, "PARTS_LIMIT", 20)
    assert unpacked(pack(b"x") * 20) == b"x" * 20
    with pytest.raises(OSError, match="more than 20 parts"):
        unpacked(pack(b"x") + pack(b"") * 20)


def test_no_part_copies_all_that_follows(monkeypatch: pytest.MonkeyPatch) -> None:
    """Unpackers copy what they do not take: of the whole rest, for each part, that was hours for one file."""
    fed = []
    real = packed._unpacker

    def watched(data: bytes) -> object:
        fed.append(len(data))
        stream = real(data)
        return stream and _Watched(stream, fed)

    monkeypatch.setattr(packed, "_unpacker", watched)
    noise = os.urandom(200_000)
    assert unpacked(gzip.compress(noise) + gzip.compress(b"") * 3) == noise
    assert max(fed) <= 4096


class _Watched:
    """An unpacker that notes how much it is given at once."""

    def __init__(self, stream: packed._Unpacker, fed: list[int]) -> None:
        self._stream, self._fed = stream, fed

    def decompress(self, data: bytes, most: int) -> bytes:
        self._fed.append(len(data))
        return self._stream.decompress(data, most)

    def __getattr__(self, name: str) -> object:
        return getattr(self._stream, name)
