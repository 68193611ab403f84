"""A kept log of any size is read once and judged by all who ask, with the time that it takes."""

from __future__ import annotations

from pathlib import Path

import pytest

from checks import CHECKS, Host
from checks.catalog import load
from checks.log.kept import forms
from checks.log.kept.line import Captured
from checks.log.kmsg import KernelLog
from checks.runner import run_check

XID = "NVRM: Xid (PCI:0000:3b:00): 95, pid=7, name=python3, Uncontained: LTC TAG (0x2,0x0). RST: Yes"


def test_a_kept_log_is_parsed_once_for_all_checks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """E102: one log, one set of lines; of a hundred megabytes the second and third reading would not end in time."""
    load()
    path, parsed, real = tmp_path / "dmesg", list[int](), forms.parse
    path.write_text(f"[    1.000000] Linux version 6.8\n[  125.500000] {XID}\n")

    def counted(data: bytes) -> Captured | None:
        parsed.append(len(data))
        return real(data)

    monkeypatch.setattr(forms, "parse", counted)
    for name in ("kernel_xid", "kernel_events", "kernel_oom"):
        outcome = run_check(CHECKS[name], Host(root=tmp_path, kmsg=path, captured=True))
        assert all(f.status in ("ok", "fail") for f in outcome.findings)
    assert len(parsed) == 1
    path.write_text(f"[    1.000000] Linux version 6.8\n[  225.500000] {XID}\n[  226.000000] usb\n")
    again = KernelLog(path, captured=True).read("boot-1")
    assert len(parsed) == 2 and again.records[-1].text == "usb"
