"""Every usual form of a kept kernel log gives the same lines, and no bytes make a reader fail."""

from __future__ import annotations

import json
import resource

import pytest
from hypothesis import given
from hypothesis import strategies as st

from checks.log.kept.forms import parse
from checks.log.kept.line import Captured

XID = "NVRM: Xid (PCI:0000:3b:00): 79, pid=4711, name=python3, GPU has fallen off the bus."
USUAL = "Linux version 6.8.0-60-generic"
FORGED = "NVRM: Xid (PCI:0000:4c:00): 79, forged"


def journal(
    text: object, *, transport: str = "kernel", seconds: int = 1_764_590_000, boot: str = "b1"
) -> dict[str, object]:
    return {
        "__CURSOR": "s=1;i=2",
        "__REALTIME_TIMESTAMP": str(seconds * 1_000_000),
        "_BOOT_ID": boot,
        "_TRANSPORT": transport,
        "PRIORITY": "4",
        "SYSLOG_IDENTIFIER": "kernel",
        "MESSAGE": text,
    }


def export(*entries: dict[str, object]) -> bytes:
    out = b""
    for entry in entries:
        for key, value in entry.items():
            data = str(value).encode()
            if b"\n" in data:
                out += key.encode() + b"\n" + len(data).to_bytes(8, "little") + data + b"\n"
            else:
                out += key.encode() + b"=" + data + b"\n"
        out += b"\n"
    return out


LOGS: dict[str, tuple[bytes, str]] = {
    "/dev/kmsg records": (
        f"6,1,1000000,-;{USUAL}\n SUBSYSTEM=pci\n DEVICE=+pci:0000:3b:00.0\n12,2,2000000,-;{FORGED}\n"
        f"4,3,125500000,-;{XID}\n".encode(),
        "kernel",
    ),
    "dmesg --raw": (
        f"<6>[    1.000000] {USUAL}\n<12>[    2.0] {FORGED}\n<4>[  125.500000] {XID}\n".encode(),
        "unmarked",
    ),
    "dmesg --decode": (
        f"kern  :info  : [    1.000000] {USUAL}\nuser  :warn  : [    2.000000] {FORGED}\n"
        f"kern  :warn  : [  125.500000] {XID}\n".encode(),
        "kernel",
    ),
    "dmesg": (f"[    1.000000] {USUAL}\n[  125.500000] {XID}\n".encode(), "unmarked"),
    "dmesg --ctime": (
        f"[Tue Dec  1 11:50:01 2026] {USUAL}\n[Tue Dec  1 11:52:05 2026] {XID}\n".encode(),
        "unmarked",
    ),
    "dmesg --time-format iso": (
        f"2026-12-01T11:50:01,000000+00:00 {USUAL}\n2026-12-01T11:52:05,500000+00:00 {XID}\n".encode(),
        "unmarked",
    ),
    "syslog": (
        f"Dec  1 11:50:01 gpu1 kernel: [    1.000000] {USUAL}\nDec  1 11:50:02 gpu1 alice: {FORGED}\n"
        f"Dec  1 11:52:05 gpu1 kernel: [  125.500000] {XID}\n".encode(),
        "forgeable",
    ),
    "syslog, ISO times": (
        f"2026-12-01T11:50:01.000001+00:00 gpu1 kernel: {USUAL}\n2026-12-01T11:50:02.1+01:00 gpu1 sshd[12]: {FORGED}\n"
        f"2026-12-01T11:52:05.500000Z gpu1 kernel: {XID}\n".encode(),
        "forgeable",
    ),
    "journal json": (
        "\n".join(
            json.dumps(e)
            for e in (
                journal(USUAL),
                journal(FORGED, transport="stdout"),
                journal(list(XID.encode()), seconds=1_764_590_124),
            )
        ).encode(),
        "kernel",
    ),
    "journal export": (
        export(
            journal(USUAL),
            journal(FORGED + "\nof two lines", transport="syslog"),
            journal(XID, seconds=1_764_590_124),
        ),
        "kernel",
    ),
}

