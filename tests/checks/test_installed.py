"""What is installed is found without the parsers of importlib.metadata, and through it where there is something."""

from __future__ import annotations

import subprocess
import sys
from importlib import metadata
from pathlib import Path

import pytest

from checks import installed

ROOT = Path(__file__).resolve().parents[2]


def test_our_version_is_the_installed_one() -> None:
    assert installed.version() == metadata.version("nodevet")


def test_a_bare_checkout_has_no_version(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(sys, "path", [str(tmp_path), str(tmp_path / "gone")])
    assert installed.version() == "unversioned"
    assert installed.entry_points("nodevet.checks") == []


def test_entry_points_are_found_by_their_group(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    info = tmp_path / "site-1.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: site\nVersion: 1\n")
    (info / "entry_points.txt").write_text("[nodevet.checks]\nabc = string:digits\n[other]\nx = string:printable\n")
    monkeypatch.syspath_prepend(tmp_path)
    ((value, load),) = [(v, ld) for v, ld in installed.entry_points("nodevet.checks") if v == "string:digits"]
    assert (value, load()) == ("string:digits", "0123456789")


def test_an_agent_carries_no_parser_of_mail_archives_or_tables() -> None:
    code = (
        "import sys; import daemon.agent.main as main; from checks.catalog import load; load();"
        "print(sorted({'zipfile', 'csv', 'importlib.metadata', 'importlib.resources', 'secrets'} & set(sys.modules)))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, timeout=400, check=True
    )
    assert done.stdout.strip() == "[]"
