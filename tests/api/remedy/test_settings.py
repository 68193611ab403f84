"""What the site may write under [remedy], what it may not, and what follows from it."""

from __future__ import annotations

from datetime import datetime, timezone
from pathlib import Path

import pytest

from api.remedy.settings import RemedySettings, Run
from api.settings import SettingsError, load_settings


def written(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "server.toml"
    path.write_text(text)
    path.chmod(0o600)
    return path


def test_a_whole_section_is_read(tmp_path: Path) -> None:
    text = (
        '[remedy]\nmode = "on"\nat_once = 2\nquiet_hours = ["22:00-06:00"]\npartitions = ["gpu"]\n'
        '[remedy.reset_gpu]\nmode = "on"\nscope = "all"\n[remedy.reboot]\nmode = "dry_run"\n'
        '[remedy.run.power-cycle]\nmode = "on"\nwhere = "server"\ntimeout = 120\n'
    )
    remedy = load_settings(written(tmp_path, text), {}).remedy
    modes = [remedy.mode_of(a) for a in ("reset-gpu", "reboot", "run:power-cycle", "run:other", "power-cycle")]
    assert modes == ["on", "dry_run", "on", "off", "off"]
    assert (remedy.on_node("run:power-cycle"), remedy.on_node("reset-gpu"), remedy.on_node("reboot")) == (
        False,
        True,
        False,
    )


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ('[remedy]\nmod = "on"\n', "mode"),
        ('[remedy]\nmode = "yes"\n', "mode"),
        ("[remedy]\nat_once = -1\n", "at_once -1"),
        ('[remedy]\nquiet_hours = ["22-6"]\n', "quiet_hours"),
        ("[remedy.reset_gpu]\ntimeout = 0\n", "timeout 0"),
        ("[remedy.reset_gpu]\nforce = true\n", "force"),
        ('[remedy.run."../x"]\nmode = "on"\n', "no name"),
        ('[remedy.run.x]\nmode = "on"\ndirectory = "here"\n', "not absolute"),
        ("[remedy]\nagain_within = 0\n", "again_within"),
    ],
)
def test_what_cannot_be_meant_is_refused(tmp_path: Path, text: str, says: str) -> None:
    with pytest.raises(SettingsError, match=says):
        load_settings(written(tmp_path, text), {})


@pytest.mark.parametrize(
    ("at", "quiet"), [("21:59", False), ("22:00", True), ("23:59", True), ("05:59", True), ("06:00", False)]
)
def test_quiet_hours_go_over_midnight(at: str, quiet: bool) -> None:
    hour, minute = map(int, at.split(":"))
    now = datetime(2026, 12, 1, hour, minute, tzinfo=timezone.utc)
    assert RemedySettings(quiet_hours=("22:00-06:00",)).quiet(now) is quiet
    assert not RemedySettings().quiet(now)


def test_a_site_executable_on_the_node_is_the_agents() -> None:
    assert RemedySettings(run={"x": Run(where="node")}).on_node("run:x")
