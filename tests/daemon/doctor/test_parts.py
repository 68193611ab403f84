"""The doctor reads agent, hooks and central service as they are, and a part that breaks hides no other."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import pytest

from daemon.config import parse_config
from daemon.doctor import examine as examining
from daemon.doctor import hooks
from daemon.doctor.agent import agent_rules
from daemon.doctor.central import central_rules
from daemon.doctor.examine import Subject, examine
from slurm.doctor import Running
from slurm.errors import NoCommand
from slurm.hook.build import build
from slurm.run import Ended
from tests.slurm.recorded import text

WELL: dict[str, object] = {
    "verdict": "healthy",
    "profile": "hgx-h100",
    "agent_version": "0.1.0",
    "uptime": 12.5,
    "uplink": {"state": "connected", "leases": 2},
    "outbox": {"waiting": 0, "lost": 0, "hung": 0.0, "trouble": ""},
    "checks": [{"name": "gpu_count", "stale": False}],
    "wedged_lanes": [],
}


@pytest.mark.parametrize(
    ("changed", "about", "level"),
    [
        ({}, "agent", "ok"),
        ({"agent_version": "0.0.9"}, "agent", "warning"),
        ({"config_error": "no section [agnet]"}, "agent", "problem"),
        ({"wedged_lanes": ["nvml"]}, "lanes", "problem"),
        ({"paused": "paused by ann", "checks": [{"name": "x", "stale": True}]}, "agent", "warning"),
        ({"silenced": ["*"]}, "agent", "warning"),
        ({"checks": [{"name": "gpu_count", "stale": True}]}, "checks", "warning"),
        ({"outbox": {"hung": 7.0}}, "outbox", "problem"),
        ({"outbox": {"trouble": "No space left on device"}}, "outbox", "problem"),
        ({"outbox": {"lost": 3}}, "outbox", "warning"),
        ({"outbox": {"waiting": 5000}}, "outbox", "warning"),
        ({"uplink": {"state": "not allowed", "last_error": "401"}}, "uplink", "warning"),
    ],
)
def test_each_trouble_of_the_agent(changed: dict[str, object], about: str, level: str) -> None:
    said = [(a.about, a.level) for a in agent_rules(WELL | changed, "0.1.0")]
    assert (about, level) in said
    assert {other for name, other in said if (name, other) != (about, level)} <= {"ok"}


def test_an_agent_that_says_nothing_known_breaks_nothing() -> None:
    assert [a.about for a in agent_rules({"outbox": 3, "uplink": [], "checks": {}, "uptime": "x"}, "1")] == ["agent"]


def test_no_central_service_is_a_warning_and_a_dead_one_a_problem() -> None:
    assert [a.level for a in central_rules("", "", None)] == ["warning"]
    assert [a.level for a in central_rules("http://127.0.0.1:1", "", None)] == ["problem"]


@pytest.fixture(scope="module")
def installed() -> Iterator[Path]:
    base = Path(tempfile.mkdtemp(prefix="nv-doc-", dir="/tmp"))
    base.chmod(0o755)
    yield build(base / "bin", conf=base / "hook.conf")
    shutil.rmtree(base)


def config_of(**lines: str) -> Running:
    """A running configuration with these hook lines."""
    return Running.read("MessageTimeout = 10 sec\n" + "".join(f"{k} = {v}\n" for k, v in lines.items()))


def test_a_chain_of_links_is_looked_through(installed: Path, tmp_path: Path) -> None:
    base = Path(tempfile.mkdtemp(prefix="nv-doc-", dir="/tmp"))
    base.chmod(0o755)
    try:
        (base / "99-nodevet-prolog").symlink_to(installed / "nodevet-prolog")
        (base / "50-site").write_text("#!/bin/sh\n")
        (base / "50-site").chmod(0o644)
        (base / "10-gone").symlink_to(base / "nothing")
        site, ours = hooks.programs(config_of(Prolog=f"{base}/*"))["Prolog"][1:]
        gone = hooks.programs(config_of(Prolog=f"{base}/*"))["Prolog"][0]
        assert ours.ours and ours.wrong == "" and ours.version
        assert (site.ours, site.wrong) == (False, "mode 0644 is not executable")
        assert gone.wrong == "No such file or directory"
        (base / "50-site").chmod(0o777)
        assert "writable by others" in hooks.programs(config_of(Prolog=f"{base}/50-site"))["Prolog"][0].wrong
    finally:
        shutil.rmtree(base)


def test_what_the_hook_goes_by(installed: Path) -> None:
    conf = installed.parent / "hook.conf"
    conf.write_text(f"deadline_s=42\nsokket=/x\nstop_file={installed}\nrestart_retry_s=0\nsocket={installed}/none\n")
    conf.chmod(0o600)
    try:
        found = hooks.in_force(hooks.programs(config_of(Prolog=f"{installed}/nodevet-prolog")), "n1")
    finally:
        conf.unlink()
    assert found is not None and found.deadline == 42
    said = {a.about: a.level for a in hooks.conf_rules(found)}
    assert said == {"hook.conf": "warning", "STOP": "problem"}


def test_marks_that_nobody_took(tmp_path: Path) -> None:
    (tmp_path / "prolog.42.0.99").write_text("1790000000 deadline\n")
    (tmp_path / "prolog.43.0.98").write_text("1790000000 deadline\n")
    assert [(a.level, a.what) for a in hooks.mark_rules(hooks.marks(tmp_path))] == [
        ("warning", "2 unanswered hooks: prolog deadline x2")
    ]
    assert [a.level for a in hooks.mark_rules(hooks.marks(tmp_path / "none"))] == ["ok"]


def slurm_says(argv: Sequence[str], *, env: Mapping[str, str], timeout: float, step: str) -> Ended:
    """A slurmctld that answers from a recording and lets this account drain."""
    words = tuple(argv)
    if words[:3] == ("scontrol", "show", "config"):
        return Ended(0, text("24.11", "cmd/show-config.txt").encode(), b"")
    if "--version" in words:
        return Ended(0, b"slurm 24.11.5\n", b"")
    if "update" in words:
        return Ended(1, b"", b"slurm_update error: Invalid node name specified\n")
    return Ended(1, b"", b"Invalid node name specified\n")


def subject(tmp_path: Path, **env: str) -> Subject:
    """This machine with a configuration of the test's own."""
    return Subject(parse_config(f'[agent]\nsocket = "{tmp_path}/a.sock"\nmarks = "{tmp_path}/m"\n', None, env))


