"""Executables in checks.d take part like checks: planned, asked in lanes of their own, and told in the one document."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from checks.profile import Profile
from daemon.config import parse_config
from daemon.plan import Instance, plan
from tests.daemon.agent.fixtures import base, host, make_agent, nvml_cache
from tests.daemon.agent.running import RunningAgent
from tests.daemon.cli.command import document, nodevet, write_config

__all__ = ["base", "host", "make_agent", "nvml_cache"]
root_only = pytest.mark.skipif(os.geteuid() != 0, reason="executables of root need root")


@pytest.fixture
def folder() -> Iterator[Path]:
    """A checks.d with two executables that work and one that never ends."""
    made = Path(tempfile.mkdtemp(prefix="nv-site-", dir="/tmp"))
    made.chmod(0o755)
    for name, script, beside in (
        ("raid", "echo 'RAID degraded | disks=3'; exit 2", "interval = 77\ntimeout = 9\n"),
        ("scratch.sh", 'echo \'{"target": "md0", "status": "fail", "blame": "node", "code": "md"}\'', None),
        ("stuck", "trap '' TERM; sleep 1000", "timeout = 0.3\n"),
        ("broken", "echo fine", "timeout = 'soon'\n"),
    ):
        (made / name).write_text(f"#!/bin/sh\n{script}\n")
        (made / name).chmod(0o755)
        if beside:
            (made / f"{name}.toml").write_text(beside)
    yield made
    shutil.rmtree(made)


def _settings(folder: Path) -> str:
    return f'[checks.site_executable]\ndirectory = "{folder}"\nuser = "nobody"\n'


def _planned(text: str) -> dict[str, Instance]:
    instances = plan(parse_config(text, Path("site.toml"), {}), Profile(name="p"))
    return {i.name: i for i in instances if i.check.name == "site_executable"}


def test_each_has_its_lane_its_interval_and_its_time(folder: Path) -> None:
    found = _planned(_settings(folder))
    assert list(found) == [f"site_executable:{name}" for name in ("broken", "raid", "scratch.sh", "stuck")]
    raid = found["site_executable:raid"]
    assert (raid.lane, raid.target, raid.interval) == ("site:raid", "raid", 77)
    assert raid.options["limit"] == 9 and raid.timeout > 11, "the lane gives up before the executable is ended"
    assert found["site_executable:broken"].interval == 300
    slower = _planned(_settings(folder) + "interval = 900\n")
    assert [i.interval for i in slower.values()] == [900, 77, 900, 900]


def test_without_executables_no_lane_is_held(tmp_path: Path) -> None:
    assert _planned(_settings(tmp_path)) == {}
    assert _planned(_settings(tmp_path / "nowhere")) == {}


def test_switched_off(folder: Path) -> None:
    assert _planned(_settings(folder) + "enabled = false\n") == {}


@root_only
def test_nodevet_check_asks_them(folder: Path, tmp_path: Path) -> None:
    config = write_config(tmp_path / "nodevet.toml", _settings(folder))
    done = nodevet("check", "site_executable", "--json", config=config)
    found = {f["target"]: f for f in document(done)["findings"]}
    assert {t: (f["status"], f["code"], f["blame"]) for t, f in found.items()} == {
        "raid": ("fail", "site_fail", "config"),
        "scratch.sh:md0": ("fail", "site_md", "node"),
        "stuck": ("unknown", "site_executable_slow", "self"),
        "broken": ("unknown", "site_executable_refused", "self"),
    }
    assert done.returncode == 2
    done = nodevet("check", "site_executable:raid", "--json", config=config)
    assert [f["target"] for f in document(done)["findings"]] == ["raid"]


@root_only
def test_an_agent_asks_them_between_jobs(folder: Path, make_agent: Callable[..., RunningAgent]) -> None:
    agent = make_agent(checks={"site_executable": {"directory": str(folder), "user": "nobody"}})
    # The machine itself, as executables look at nothing else.
    agent.configure(host={"root": "/", "simulated": False})
    agent.start()
    assert {"site_fail", "site_md", "site_executable_slow", "site_executable_refused"} <= agent.codes()
    lanes = set(agent.helpers())
    assert {"nv-site:raid", "nv-site:scratch"} <= {name[:15] for name in lanes} | {n.partition(".")[0] for n in lanes}
    assert not agent.status().wedged_lanes
