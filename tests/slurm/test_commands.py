"""A command ends in time and within bounds, whatever it does."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from pathlib import Path

import pytest

from slurm import errors, run
from slurm.commands import Commands
from slurm.run import run_command


@pytest.fixture
def env(tmp_path: Path) -> dict[str, str]:
    return {"PATH": f"{tmp_path}:/usr/bin:/bin"}


def _tool(folder: Path, body: str) -> str:
    tool = folder / "scontrol"
    tool.write_text(f"#!{sys.executable} -IS\nimport os, signal, sys, time\n{body}\n")
    tool.chmod(0o755)
    return "scontrol"


def test_returns_what_was_printed(tmp_path: Path, env: dict[str, str]) -> None:
    tool = _tool(tmp_path, "print(sys.argv[1]); print(dict(os.environ).keys(), file=sys.stderr); sys.exit(3)")
    ended = run_command([tool, "$(reboot) 'x'"], env=env, timeout=20, step="scontrol")
    assert (ended.code, ended.out) == (3, b"$(reboot) 'x'\n")
    assert b"PATH" in ended.err and b"HOME" not in ended.err


def test_a_command_that_hangs_is_ended_and_named(tmp_path: Path, env: dict[str, str]) -> None:
    """E02: the message names the step that timed out; it is no fault of a node."""
    _tool(tmp_path, f"open({str(tmp_path / 'pid')!r}, 'w').write(str(os.getpid())); time.sleep(60)")
    backend = Commands(timeout=1.0, path=env["PATH"])
    start = time.monotonic()
    with pytest.raises(errors.Timeout, match=r"scontrol ping did not end within 1 s") as caught:
        backend.ping()
    assert (caught.value.step, caught.value.seconds) == ("scontrol ping", 1.0)
    assert time.monotonic() - start < 20
    assert not Path(f"/proc/{(tmp_path / 'pid').read_text()}").exists()


def test_a_command_that_ignores_term_is_killed(tmp_path: Path, env: dict[str, str]) -> None:
    tool = _tool(
        tmp_path,
        "signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
        f"open({str(tmp_path / 'pid')!r}, 'w').write(str(os.getpid())); time.sleep(60)",
    )
    with pytest.raises(errors.Timeout):
        run_command([tool], env=env, timeout=1.0, step="scontrol")
    assert not Path(f"/proc/{(tmp_path / 'pid').read_text()}").exists()


def test_a_child_that_keeps_the_pipe_does_not_hold_us(tmp_path: Path, env: dict[str, str]) -> None:
    tool = _tool(tmp_path, "os.fork() or time.sleep(60)")
    start = time.monotonic()
    with pytest.raises(errors.Timeout):
        run_command([tool], env=env, timeout=1.0, step="scontrol")
    assert time.monotonic() - start < 20


def test_output_without_end_is_cut(tmp_path: Path, env: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    """E90: an answer is bounded."""
    monkeypatch.setattr(run, "MAX_OUTPUT", 100_000)
    tool = _tool(tmp_path, "while True: os.write(1, b'x' * 65536)")
    with pytest.raises(errors.BadAnswer, match="scontrol: output is longer than 100000 bytes"):
        run_command([tool], env=env, timeout=20, step="scontrol")


def test_a_missing_command_is_our_trouble(tmp_path: Path) -> None:
    """E107: scontrol missing from the path is said, not guessed around."""
    backend = Commands(path=str(tmp_path))
    with pytest.raises(errors.NoCommand, match=r"scontrol ping: scontrol is not in /"):
        backend.ping()


def test_a_command_that_cannot_start(tmp_path: Path) -> None:
    (tmp_path / "scontrol").write_bytes(b"\x7fELF broken")
    (tmp_path / "scontrol").chmod(0o755)
    with pytest.raises(errors.NoCommand, match="does not start"):
        run_command(["scontrol"], env={"PATH": str(tmp_path)}, timeout=5, step="scontrol")


DEAD = b'{"errors": [{"error": "Unspecified error", "errno": -1}], "nodes": []}'


@pytest.mark.parametrize(
    ("ping", "expected"),
    [
        (b"Slurmctld(primary) at vm is DOWN\n", errors.Unreachable),
        (b"Slurmctld(primary) at vm is UP\n", errors.SlurmError),
    ],
)
def test_an_unspecified_error_of_a_dead_slurmctld_is_named(ping: bytes, expected: type[errors.SlurmError]) -> None:
    """E02: sinfo of 22.05 ends with 0 and these words when no slurmctld answers; what is wrong must be named."""

    def ran(argv: Sequence[str], **_: object) -> run.Ended:
        if "--version" in argv or "-V" in argv:
            return run.Ended(0, b"slurm-wlm 22.05.8\n", b"")
        return run.Ended(0, ping if argv[1] == "ping" else DEAD, b"")

    with pytest.raises(errors.SlurmError) as caught:
        Commands(run=ran).nodes()
    assert type(caught.value) is expected