# What else journalctl, dmesg and syslog daemons write; none of it carries more than its trust says.
LOGS |= {
    "dmesg --human": (f"[Dec 1 11:50] {USUAL}\n[  +0.000000] other\n[Dec 1 11:52] {XID}\n".encode(), "unmarked"),
    "journal, unix times": (
        f"1764590000.000001 gpu1 kernel: {USUAL}\n1764590001.5 gpu1 alice[7]: {FORGED}\n"
        f"1764590124.5 gpu1 kernel: {XID}\n".encode(),
        "forgeable",
    ),
    "syslog, RFC 5424": (
        f"<6>1 2026-12-01T11:50:01.000001+00:00 gpu1 kernel - - - {USUAL}\n"
        f'<12>1 2026-12-01T11:50:02Z gpu1 kernel 7 - [x@1 a="b"] {FORGED}\n'
        f"<4>1 2026-12-01T11:52:05.500000Z gpu1 kernel - - - {XID}\n".encode(),
        "forgeable",
    ),
    "journal verbose": (
        "".join(
            f"Tue 2026-12-01 11:{when}.000001 UTC [s=1;i={n};b=b1;m=1;t=2;x=3]\n    _BOOT_ID=b1\n"
            f"    _TRANSPORT={transport}\n    MESSAGE={text}\n"
            for n, (when, transport, text) in enumerate(
                [("50:01", "kernel", USUAL), ("50:02", "syslog", FORGED), ("52:05", "kernel", XID)]
            )
        ).encode(),
        "kernel",
    ),
}
PRETTY = [journal(USUAL), journal(FORGED, transport="stdout"), journal(XID, seconds=1_764_590_124)]


def captured(data: bytes) -> Captured:
    found = parse(data)
    assert found is not None
    return found


@pytest.mark.parametrize("form", sorted(LOGS))
def test_every_form_gives_the_kernels_lines(form: str) -> None:
    """E101: a line of another facility, transport or tag is not the kernel's."""
    data, trust = LOGS[form]
    found = captured(data)
    assert (found.form, found.trust, found.garbled) == (form, trust, 0)
    assert [line.text for line in found.lines if line.text != "other"] == [USUAL, XID]
    assert 119 <= found.end - found.lines[0].seconds <= 130
    assert found.foreign == (1 if FORGED.encode() in data else 0)


def test_only_the_last_boot_counts() -> None:
    """E41, E103: what an earlier boot logged is not this one's."""
    text = f"[  900.0] {XID}\n[    0.0] {USUAL}\n[    3.0] other\n"
    assert [line.text for line in captured(text.encode()).lines] == [USUAL, "other"]
    entries = [journal(XID, boot="b0"), journal(USUAL, boot="b1", seconds=1_764_590_500)]
    assert [line.text for line in captured("\n".join(map(json.dumps, entries)).encode()).lines] == [USUAL]


def test_lines_a_little_out_of_order_are_no_boot() -> None:
    text = f"[  900.5] {XID}\n[  900.1] other\n"
    assert len(captured(text.encode()).lines) == 2


@pytest.mark.parametrize("data", [b"", b"\n\n", b"hello\nworld\n", b"\x00\xff" * 100, b"{}\n{}\n", b"[soon] x\n"])
def test_a_log_of_no_known_form_is_none(data: bytes) -> None:
    assert parse(data) is None


def test_what_does_not_fit_is_counted() -> None:
    assert captured(f"[    1.0] {USUAL}\nsomething else\n".encode()).garbled == 1


@given(st.binary(max_size=300))
def test_no_bytes_make_it_fail(data: bytes) -> None:
    parse(data)


@given(st.sampled_from(sorted(LOGS)), st.integers(0, 400), st.binary(max_size=6))
def test_no_broken_log_makes_it_fail(form: str, at: int, noise: bytes) -> None:
    data = LOGS[form][0]
    parse(data[:at] + noise + data[at:])
    parse(data[:at])


@pytest.mark.parametrize(
    "row",
    [
        "[    1.234567][    T1] {}",
        "[12345.678901] [   T1234] {}",
        "<4>[    1.234567][  C12] {}",
        "[Tue Dec  1 13:52:32 2026][    T1] {}",
        "Dec 01 13:52:32.123456 node1 kernel: {}",
        "Tue 2026-12-01 13:52:32 UTC node1 kernel: {}",
        "[    5.123456] node1 kernel: {}",
        "[    1.234567] {}\r",
    ],
)
def test_callers_other_clocks_and_line_ends_hide_no_line(row: str) -> None:
    """A line whose head is taken for its text would be no trouble to anybody."""
    log = parse(f"{row.format(XID)}\n".encode())
    assert log is not None and [line.text for line in log.lines] == [XID]


