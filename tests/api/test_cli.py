"""The server's verbs say what cannot be done, with the agreed exit code."""

from __future__ import annotations

from pathlib import Path

import pytest

from daemon.cli.main import run


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (["server", "--port", "0"], 64, "cluster has no name"),
        (["server", "--cluster", "c", "--host", "0.0.0.0"], 64, "reachable from other machines"),
        (["server", "--cluster", "c", "--port", "99999"], 64, "port"),
        (["server", "--cluster", "c", "--config", "/absent.toml"], 64, "no such file"),
        (["token", "create", "--role", "agent"], 64, "needs cluster and node"),
        (["token", "create", "--role", "agent", "--cluster", "c", "--node", "a b"], 64, "not letters, digits"),
        (["token", "create", "--role", "viewer", "--expires", "soon"], 64, "such as 90d"),
        (["token", "create", "--role", "viewer", "--out", "/absent/x"], 64, "No such file"),
        (["token", "create", "--role", "king"], 64, "king"),
        (["token", "revoke", "nvt_00000000"], 1, "run nodevet db upgrade"),
        (["token", "list"], 1, "run nodevet db upgrade"),
        (["db", "check"], 1, "run nodevet db upgrade"),
    ],
)
def test_what_cannot_be_done_is_said_with_its_code(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], code: int, said: str
) -> None:
    returned = run([*arguments, "--db", f"sqlite:///{tmp_path}/x.db"])
    assert (returned, said in capsys.readouterr().err) == (code, True)


def test_the_database_is_upgraded_by_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    url = f"sqlite:///{tmp_path}/x.db"
    assert run(["db", "upgrade", "--db", url]) == 0
    assert "upgraded to revision" in capsys.readouterr().out
    assert run(["db", "upgrade", "--db", url]) == 0
    assert "is at revision" in capsys.readouterr().out
    assert run(["db", "check", "--db", url]) == 0


@pytest.mark.parametrize("asking", [["db", "check"], ["token", "list"], ["token", "revoke", "7"]])
def test_to_look_makes_nothing(asking: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run([*asking, "--db", f"sqlite:///{tmp_path}/sub/x.db"]) == 1
    assert "does not exist" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_a_database_that_cannot_be_made_is_said_so(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "file").write_text("")
    assert run(["token", "create", "--role", "viewer", "--db", f"sqlite:///{tmp_path}/file/x.db"]) == 1
    assert "database" in capsys.readouterr().err


@pytest.mark.parametrize("url", ["nonsense", "oracle://x/y", "mysql+absent://x"])
def test_a_database_of_no_kind_we_know_is_said_so(url: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["db", "check", "--db", url]) == 1
    assert "database" in capsys.readouterr().err
