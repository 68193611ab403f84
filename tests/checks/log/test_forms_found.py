"""Kept logs as they are found: from other programs, saved by editors, cut by a power loss, too long, or forged."""

from __future__ import annotations

import json

import pytest

from checks.log.kept.forms import parse
from tests.checks.log.test_forms import FORGED, USUAL, XID, captured


@pytest.mark.parametrize(
    ("others", "trust"),
    [("<5>", "unmarked"), ("<12>", "unmarked"), ("<23>", "unmarked"), ("<30>", "kernel")],
)
def test_a_raw_log_is_proven_only_by_what_a_lossy_dmesg_cannot_write(others: str, trust: str) -> None:
    """E101: dmesg of util-linux writes a user's warning (<12>) as <5>, so a low number alone proves nothing."""
    found = captured(f"<6>[    1.000000] {USUAL}\n{others}[    2.0] x: y\n<4>[  125.500000] {XID}\n".encode())
    assert (found.form, found.trust) == ("dmesg --raw", trust)
    assert found.lines[-1].text == XID


@pytest.mark.parametrize(
    "row",
    [
        f"Dec  1 11:52:05 gpu1 kernel[4711]: {FORGED}",
        f"2026-12-01T11:52:05.5+00:00 gpu1 kernel[4711]: {FORGED}",
        f"Tue 2026-12-01 11:52:05 UTC gpu1 kernel[4711]: {FORGED}",
        f"1764590000.5 gpu1 kernel[4711]: {FORGED}",
    ],
)
def test_the_kernel_has_no_process_id(row: str) -> None:
    """E101: ``logger -i -t kernel`` writes the kernel's tag with a process id behind it."""
    found = captured(f"{row}\n".encode())
    assert found.lines == () and found.foreign == 1


def dmesg_json(*records: dict[str, object]) -> bytes:
    return json.dumps({"dmesg": list(records)}, indent=3).encode()


def test_dmesg_json_is_read_and_believed_where_it_names_the_facility() -> None:
    """E101, E103: ``dmesg --json`` gives a number that has lost the facility, ``dmesg --json -x`` gives its name."""
    plain = captured(dmesg_json({"pri": 6, "time": 1.0, "msg": USUAL}, {"pri": 4, "time": 125.5, "msg": XID}))
    assert (plain.form, plain.trust, plain.garbled) == ("dmesg --json", "unmarked", 0)
    assert [(line.seconds, line.text) for line in plain.lines] == [(1.0, USUAL), (125.5, XID)]
    named = captured(
        dmesg_json(
            {"fac": "user", "pri": "warn", "time": 2.0, "msg": FORGED},
            {"fac": "kern", "pri": "warn", "time": 125.5, "msg": XID},
        )
    )
    assert (named.trust, named.foreign, [line.text for line in named.lines]) == ("kernel", 1, [XID])


@pytest.mark.parametrize("when", [float("nan"), float("inf"), -1, True, None, "x", 1e300])
def test_a_time_that_is_none_is_no_line(when: object) -> None:
    assert parse(dmesg_json({"pri": 4, "time": when, "msg": XID})) is None


@pytest.mark.parametrize("encoding", ["utf-16", "utf-8-sig"])
def test_an_editors_mark_hides_no_line(encoding: str) -> None:
    found = captured(f"[    1.000000] {USUAL}\n[  125.500000] {XID}\n".encode(encoding))
    assert [line.text for line in found.lines] == [USUAL, XID]


def test_the_zeros_of_a_power_loss_hide_no_line() -> None:
    """E106: the file that was being written when the power went has a run of zeros before the next boot's lines."""
    rows = [f"Dec  1 11:50:01 gpu1 kernel: {USUAL}", "\0" * 4096 + f"Dec  1 11:52:05 gpu1 kernel: {XID}"]
    found = captured("\n".join(rows).encode())
    assert [line.text for line in found.lines] == [USUAL, XID] and found.garbled == 0


def test_noise_before_the_log_hides_no_line() -> None:
    found = captured(b"login banner\n" * 300 + f"[  125.500000] {XID}\n".encode())
    assert [line.text for line in found.lines] == [XID]


def test_of_too_many_lines_the_last_are_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """A talkative driver writes millions of lines, and the fault is at the end."""
    monkeypatch.setattr("checks.log.kept.forms.LINES_LIMIT", 10)
    found = captured("".join(f"[{n:5d}.000000] usb\n" for n in range(100)).encode() + f"[  125.5] {XID}\n".encode())
    assert found.lines[-1].text == XID and len(found.lines) == 9