def test_a_journal_with_monotonic_times_keeps_others_lines_apart() -> None:
    """E101: any user can log under any name but the pid's."""
    log = parse(f"[ 1.0] n1 systemd[1]: up\n[ 2.0] n1 alice[7]: {FORGED}\n[ 3.0] n1 kernel: {XID}\n".encode())
    assert log is not None and log.trust == "forgeable"
    assert [line.text for line in log.lines] == [XID] and log.foreign == 2


@pytest.mark.parametrize(
    "text",
    [
        "\n".join(json.dumps(e, indent="\t", separators=(",", " : ")) for e in PRETTY),
        json.dumps(PRETTY),
        "\n".join("data: " + json.dumps(e) + "\n" for e in PRETTY),
        "".join("\x1e" + json.dumps(e) + "\n" for e in PRETTY),
        "\n".join(json.dumps({**e, "__REALTIME_TIMESTAMP": int(str(e["__REALTIME_TIMESTAMP"]))}) for e in PRETTY),
    ],
    ids=["json-pretty", "list", "json-sse", "json-seq", "numbers"],
)
def test_every_spelling_of_json(text: str) -> None:
    found = captured(text.encode())
    assert (found.form, found.trust, found.garbled, found.foreign) == ("journal json", "kernel", 0, 1)
    assert [line.text for line in found.lines] == [USUAL, XID]


def test_a_cut_object_hides_no_other() -> None:
    """Like E101: a log that was copied while it grew."""
    whole = json.dumps(PRETTY[0], indent=1), json.dumps(PRETTY[2], indent=1)
    found = captured(f"{whole[0][:-30]}\n{whole[1]}\n{whole[0][:40]}".encode())
    assert [line.text for line in found.lines] == [XID] and found.garbled == 2


@pytest.mark.parametrize(
    "row",
    [
        "[   12.345678 <    0.000012>] {}",
        "[Tue Dec  1 13:52:32 2026 <    0.000012>] {}",
        "[   12.345678 <    0.000012 >] n1 kernel: {}",
        "kern  :warn  : [Dec 1 13:52] {}",
        "kern  :warn  : [ +12.345678] {}",
        "[Dec31 23:59] {}",
        "[  +0.000012] {}",
        "<4>Dec  1 13:52:32 n1 kernel: {}",
        "<4>2026-12-01T13:52:32Z n1 kernel: {}",
        "2026-12-01T13:52:32+0000 n1 kernel: {}",
        "2026-12-01T13:52:32.123456+0000 n1 kernel: [   12.345678] {}",
        "1764590000 n1 kernel: {}",
        "\x1b[32m[   12.345678] \x1b[0m\x1b[31m{}\x1b[0m",
        "-- Journal begins at Tue 2026-12-01 --\nDec 01 13:52:32 n1 kernel: {}",
    ],
)
def test_deltas_colours_priorities_and_remarks_hide_no_line(row: str) -> None:
    assert [line.text for line in captured(f"{row.format(XID)}\n".encode()).lines] == [XID]


def test_a_priority_of_another_facility_is_no_kernels_line() -> None:
    """E101: logger -t kernel, where the daemon writes priorities."""
    found = captured(f"<12>Dec  1 13:52:32 n1 kernel: {FORGED}\n".encode())
    assert (found.lines, found.foreign) == ((), 1)


@pytest.mark.parametrize("remark", ["-- Reboot --", f"-- Boot {'0' * 32} --"])
def test_the_journals_remark_on_a_boot_ends_what_was_before(remark: str) -> None:
    """E41: the clock need not go back at a boot."""
    text = f"Dec 01 13:52:32 n1 kernel: {XID}\n{remark}\nDec 01 13:53:32 n1 kernel: {USUAL}\n"
    assert [line.text for line in captured(text.encode()).lines] == [USUAL]


def test_a_new_year_is_no_boot() -> None:
    text = f"Dec 31 23:59:59 n1 kernel: {XID}\nJan  1 00:00:05 n1 kernel: {USUAL}\n"
    found = captured(text.encode())
    assert [line.text for line in found.lines] == [XID, USUAL]
    assert found.end - found.lines[0].seconds < 86400 * 2


def test_what_stands_between_documents_costs_no_memory() -> None:
    """A megabyte of commas in somebody's log was 120 MB of a worker."""
    row = '{"__REALTIME_TIMESTAMP": "1000000", "MESSAGE": "one", "_TRANSPORT": "kernel"}'
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    found = parse(f"data: {row}\ndata: {',' * (4 << 20)}\n{row}".encode())
    assert found is not None and [line.text for line in found.lines] == ["one", "one"]
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 200 << 10
