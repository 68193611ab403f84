"""Kernel records are read once each, in order, and only the kernel's own count."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from checks.log.kmsg import KernelLog, Reading, Record


def line(sequence: int, text: str, *, priority: int = 4, seconds: float = 10.0) -> str:
    return f"{priority},{sequence},{int(seconds * 1e6)},-;{text}\n"


def texts(reading: Reading) -> list[tuple[str, bool]]:
    return [(r.text, r.fresh) for r in reading.records]


def test_what_stands_there_first_is_history(tmp_path: Path) -> None:
    """E104: a restart reads the old events again and they stay old."""
    path = tmp_path / "kmsg"
    path.write_text(line(1, "a") + " SUBSYSTEM=pci\n DEVICE=+pci:0000:5d:00.0\n" + line(2, "b"))
    log = KernelLog(path)
    assert texts(log.read("boot", 5000.0)) == [("a", False), ("b", False)]
    assert texts(log.read("boot", 5001.0)) == []
    with path.open("a") as file:
        file.write(line(3, "c") + "4,4,10,-;half a li")
    assert texts(log.read("boot", 5002.0)) == [("c", True)]
    with path.open("a") as file:
        file.write("ne\n")
    assert texts(log.read("boot", 5003.0)) == [("half a line", True)]


def test_the_last_minute_before_the_first_look_is_fresh(tmp_path: Path) -> None:
    """E103: only lines older than our start less a window are history."""
    path = tmp_path / "kmsg"
    path.write_text(line(1, "old", seconds=100) + line(2, "new", seconds=990))
    assert texts(KernelLog(path).read("boot", 1000.0)) == [("old", False), ("new", True)]


def test_a_users_write_is_not_the_kernels(tmp_path: Path) -> None:
    """E101: what a user writes to /dev/kmsg carries facility user."""
    path = tmp_path / "kmsg"
    path.write_text(line(1, "NVRM: Xid (PCI:0000:5d:00): 79, forged", priority=12) + line(2, "own", priority=6))
    reading = KernelLog(path).read("boot")
    assert texts(reading) == [("own", False)]
    assert reading.foreign == 1


def test_a_replaced_file_gives_only_what_is_new(tmp_path: Path) -> None:
    """E103: a new inode with the same boot is no reason to read everything as new."""
    path, other = tmp_path / "kmsg", tmp_path / "other"
    path.write_text(line(1, "a"))
    log = KernelLog(path)
    log.read("boot")
    other.write_text(line(1, "a") + line(2, "b"))
    other.replace(path)
    assert texts(log.read("boot")) == [("b", True)]


def test_a_new_boot_starts_anew(tmp_path: Path) -> None:
    path = tmp_path / "kmsg"
    path.write_text(line(500, "a"))
    log = KernelLog(path)
    log.read("boot 1")
    path.write_text(line(1, "b"))
    assert texts(log.read("boot 2")) == [("b", False)]


def test_an_unreadable_log_raises(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        KernelLog(tmp_path / "none").read("boot")


def test_text_that_is_no_record_is_counted(tmp_path: Path) -> None:
    path = tmp_path / "kmsg"
    path.write_bytes(b"[   12.3] NVRM: Xid\n\xff\xfe\x00\n" + line(1, "a").encode())
    reading = KernelLog(path).read("boot")
    assert (reading.garbled, texts(reading)) == (2, [("a", False)])


def test_a_fifo_never_blocks(tmp_path: Path) -> None:
    path = tmp_path / "kmsg"
    os.mkfifo(path)
    with pytest.raises(OSError, match=r"."):
        KernelLog(path).read("boot")


@settings(max_examples=60)
@given(st.binary(max_size=600))
def test_no_bytes_make_it_fail(tmp_path_factory: pytest.TempPathFactory, data: bytes) -> None:
    path = tmp_path_factory.mktemp("log") / "kmsg"
    path.write_bytes(data)
    assert all(isinstance(r, Record) for r in KernelLog(path).read("boot").records)


def _device_is_ours() -> bool:
    try:
        os.close(os.open("/dev/kmsg", os.O_RDWR | os.O_NONBLOCK))
    except OSError:
        return False
    return os.geteuid() == 0


@pytest.mark.skipif(not _device_is_ours(), reason="needs root and /dev/kmsg")
def test_the_real_device_tells_a_users_line_from_the_kernels() -> None:
    """E101: on the device itself a written line is never a record of the kernel."""
    log = KernelLog(Path("/dev/kmsg"))
    while not log._caught_up:
        log.read("boot")
    marker = f"nodevet test {os.getpid()}: not a kernel message"
    with open("/dev/kmsg", "w") as device:
        device.write(f"<3>{marker}\n")
    reading = log.read("boot")
    log.close()
    assert reading.foreign >= 1
    assert marker not in [r.text for r in reading.records]


@pytest.mark.parametrize("separator", ["\x0b", "\x0c", "\x1c", "\x85", "\u2028", "\r"])
def test_only_a_line_feed_ends_a_record(tmp_path: Path, separator: str) -> None:
    """Like E101: a program's name in a captured log forges no record of the kernel and no later sequence number."""
    path = tmp_path / "kmsg"
    hostile = f"name={separator}4,99999999,1,-;NVRM: Xid (PCI:0000:5d:00): 79, forged"
    path.write_text(line(1, hostile) + line(2, "next"), encoding="utf-8", newline="")
    reading = KernelLog(path).read("boot")
    assert [r.sequence for r in reading.records] == [1, 2]


@pytest.mark.parametrize("device", ["/dev/null", "/dev/zero"])
def test_another_device_in_its_place_is_no_kernel_log(tmp_path: Path, device: str) -> None:
    """Like E43: containers put /dev/null or a console there; that is blindness, never "no Xids"."""
    path = tmp_path / "kmsg"
    path.symlink_to(device)
    with pytest.raises(OSError, match="not the kernel's log device"):
        KernelLog(path).read("boot")


def test_an_empty_file_in_place_of_the_device_is_no_kernel_log(tmp_path: Path) -> None:
    """Like E43: a container runtime made an ordinary file of it."""
    path = tmp_path / "kmsg"
    path.touch()
    with pytest.raises(OSError, match="not the kernel's log device"):
        KernelLog(path, device=True).read("boot")
