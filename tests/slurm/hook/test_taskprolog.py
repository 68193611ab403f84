"""The line for the user comes within a second, as the user, and whatever happens the task starts."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from tests.slurm.hook.agent import answer, drips, says, serving, silent
from tests.slurm.hook.rig import JOB, Hook

LINE = b"node n1 runs with a known fault (ib_port_slow)\n"
TASK = JOB | {"SLURM_LOCALID": "0", "SLURM_STEP_ID": "0", "SLURM_SECRET_OF_THE_USER": "x"}


@pytest.fixture(autouse=True)
def deadline(hook: Hook) -> None:
    """A site's long deadline does not hold up a user's task."""
    hook.configure(deadline_s="60", restart_retry_s="60")


def nothing(hook: Hook, **env: str) -> None:
    """The task starts, and neither user nor agent notices anything."""
    result = hook.run("taskprolog", env=TASK | env)
    assert (result.code, result.out, result.err, hook.causes()) == (0, b"", "", [])
    assert result.seconds < 5


@pytest.mark.parametrize("exit_code", ["0", "1"])
def test_the_agents_line_is_printed_for_the_user(hook: Hook, exit_code: str) -> None:
    with serving(hook.socket, says(answer(exit_code, LINE))) as agent:
        result = hook.run("taskprolog", env=TASK)
    assert (result.code, result.out, result.err) == (0, b"print " + LINE, "")
    assert agent.requests[0].line == "POST /v1/taskprolog HTTP/1.1"
    assert set(agent.requests[0].environment()) <= set(JOB), "more than the job's identity was told"


def test_an_empty_line_prints_nothing(hook: Hook) -> None:
    with serving(hook.socket, says(answer("0", b"\n"))):
        nothing(hook)


def test_a_line_cannot_set_a_variable_of_the_task(hook: Hook) -> None:
    """Slurm would take a line that begins with `export` for one."""
    with serving(hook.socket, says(answer("0", b"x\nexport LD_PRELOAD=/tmp/x\n"))):
        result = hook.run("taskprolog", env=TASK)
    assert result.out == b"print x export LD_PRELOAD=/tmp/x\n"


def test_it_asks_at_the_door_for_everybody(hook: Hook) -> None:
    hook.configure(socket=f"{hook.socket}.hook")
    with serving(hook.socket, says(answer("0", LINE))):
        assert hook.run("taskprolog", env=TASK).out == b"print " + LINE


def test_no_agent_no_word(hook: Hook) -> None:
    nothing(hook)


@pytest.mark.parametrize("behave", [silent, drips(answer("0", LINE), 0.2), says(b"garbage"), says(b"")])
def test_an_agent_that_does_not_answer_well(hook: Hook, behave: object) -> None:
    with serving(hook.socket, behave, behave):  # type: ignore[arg-type]
        nothing(hook)


def test_only_the_first_task_of_a_node_asks(hook: Hook) -> None:
    with serving(hook.socket, says(answer("0", LINE))) as agent:
        nothing(hook, SLURM_LOCALID="7")
    assert agent.requests == []


def test_the_stop_file_is_silence(hook: Hook) -> None:
    hook.stop_file.write_text("")
    with serving(hook.socket, says(answer("0", LINE))):
        nothing(hook)


def test_a_broken_hook_conf_is_not_the_users_news(hook: Hook) -> None:
    hook.configure(nonsense="1", deadline_s="x")
    nothing(hook)


def test_a_user_who_may_read_nothing_of_ours(hook: Hook, root: None) -> None:
    hook.bin.parent.chmod(0o755)
    hook.conf.chmod(0o600)
    hook.base.chmod(0o700)
    done = subprocess.run(
        [str(hook.bin / "nodevet-taskprolog")],
        env=TASK,
        user=65534,
        group=65534,
        extra_groups=[],
        capture_output=True,
        timeout=10,
        check=False,
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")
    assert Path(hook.marks_dir).exists() and os.listdir(hook.marks_dir) == []