def test_the_whole_over_a_recorded_cluster(tmp_path: Path) -> None:
    said = {a.about: a.level for a in examine(subject(tmp_path), slurm_says)}
    assert said["drain rights"] == "ok"
    assert (said["nohold_on_prolog_fail"], said["agent"], said["configuration"]) == ("warning", "ok", "ok")
    assert said["clock"] == "problem"  # the recording is old, which is just what a wrong clock looks like


def test_without_scontrol_the_rest_is_still_looked_at(tmp_path: Path) -> None:
    """E107: scontrol missing from PATH is a problem that is named."""

    def none(argv: Sequence[str], **_: object) -> Ended:
        raise NoCommand("scontrol show config: scontrol is not in /usr/bin")

    said = {a.about: a for a in examine(subject(tmp_path, SLURMD_NODENAME="n1"), none)}
    assert (said["scontrol"].level, said["agent"].level) == ("problem", "problem")
    assert "not in /usr/bin" in said["scontrol"].what and "configuration" in said


def test_a_policy_value_that_never_acts_is_named_by_its_line(tmp_path: Path) -> None:
    (tmp_path / "policy.d").mkdir()
    (tmp_path / "policy.d/site.toml").write_text('version = "1"\n[codes.gpu_lots]\nprolog = "drain"\n')
    config = parse_config(f'[agent]\npolicy_dir = "{tmp_path}/policy.d"\n', None, {})
    said = [a.what for a in examining.local_files(config) if a.about == "policy"]
    assert said == [f"{tmp_path}/policy.d/site.toml:2: no check gives the code 'gpu_lots'; did you mean 'gpu_lost'?"]


def test_a_broken_look_hides_no_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(_: object) -> Iterator[object]:
        raise ZeroDivisionError("here")

    monkeypatch.setattr(examining, "local_files", broken)
    said = [(a.about, a.what) for a in examine(subject(tmp_path), slurm_says)]
    assert ("doctor", "a look broke: ZeroDivisionError: here") in said
    assert "agent" in dict(said)


def test_a_marks_directory_that_may_not_be_read_is_no_advice(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    assert hooks.marks(tmp_path / "file") is None and hooks.mark_rules(None) == ()
