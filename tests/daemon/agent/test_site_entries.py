"""A site's checks come as entry points of other distributions, and a broken one costs nobody but itself."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from checks.wire import CheckReport, Finding
from tests.daemon.agent.running import ROOT, RunningAgent

GOOD = '''"""It is so."""
from checks import check, code

SITE_GREY = code("site_grey", "warn", "config", "colour {colour}", explain="Confirm by looking.")

@check(lane="system", interval=60, timeout=1.0, codes=(SITE_GREY,))
def site_good(host, *, colour: str = "grey"):
    """Confirm by hand."""
    yield SITE_GREY("node", colour=colour)
'''
BROKEN = {
    "raises": "from checks import code\ncode('site_half', 'warn', 'config', 'x')\nraise OSError('no\\x1b luck')",
    "leaves": "import sys\nsys.exit(3)",
    "needs": "import a_module_that_is_not_there",
    "untyped": "from checks import check\n@check(lane='system')\ndef site_untyped(host, *, a: 'B' = 1):\n    yield",
    "hasty": "from checks import check\n@check(lane='system', interval=0)\ndef site_hasty(host):\n    yield",
    "doubled": "from checks import check\n@check(lane='system')\ndef disk_space(host):\n    yield",
    "recoded": "from checks import code\ncode('check_error', 'fail', 'node', 'x')",
}


@pytest.fixture
def planted(tmp_path: Path) -> Path:
    """A folder with one distribution of one good entry point and every broken one."""
    folder = tmp_path / "site"
    info = folder / "sitechecks-1.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: sitechecks\nVersion: 1\n")
    points = {
        "a_good": "site_good_module",
        **{name: f"site_{name}_module" for name in BROKEN},
        "gone": "nowhere_at_all",
    }
    text = "".join(f"{name} = {module}\n" for name, module in points.items())
    (info / "entry_points.txt").write_text(f"[nodevet.checks]\n{text}")
    (folder / "site_good_module.py").write_text(GOOD)
    for name, code in BROKEN.items():
        (folder / f"site_{name}_module.py").write_text(code)
    folder.parent.chmod(0o755)
    return folder


def _told(findings: tuple[Finding, ...]) -> dict[str, Finding]:
    return {f.target: f for f in findings if f.code == "site_check_broken"}


def _proves(findings: tuple[Finding, ...]) -> None:
    told = _told(findings)
    assert set(told) == {*(f"site_{name}_module" for name in BROKEN), "nowhere_at_all"}
    assert {(f.status, f.blame) for f in told.values()} == {("unknown", "self")}
    assert all(f.message.isprintable() for f in told.values())
    assert [f.message for f in findings if f.check == "site_good"] == ["colour blue"]


def test_a_broken_entry_point_is_told_and_the_others_work(planted: Path, tmp_path: Path) -> None:
    config = tmp_path / "nodevet.toml"
    # The settings of a check that could not be imported are no mistake of the configuration.
    config.write_text('[checks.site_good]\ncolour = "blue"\n[checks.site_half]\nlimit = 3\n')
    config.chmod(0o600)
    command = [sys.executable, "-m", "daemon", "--config", str(config), "check", "--json"]
    done = subprocess.run(
        [*command, "site_checks", "site_good", "memory"],
        env={**os.environ, "PYTHONPATH": f"{ROOT}{os.pathsep}{planted}"},
        cwd="/",
        capture_output=True,
        timeout=400,
    )
    assert done.returncode == 3, done.stderr
    report = msgspec.json.decode(done.stdout, type=CheckReport)
    _proves(report.findings)
    assert {"memory"} <= {f.check for f in report.findings}


def test_an_agent_over_broken_entry_points_runs(planted: Path, make_agent: Callable[..., RunningAgent]) -> None:
    settings = {"site_good": {"colour": "blue"}, "site_half": {"limit": 3}}
    agent = make_agent(checks=settings)
    agent.env["PYTHONPATH"] = f"{ROOT}{os.pathsep}{planted}"
    agent.start()
    status = agent.status()
    _proves(status.findings)
    assert "config_broken" not in agent.codes()
    assert {"gpu_count", "disk_space"} <= {c.name.partition(":")[0] for c in status.checks}
    assert agent.hook().exit == 0
