"""Every form of an Xid line that people have met is read, and nothing else is."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from checks.log.xid import Xid, parse_xid

GPU = "0000:5d:00.0"


@pytest.mark.parametrize(
    ("text", "number", "pid", "fatal"),
    [
        (
            "NVRM: Xid (PCI:0000:5d:00): 79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus.",
            79,
            None,
            None,
        ),
        ("NVRM: Xid (PCI:0000:5d:00): 79, pid=1284, name=python3, GPU has fallen off the bus.", 79, 1284, None),
        ("NVRM: Xid (0000:5d:00): 31, Ch 00000003, engmask 00000101, intr 10000000", 31, None, None),
        ("NVRM: Xid (PCI:0000:5D:00): 48, DBE (double bit error) ECC Error", 48, None, None),
        ("NVRM: Xid (PCI:0000:5d:00): 999", 999, None, None),
        ("NVRM: Xid (PCI:0000:5d:00 GPU-I:05): 43, pid=77, name=a.out, Ch 00000010", 43, 77, None),
        ("NVRM: Xid (PCI:0000:5d:00: 94, pid=7, name=x, Contained: SM (0x1)", 94, 7, None),
        ("NVRM: GPU 0000:5d:00.0: GPU has fallen off the bus.", 79, None, None),
        ("NVRM: The GPU at 0000:5d:00.0 has fallen off the bus", 79, None, None),
        (
            "NVRM: Xid (PCI:0000:5d:00): 149, NETIR Fatal XC0 i0 Link -1 "
            "(0x000fe406 0x00000000 0x00000000 0x00000000 0x00000000 0x00000000)",
            149,
            None,
            True,
        ),
        (
            "NVRM: Xid (PCI:0000:5d:00): 145, pid=876767, name=ray::WorkerDict, RLW_RXPIPE Nonfatal XC0 i0 Link 13 "
            "(0x0409a0c2 0x00000008 0x00000001 0x00000000)",
            145,
            876767,
            False,
        ),
        (
            "NVRM: Xid (PCI:0000:5d:00): 145, RLW_SRC_TRACK Nonfatal XC0 i0 Link 08 (0x00000004 0x80000000",
            145,
            None,
            False,
        ),
    ],
)
def test_reads_every_known_form(text: str, number: int, pid: int | None, fatal: bool | None) -> None:
    """E28, E29, E40: with and without process, four or six words, a missing bracket, an unknown number."""
    xid = parse_xid(text)
    assert xid is not None
    assert (xid.bdf, xid.number, xid.pid, xid.fatal) == (GPU, number, pid, fatal)


@pytest.mark.parametrize(("word", "subcode"), [("0x025001c6", 37), ("0x026001c6", 38)])
def test_reads_the_reason_of_a_link_that_went_down(word: str, subcode: int) -> None:
    """E29: the sub-code sits in bits 20 to 27 of the first word."""
    text = f"NVRM: Xid (PCI:0000:5d:00): 149, NETIR_LINK_EVT Fatal XC0 i0 Link 00 ({word} 0x00000000 0x00000000)"
    xid = parse_xid(text)
    assert xid is not None
    assert (xid.subcode, xid.fatal, xid.link) == (subcode, True, 0)


def test_reads_a_victim_and_its_cause() -> None:
    """E31: other GPUs log 45 because of an earlier Xid."""
    xid = parse_xid("NVRM: Xid (PCI:0000:5d:00): 45, pid=181, name=python3, Ch 0000000c caused by previous Xid 145")
    assert xid is not None
    assert (xid.number, xid.cause) == (45, 145)


def test_reads_the_recovery_action() -> None:
    """E33: 154 names the action in its text."""
    xid = parse_xid("NVRM: Xid (PCI:0000:5d:00): 154, GPU recovery action changed from 0x0 (None) to 0x1 (GPU Reset)")
    assert xid is not None
    assert xid.action == 1


def test_reads_the_part_of_a_program_error() -> None:
    """E26: 13 names GPC and TPC."""
    xid = parse_xid("NVRM: Xid (PCI:0000:5d:00): 13, pid=5, name=a, Graphics SM Warp Exception on (GPC 3, TPC 1, SM 0)")
    assert xid is not None
    assert xid.part == "GPC 3, TPC 1"


def test_the_text_names_no_process() -> None:
    """Reasons are public: no program's name in them."""
    xid = parse_xid("NVRM: Xid (PCI:0000:5d:00): 43, pid=77, name=secret_project, Ch 00000010")
    assert xid is not None
    assert xid.text == "Ch 00000010"


def test_a_process_name_cannot_forge_the_severity() -> None:
    """Rule 8: a program names itself; what the driver writes stands behind the name."""
    name = "x, RLW Fatal XC0 i0 Link 1"
    xid = parse_xid(f"NVRM: Xid (PCI:0000:5d:00): 145, pid=5, name={name}, RLW_RXPIPE Nonfatal XC0 i0 Link 13 (0x04)")
    assert xid is not None
    assert (xid.fatal, xid.link) == (False, 13)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "nvidia: loading",
        "user wrote NVRM: Xid (PCI:0000:5d:00): 79, forged",
        "NVRM: Xid (PCI:[1234]: segfault at 0 ip 0",
        "NVRM: Xid (PCI: (1234): 79",
        "NVRM: Xid (PCI:0000:zz:00): 79, x",
        "NVRM: Xid (PCI:0000:5d:00): , x",
        "NVRM: Xid PCI:0000:5d:00",
    ],
)
def test_leaves_other_lines_alone(text: str) -> None:
    """E101: a line must begin as the driver begins it and name a PCI id."""
    assert parse_xid(text) is None


@given(st.text(max_size=400))
def test_no_text_makes_it_fail(text: str) -> None:
    assert parse_xid(text) is None or isinstance(parse_xid(text), Xid)


@given(st.integers(0, 10**7), st.text(max_size=300))
def test_no_tail_makes_it_fail(number: int, tail: str) -> None:
    xid = parse_xid(f"NVRM: Xid (PCI:0000:5d:00): {number}, {tail}")
    assert xid is None or xid.bdf == GPU


@pytest.mark.parametrize(
    ("text", "bdf"),
    [
        (
            r"NVRM: The NVIDIA GPU 0000:3b:00.0\x0aNVRM: (PCI ID: 10de:20b0) installed in this system has\x0a"
            r"NVRM: fallen off the bus and is not responding to commands.",
            "0000:3b:00.0",
        ),
        ("NVRM: GPU 10000:3B:00.0: GPU has fallen off the bus.", "10000:3b:00.0"),
        ("NVRM: GPU at PCI:0000:3b:00 has fallen off the bus.", "0000:3b:00.0"),
        (
            "NVRM: Xid (PCI:0019:01:00): 79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus.",
            "0019:01:00.0",
        ),
        ("NVRM: Xid (0000:C1:00 GPU-I:07): 79, GPU has fallen off the bus.", "0000:c1:00.0"),
    ],
)
def test_reads_a_loss_however_it_is_told(text: str, bdf: str) -> None:
    """Like E29, E123: wrapped lines, other cases, large PCI domains, MIG; one event each."""
    xid = parse_xid(text)
    assert xid is not None
    assert (xid.bdf, xid.number) == (bdf, 79)
