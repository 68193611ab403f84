"""The configuration is taken only from a file that root alone could have written, and bad values leave the defaults."""

from __future__ import annotations

import os
import re

import pytest

from slurm.hook.build import hook_source
from tests.slurm.hook.agent import answer, says, serving
from tests.slurm.hook.rig import Hook

DEFAULTS = {
    "kind": "prolog",
    "conf": "compiled-in defaults",
    "socket": "/run/nodevet/agent.sock.hook",
    "marks": "/run/nodevet/marks",
    "spool": "/run/nodevet-jobs",
    "stop_file": "/etc/nodevet/STOP",
    "deadline_s": "8.000",
    "restart_retry_s": "1.500",
}


def effective(hook: Hook, node: str | None = "n1") -> tuple[dict[str, str], str]:
    """Return what ``--check`` prints before it asks the agent, and what it says on stderr."""
    values: dict[str, str] = {}
    process = hook.start("prolog", "--check", env={} if node is None else {"SLURMD_NODENAME": node})
    assert process.stdout is not None
    while "stopped" not in values:
        key, _, value = process.stdout.readline().decode().rstrip("\n").partition("=")
        assert key, "ended before it had shown everything"
        values[key] = value
    process.terminate()
    _, err = process.communicate(timeout=10)
    return values, err.decode()


def test_no_file(hook: Hook) -> None:
    hook.conf.unlink()
    values, err = effective(hook)
    assert values | DEFAULTS == values
    assert err == ""


def test_example_shows_the_defaults(hook: Hook) -> None:
    example = (hook_source() / "hook.conf").read_text()
    values, count = re.subn(r"(?m)^#(?=\w+=)", "", example)
    assert count == 6
    hook.conf.write_text(values)
    shown, err = effective(hook)
    assert shown | DEFAULTS | {"conf": str(hook.conf)} == shown
    assert err == ""


@pytest.mark.parametrize("mode", [0o620, 0o602, 0o666])
def test_file_writable_by_others(hook: Hook, mode: int) -> None:
    hook.conf.chmod(mode)
    values, err = effective(hook)
    assert values["socket"] == DEFAULTS["socket"]
    assert "writable by group or others, defaults are used" in err


def test_file_of_somebody_else(hook: Hook, root: None) -> None:
    os.chown(hook.conf, 65534, 65534)
    values, err = effective(hook)
    assert values["socket"] == DEFAULTS["socket"]
    assert "not owned by root, defaults are used" in err


def test_file_that_is_none(hook: Hook) -> None:
    hook.conf.unlink()
    os.mkfifo(hook.conf)
    values, err = effective(hook)
    assert values["socket"] == DEFAULTS["socket"]
    assert "not a regular file" in err


def test_file_too_large(hook: Hook) -> None:
    hook.configure(socket=str(hook.socket), pad="x" * 9000)
    values, err = effective(hook)
    assert values["socket"] == DEFAULTS["socket"]
    assert "over 8192 bytes" in err


def test_layout_of_a_line(hook: Hook) -> None:
    hook.conf.write_bytes(b"# deadline_s=3\r\n\n \t deadline_s \t=  2.25 \r\nsocket=/s/a=b c")
    values, err = effective(hook)
    assert (values["deadline_s"], values["socket"], err) == ("2.250", "/s/a=b c", "")


@pytest.mark.parametrize(
    ("line", "complaint"),
    [
        ("deadline=3", "deadline: unknown key in"),
        ("nonsense", "nonsense: unknown key in"),
        ("=3", ": unknown key in"),
        ("deadline_s=soon", "deadline_s: ignored, not a number of seconds"),
        ("deadline_s=", "deadline_s: ignored, not a number of seconds"),
        ("deadline_s=nan", "deadline_s: ignored, not a number of seconds"),
        ("deadline_s=3 s", "deadline_s: ignored, not a number of seconds"),
        ("socket=run/agent.sock", "socket: ignored, not an absolute path"),
        ("marks=", "marks: ignored, not an absolute path"),
        ("marks=/" + "x" * 300, "marks: ignored, not an absolute path of fewer than 256 bytes"),
    ],
)
def test_bad_line_is_named_and_ignored(hook: Hook, line: str, complaint: str) -> None:
    hook.conf.write_text(f"{line}\nrestart_retry_s=0\n")
    values, err = effective(hook)
    assert values | DEFAULTS | {"conf": str(hook.conf), "restart_retry_s": "0.000"} == values
    assert complaint in err


@pytest.mark.parametrize(
    ("given", "used"),
    [("0", "0.500"), ("-5", "0.500"), ("0.5", "0.500"), ("3600", "3600.000"), ("1e9", "3600.000"), ("inf", "3600.000")],
)
def test_deadline_is_clamped(hook: Hook, given: str, used: str) -> None:
    hook.configure(deadline_s=given)
    assert effective(hook)[0]["deadline_s"] == used


def test_node_name_in_every_path(hook: Hook) -> None:
    hook.configure(socket="/r/%n/%n.sock", marks="/r/%n", stop_file="/r/100%/%n%")
    values, _ = effective(hook, "gpu-01.lab")
    assert [values[key] for key in ("socket", "marks", "stop_file")] == [
        "/r/gpu-01.lab/gpu-01.lab.sock",
        "/r/gpu-01.lab",
        "/r/100%/gpu-01.lab%",
    ]


@pytest.mark.parametrize("node", [None, "", ".", "..", "a/b", "../../tmp/x", "a..b", "n 1", "n\n1", "x" * 129])
def test_hostile_node_name_never_becomes_a_path(hook: Hook, node: str | None) -> None:
    hook.configure(socket=f"{hook.base}/%n/agent.sock", marks=f"{hook.base}/%n")
    values, err = effective(hook, node)
    assert (values["socket"], values["marks"]) == ("", "")
    assert "socket: %n cannot be filled in" in err
    assert hook.run(env={} if node is None else {"SLURMD_NODENAME": node}).code == 0
    assert sorted(path.name for path in hook.base.iterdir()) == ["marks"]
    assert hook.marks() == []


def test_hostile_node_name_is_harmless_without_a_placeholder(hook: Hook) -> None:
    with serving(hook.socket, says(answer("1"))) as agent:
        assert hook.run(env={"SLURMD_NODENAME": "../x"}).code == 1
    assert agent.requests[0].environment() == {"SLURMD_NODENAME": "../x"}


def test_node_name_that_makes_the_path_too_long(hook: Hook) -> None:
    hook.configure(socket="/" + "x" * 150 + "/%n")
    values, err = effective(hook, "n" * 120)
    assert values["socket"] == ""
    assert "too long" in err


def test_socket_path_over_the_kernels_bound(hook: Hook) -> None:
    hook.configure(socket="/" + "x" * 120)
    assert (hook.run().code, hook.causes()) == (0, ["no_agent"])
