"""`nodevet hook test` finds what would cost a node before Slurm does."""

from __future__ import annotations

import os
import shutil
import socket
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from daemon.cli.hook_proof import Proof, prove
from tests.daemon.cli.command import document, nodevet, write_config

needs_gcc = pytest.mark.skipif(shutil.which("gcc") is None, reason="gcc is not installed")


def _results(proofs: list[Proof], word: str) -> list[str]:
    return [p.result for p in proofs if word in p.what]


@pytest.mark.parametrize(
    ("line", "result", "words"),
    [
        ("Prolog={dir}/nodevet-prolog", "ok", "nodevet-prolog"),
        ("prolog = {dir}/nodevet-prolog # ours", "ok", "nodevet-prolog"),
        ("Prolog={dir}/nodevet-prolog --verbose", "wrong", "has arguments"),
        ("Prolog=/etc/slurm/prolog.sh", "wrong", "does not run nodevet"),
        ("# Prolog={dir}/nodevet-prolog", "wrong", "not set"),
        ("Prolog=/other/nodevet-prolog", "note", "not the"),
        ("PrologFlags=Alloc", "wrong", "not set"),
    ],
)
def test_reads_the_lines_of_slurm_conf(tmp_path: Path, line: str, result: str, words: str) -> None:
    conf = tmp_path / "slurm.conf"
    conf.write_text("ClusterName=x\n" + line.format(dir=tmp_path) + "\n")
    proof = next(p for p in prove(tmp_path, conf, "gpu1") if p.what == f"{conf} prolog")
    assert proof.result == result and words in proof.seen


def test_a_slurm_conf_that_was_named_must_be_there(tmp_path: Path) -> None:
    assert _results(prove(tmp_path, tmp_path / "none", "gpu1"), "none") == ["note"]
    assert _results(prove(tmp_path, tmp_path / "none", "gpu1", required=True), "none") == ["wrong"]


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Hooks built by the command itself, with a hook.conf that names a socket of this test."""
    place = tmp_path_factory.mktemp("hook")
    conf = place / "hook.conf"
    conf.write_text(f"socket={place}/s\nmarks={place}/marks\ndeadline_s=2\nrestart_retry_s=0\n")
    conf.chmod(0o644)
    done = nodevet("hook", "install", str(place / "bin"), "--conf", str(conf))
    assert done.returncode == 0, done.stderr
    assert f"Prolog={place}/bin/nodevet-prolog" in done.stdout
    yield place


@needs_gcc
def test_without_an_agent_the_way_is_wrong_but_the_hook_exits_0(installed: Path) -> None:
    proofs = prove(installed / "bin", installed / "slurm.conf", "gpu1")
    assert [p.result for p in proofs if p.what.endswith("nodevet-prolog")] == ["ok"]
    check = next(p for p in proofs if p.what.endswith("--check"))
    assert check.result == "wrong" and "agent=no_agent" in check.seen and f"socket={installed}/s" in check.seen
    assert proofs[-1].what.endswith("nodevet-health") and proofs[-1].result == "ok"


@needs_gcc
def test_with_an_answering_agent_all_is_well(installed: Path, tmp_path: Path) -> None:
    conf = tmp_path / "slurm.conf"
    place = installed / "bin"
    conf.write_text(
        f"Prolog={place}/nodevet-prolog\nEpilog={place}/nodevet-epilog\nHealthCheckProgram={place}/nodevet-health\n"
    )
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(installed / "s"))
        listener.listen(8)
        thread = threading.Thread(target=_answer, args=(listener, 2))
        thread.start()
        try:
            config = write_config(tmp_path / "nodevet.toml", 'node = "gpu1"\n')
            done = nodevet("hook", "test", "--dir", str(place), "--slurm-conf", str(conf), "--json", config=config)
        finally:
            listener.shutdown(socket.SHUT_RDWR)
            thread.join(30)
            os.unlink(installed / "s")
    proofs = document(done)
    assert done.returncode == 0, proofs
    assert {p["result"] for p in proofs} == {"ok"} and len(proofs) == 16


def _answer(listener: socket.socket, times: int) -> None:
    """Speak for an agent: whatever is asked, admit."""
    for _ in range(times):
        try:
            peer, _ = listener.accept()
        except OSError:
            return
        with peer:
            peer.recv(65536)
            peer.sendall(b"HTTP/1.1 200 OK\r\nNodevet-Exit: 0\r\nContent-Length: 3\r\nConnection: close\r\n\r\nok\n")


@needs_gcc
@pytest.mark.parametrize(("mode", "words"), [(0o777, "writable by others"), (0o644, "not executable")])
def test_a_program_that_others_could_replace_is_wrong(installed: Path, tmp_path: Path, mode: int, words: str) -> None:
    shutil.copytree(installed / "bin", tmp_path / "bin")
    (tmp_path / "bin/nodevet-prolog").chmod(mode)
    proofs = prove(tmp_path / "bin", tmp_path / "none", "gpu1")
    assert proofs[0].result == "wrong" and words in proofs[0].seen
    assert not _results(proofs, "--check"), "a program that is not trusted must not be run"


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may install where others may not write")
@needs_gcc
def test_installing_where_one_may_not_is_refused(tmp_path: Path) -> None:
    done = nodevet("hook", "install", "/proc/nodevet")
    assert done.returncode in (1, 77) and "Traceback" not in done.stderr


@needs_gcc
@pytest.mark.skipif(os.geteuid() != 0, reason="the hook checks whom hook.conf belongs to")
def test_a_hook_conf_that_is_not_taken_is_wrong(installed: Path) -> None:
    (installed / "hook.conf").chmod(0o666)
    try:
        check = next(p for p in prove(installed / "bin", installed / "none", "gpu1") if p.what.endswith("--check"))
    finally:
        (installed / "hook.conf").chmod(0o644)
    assert check.result == "wrong" and "defaults are used" in check.seen


def test_included_files_are_mentioned(tmp_path: Path) -> None:
    (tmp_path / "slurm.conf").write_text("include /etc/slurm/more.conf\n")
    assert _results(prove(tmp_path, tmp_path / "slurm.conf", "gpu1"), "slurm.conf include") == ["note"]
