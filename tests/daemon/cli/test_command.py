"""The one command: exit codes, hints for what is not installed, and errors without tracebacks."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from unittest.mock import Mock

import click
import pytest

from daemon.cli import asking
from daemon.cli import main as command
from daemon.cli.output import NotAllowed, Refused, Undecided, Unreachable, print_json
from daemon.cli.verbs import LOCAL, register
from tests.daemon.cli.command import ROOT, document, nodevet, write_config


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["chekc"], 64, "did you mean 'check'"),
        (["check", "--cots", "deep"], 64, "--cost"),
        (["check", "no_such_check"], 64, "no check 'no_such_check'"),
        (["check", "--gpus", "a"], 64, "device minors"),
        (["explain", "gpu_lots"], 1, "did you mean 'gpu_lost'"),
        (["profile", "show", "hgx-h10"], 1, "did you mean 'hgx-h100'"),
        (["policy", "show", "gpu_lots"], 1, "did you mean 'gpu_lost'"),
        (["policy", "show", "clock_off"], 1, "no rule of its own: nodevet explain clock_off"),
        (["status"], 69, "agent.sock"),
        (["completion", "tcsh"], 64, "bash"),
    ],
)
def test_errors_are_one_line_with_the_agreed_code(tmp_path: Path, arguments: list[str], code: int, words: str) -> None:
    done = nodevet(*arguments, config=write_config(tmp_path / "nodevet.toml"))
    assert (done.returncode, done.stdout) == (code, "")
    assert words in done.stderr and "Traceback" not in done.stderr


def test_the_error_classes_carry_the_codes_of_the_command_line() -> None:
    assert [e("x").exit_code for e in (Refused, Undecided, Unreachable, NotAllowed)] == [1, 3, 69, 77]


@pytest.mark.parametrize("verb", sorted(LOCAL))
def test_every_verb_has_help_with_an_example(verb: str) -> None:
    group = command.Verbs("nodevet")
    register(group)
    found = group.get_command(click.Context(group), verb)
    assert found is not None
    leaves = found.commands.values() if isinstance(found, click.Group) else [found]
    assert all(
        "Example" in (leaf.help or "") and f"nodevet {verb}" in (leaf.help or "") for leaf in leaves if verb != "agent"
    )


def test_a_part_that_does_not_import_is_a_hint_and_breaks_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken() -> None:
        raise ModuleNotFoundError("No module named 'fastapi'", name="fastapi")

    def wrong() -> None:
        raise RuntimeError("cannot work here")

    monkeypatch.setattr(command, "_parts", lambda: {"api": broken, "simcluster": wrong})
    group = command.Verbs("nodevet")
    register(group)
    context = click.Context(group)
    assert "check" in group.list_commands(context)
    assert [h.partition("available: ")[2] for h in group.hints] == [
        "fastapi is not installed",
        "RuntimeError: cannot work here",
    ]
    with pytest.raises(click.UsageError, match="fastapi is not installed"):
        group.resolve_command(context, ["server"])


def test_verbs_are_found_without_an_installed_distribution() -> None:
    done = nodevet("--help")
    assert done.returncode == 0
    assert all(f"  {verb} " in done.stdout for verb in LOCAL)


@pytest.mark.parametrize(("shell", "words"), [("bash", "complete"), ("zsh", "#compdef nodevet"), ("fish", "nodevet")])
def test_completion_scripts(shell: str, words: str) -> None:
    done = nodevet("completion", shell)
    assert done.returncode == 0 and words in done.stdout and "_NODEVET_COMPLETE" in done.stdout


def test_completion_knows_the_verbs() -> None:
    env = {"_NODEVET_COMPLETE": "bash_complete", "COMP_WORDS": "nodevet expl", "COMP_CWORD": "1"}
    assert nodevet(config="", env=env).stdout.split() == ["plain,explain"]


def test_control_c_ends_without_a_traceback(tmp_path: Path) -> None:
    root = tmp_path / "tree"
    (root / "sys/bus/pci/devices/0000:00:00.0").mkdir(parents=True)
    config = write_config(tmp_path / "nodevet.toml")
    argv = [sys.executable, "-m", "daemon", "--config", str(config), "check", "--sysroot", str(root)]
    process = subprocess.Popen(argv, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    end = time.monotonic() + 20
    while not (children := Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()):
        assert time.monotonic() < end, "no zygote was started"
        time.sleep(0.02)
    # Whoever makes the lanes stands still, so the command waits.
    os.kill(int(children[0]), signal.SIGSTOP)
    time.sleep(0.3)
    process.send_signal(signal.SIGINT)
    os.kill(int(children[0]), signal.SIGCONT)
    _, errors = process.communicate(timeout=30)
    assert process.returncode == 130 and "Traceback" not in errors


def test_control_c_ends_the_wait_although_a_cancellation_got_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    """asyncio.wait_for of Python 3.10 and 3.11 drops the one that comes in the moment of its answer."""
    monkeypatch.setattr(asking, "CLOSING", 0.1)

    async def deaf() -> asking.Answer:
        asyncio.get_running_loop().call_soon(os.kill, os.getpid(), signal.SIGINT)
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.sleep(60)
        await asyncio.sleep(60)
        raise AssertionError("nobody waits so long")

    with pytest.raises(click.Abort):
        asyncio.run(asking._unless_interrupted(deaf()))


def test_config_show_names_the_origin_of_each_value(tmp_path: Path) -> None:
    path = write_config(
        tmp_path / "nodevet.toml", 'node = "gpu1"\nanswer_budget = 60\n[checks.gpu_count]\nexpected = 8\n'
    )
    done = nodevet("config", "show", "--json", config=path, env={"NODEVET_CENTRAL_URL": "http://127.0.0.1:1"})
    shown = document(done)
    assert shown["agent.node"] == {"value": "gpu1", "origin": str(path)}
    assert shown["agent.group"] == {"value": "nodevet", "origin": "default"}
    assert shown["central.url"] == {"value": "http://127.0.0.1:1", "origin": "NODEVET_CENTRAL_URL"}
    assert shown["agent.answer_budget"] == {"value": 7.0, "origin": f"{path}, 60 clamped to 7"}
    assert shown["checks.gpu_count.expected"] == {"value": 8, "origin": str(path)}


def test_config_check_names_file_key_and_the_nearest_name(tmp_path: Path) -> None:
    path = write_config(tmp_path / "nodevet.toml", "sokket = 1\n")
    done = nodevet("config", "check", str(path), config="")
    assert done.returncode == 1
    assert f"{path}: [agent] has no setting 'sokket'; did you mean 'socket'?" in done.stderr


def test_policy_validate_knows_the_codes(tmp_path: Path) -> None:
    good, bad = tmp_path / "good.toml", tmp_path / "bad.toml"
    good.write_text('version = "site"\n[codes.gpu_lost]\nprolog = "admit"\n')
    bad.write_text('version = "site"\n[codes.gpu_lots]\nprolog = "admit"\n')
    config = write_config(tmp_path / "nodevet.toml")
    assert nodevet("policy", "validate", str(good), config=config).returncode == 0
    done = nodevet("policy", "validate", str(bad), config=config)
    assert done.returncode == 1 and "did you mean 'gpu_lost'" in done.stderr


@pytest.mark.parametrize("name", ["reports_lost", "lane_busy", "mount_hung"])
def test_explain_knows_what_is_said_about_ourselves_too(name: str, tmp_path: Path) -> None:
    shown = nodevet("explain", name, config=write_config(tmp_path / "nodevet.toml"))
    assert shown.returncode == 0, shown.stderr
    assert "Do:" in shown.stdout or "says nothing about the node" in shown.stdout


def test_explain_shows_the_rule_in_force_with_its_origin(tmp_path: Path) -> None:
    (tmp_path / "policy.d").mkdir()
    (tmp_path / "policy.d/site.toml").write_text('version = "site"\n[codes.gpu_lost]\nprolog = "admit"\n')
    config = write_config(tmp_path / "nodevet.toml", f'policy_dir = "{tmp_path}/policy.d"\n')
    shown = document(nodevet("explain", "gpu_lost", "--json", config=config))
    assert shown["policy"]["prolog"] == {"value": "admit", "origin": f"{tmp_path}/policy.d/site.toml"}
    assert shown["policy"]["interval"]["value"] == "drain" and "gpu_health" in shown["checks"]


def test_a_rule_for_a_code_of_the_site_or_of_the_agent_is_proved(tmp_path: Path) -> None:
    path = tmp_path / "p.toml"
    path.write_text('version = "1"\n[codes.site_raid_lost]\nconfirm = 2\n[codes.state_dir_failed]\nconfirm = 2\n')
    config = write_config(tmp_path / "nodevet.toml")
    done = nodevet("policy", "validate", str(path), config=config)
    assert (done.returncode, done.stderr) == (0, "")
    gone = nodevet("policy", "validate", "/no/such", config=config)
    assert (gone.returncode, gone.stderr) == (1, "Error: /no/such: No such file or directory\n")


@pytest.mark.parametrize("evil", ["\x1b[2J", "\x9b2J", "\x7f", "\u202e", "\u2028"])
def test_nothing_that_others_said_is_obeyed_by_the_terminal(
    evil: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """E.g. the name of a file in a tree, or what a service answers; JSON goes on to mean what it meant."""
    print_json({"text": f"a{evil}b"})
    out = capsys.readouterr().out
    assert evil not in out and json.loads(out) == {"text": f"a{evil}b"}
    monkeypatch.setattr(command.cli, "main", Mock(side_effect=Refused(f"node says a{evil}b\nsecond line")))
    assert command.run(["status"]) == 1
    told = capsys.readouterr().err
    assert evil not in told and told.startswith("Error: node says a") and told.endswith("b\nsecond line\n")
