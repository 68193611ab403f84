"""Segments survive crashes, full disks and restarts, and give up only what the server has."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from daemon.outbox.segments import Record, decode, encode, read
from daemon.outbox.spool import Spool


def spool(root: Path, incarnation: str = "b", **bounds: int) -> Spool:
    made = Spool(root, incarnation, **bounds)
    made.open()
    return made


def record(sequence: int, payload: bytes = b"{}", keep: bool = False) -> Record:
    return Record(sequence, payload, keep)


def filled(root: Path, incarnation: str = "a", count: int = 5, size: int = 100, **bounds: int) -> Spool:
    made = spool(root, incarnation, **bounds)
    for sequence in range(1, count + 1):
        made.append(record(sequence, b"x" * size))
    made.commit()
    return made


@pytest.mark.parametrize("cut", [0, 1, 8, 16, 17, 20, 50, 116])
def test_a_torn_tail_costs_only_the_torn_record(tmp_path: Path, cut: int) -> None:
    data = encode(record(1, b"a" * 100)) + encode(record(2, b"b" * 100))
    path = tmp_path / "1.seg"
    path.write_bytes(data[: len(data) // 2 + cut])
    segment, records = read(path)
    assert [r.sequence for r in records] == [1]
    assert segment.torn is (cut > 0)


@pytest.mark.parametrize("at", [0, 3, 4, 8, 9, 17, 40])
def test_a_flipped_bit_is_noticed(at: int) -> None:
    data = bytearray(encode(record(7, b"payload of some length, long enough to be hit")))
    data[at] ^= 0x10
    assert list(decode(bytes(data))) == []


def test_a_length_from_nowhere_is_not_believed() -> None:
    assert list(decode(b"\xff\xff\xff\x7f" + b"\0" * 100)) == []


def test_records_come_back_in_order_across_segments(tmp_path: Path) -> None:
    made = filled(tmp_path, count=50, segment_bytes=1000)
    assert len(list((tmp_path / "a").glob("*.seg"))) > 5
    assert [r.sequence for r in made.read("a", 0)] == list(range(1, 51))
    assert [r.sequence for r in made.read("a", 47)] == [48, 49, 50]


def test_what_is_acknowledged_goes_and_stays_gone_after_a_restart(tmp_path: Path) -> None:
    filled(tmp_path, count=50, segment_bytes=1000).acknowledge("a", 30)
    after = spool(tmp_path)
    assert after.earlier() == ["a"]
    assert after.waiting("a") == 20
    assert after.read("a", 0)[0].sequence <= 31
    after.acknowledge("a", 50)
    assert after.earlier() == []
    assert not (tmp_path / "a").exists()
    assert (tmp_path / "b").is_dir()


def test_an_acknowledgement_never_goes_backwards(tmp_path: Path) -> None:
    made = filled(tmp_path, count=5)
    made.acknowledge("a", 4)
    made.acknowledge("a", 2)
    assert made.waiting("a") == 1


def test_a_bound_drops_the_oldest_and_counts_but_never_a_refusal(tmp_path: Path) -> None:
    made = spool(tmp_path, segment_bytes=1000, total_bytes=5000)
    made.append(record(1, b"r" * 500, keep=True))
    for sequence in range(2, 60):
        made.append(record(sequence, b"x" * 400))
    kept = [r.sequence for r in made.read("b", 0)]
    assert made.size() <= 5000
    assert kept[0] == 1
    assert kept[-1] == 59
    assert made.lost == 59 - len(kept)


def test_refusals_alone_may_fill_the_bound_twice_and_then_stop(tmp_path: Path) -> None:
    made = spool(tmp_path, segment_bytes=1000, total_bytes=4000)
    with pytest.raises(OSError) as caught:
        for sequence in range(1, 100):
            made.append(record(sequence, b"r" * 600, keep=True))
    assert caught.value.errno == errno.EDQUOT
    assert 4000 < made.size() <= 8000
    assert made.lost == 0


def test_earlier_refusals_are_known_after_a_restart_even_when_acknowledged(tmp_path: Path) -> None:
    first = spool(tmp_path, "a")
    first.append(record(1, b"refusal", keep=True))
    first.append(record(2, b"other"))
    first.acknowledge("a", 2)
    after = spool(tmp_path)
    assert after.refusals == [b"refusal"]
    assert after.earlier() == []


def test_a_full_disk_leaves_no_half_record(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = filled(tmp_path, count=2)
    real = os.write

    def short(fd: int, data: bytes) -> int:
        if len(data) < 60:
            raise OSError(errno.ENOSPC, "no space")
        return real(fd, data[:60])

    monkeypatch.setattr("daemon.outbox.spool.os.write", short)
    with pytest.raises(OSError, match="no space"):
        made.append(record(3, b"y" * 100))
    monkeypatch.undo()
    made.append(record(4, b"z" * 100))
    assert [r.sequence for r in made.read("a", 0)] == [1, 2, 4]
    assert spool(tmp_path).torn == 0


@pytest.mark.parametrize("name", ["", "../x", "a/b", ".hidden", "a" * 200])
def test_an_incarnation_is_a_plain_name(tmp_path: Path, name: str) -> None:
    with pytest.raises(ValueError, match="incarnation"):
        Spool(tmp_path, name)


def test_foreign_files_in_the_folder_are_left_alone(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "notes.seg").write_text("x")
    (tmp_path / "a" / "00000001.seg").write_bytes(b"not a segment")
    (tmp_path / "leases").write_text("{}")
    made = spool(tmp_path)
    assert made.torn == 1
    assert (tmp_path / "a" / "notes.seg").exists()
    assert made.read("a", 0) == []
