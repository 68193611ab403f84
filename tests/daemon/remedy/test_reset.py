"""A reset is asked of an executable that nobody but root could have written, and only where nobody holds the GPU."""

from __future__ import annotations

import os
import signal
import tempfile
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from checks import Host
from checks.site.program import Ended, run_to_end
from daemon.config import RemedySettings
from daemon.remedy.ledger import Ledger
from daemon.remedy.reset import _judged, reset
from daemon.remedy.script import run
from deploy.simcluster.host import SimHost
from deploy.simcluster.smi import install

GPU, INDEX = "0000:5d:00.0", 3
LIMIT = 30.0


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the compiled stand-in is kept."""
    return tmp_path_factory.mktemp("nvml")


@pytest.fixture
def sim(cache: Path) -> Iterator[SimHost]:
    """A simulated host below a path that others cannot write."""
    with tempfile.TemporaryDirectory(prefix="nv-smi-", dir="/tmp") as folder:
        yield SimHost(Path(folder) / "host", "n1", cache=cache).create()


def asked(sim: SimHost, *gpus: str, smi: str = "", limit: float = LIMIT) -> tuple[object, str]:
    """Outcome and words of a reset."""
    answer = reset(Host(root=sim.sysroot), nvidia_smi=smi or str(install(sim)), gpus=gpus, limit=limit)
    return answer["outcome"], str(answer["text"])


def persistence(sim: SimHost) -> set[str]:
    """Persistence mode of every GPU; 1 where nothing is said."""
    return {sim.nvml.read().get(f"gpu.{gpu}.persistence", "1") for gpu in range(8)}


@pytest.mark.parametrize("gpus", [(GPU,), ()], ids=["one", "all"])
def test_a_reset_cures_and_restores_persistence_mode(sim: SimHost, gpus: tuple[str, ...]) -> None:
    """E42: persistence mode blocked the reset, and was gone after it."""
    sim.inject("gpu_reset_required", gpu=INDEX)
    outcome, text = asked(sim, *gpus)
    assert (outcome, "persistence" in text) == ("done", False), text
    assert sim.faults() == [] and persistence(sim) == {"1"}


def test_e115_a_gpu_that_somebody_holds_is_busy_and_not_broken(sim: SimHost) -> None:
    """E115: the reset was refused, "In use by another client", and read as a failed one."""
    sim.inject("gpu_reset_required", gpu=INDEX)
    sim.inject("leftover_process", gpu=INDEX, pid=90210)
    outcome, text = asked(sim, GPU)
    assert (outcome, "In use by another client" in text) == ("busy", True), text
    assert len(sim.faults()) == 2 and persistence(sim) == {"1"}


def test_a_holder_that_proc_shows_is_named_and_nothing_is_started(sim: SimHost) -> None:
    minor = sim.board.minors[INDEX]
    folder = sim.sysroot / "proc/4711/fd"
    folder.mkdir(parents=True)
    (folder.parent / "comm").write_text("nv-hostengine\n")
    (folder / "7").symlink_to(f"/dev/nvidia{minor}")
    outcome, text = asked(sim, GPU, smi=str(install(sim)))
    assert (outcome, text) == ("busy", "GPU is held by nv-hostengine (4711)")
    (folder / "7").unlink()
    (folder / "7").symlink_to(f"/dev/nvidia{minor + 1}")
    assert asked(sim, GPU)[0] == "done"
    assert asked(sim)[0] == "busy"


def test_a_node_with_a_job_is_left_alone(sim: SimHost) -> None:
    folder = sim.sysroot / "proc/4712"
    folder.mkdir()
    (folder / "comm").write_text("slurmstepd\n")
    (folder / "cmdline").write_bytes(b"slurmstepd: [77.batch]\0")
    assert asked(sim, GPU) == ("refused", "job 77 is on this node")
    done = run(Host(root=sim.sysroot), directory="/nonexistent", name="mend", document="{}", limit=5.0)
    assert done["outcome"] == "refused" and "job 77" in str(done["text"])


def test_a_board_that_resets_all_at_once_says_so(sim: SimHost) -> None:
    sim.inject("reset_together")
    outcome, text = asked(sim, GPU)
    assert outcome == "failed" and "scope = all" in text
    assert asked(sim)[0] == "done"


def test_a_simulated_node_never_resets_the_machine_it_runs_on(sim: SimHost) -> None:
    outcome, text = asked(sim, GPU, smi=RemedySettings().nvidia_smi)
    assert outcome == "refused" and "simulated" in text


def test_an_executable_that_others_can_write_is_not_run(sim: SimHost) -> None:
    path = install(sim)
    path.chmod(0o777)
    answer = reset(Host(root=sim.sysroot), nvidia_smi=str(path), gpus=(GPU,), limit=LIMIT)
    assert answer["outcome"] == "refused" and "can be written by others" in str(answer["text"])


@pytest.mark.parametrize("gpu", ["0", "all", "-r", "0000:5d:00.0,0000:9b:00.0", "GPU; reboot", "../../x"])
def test_what_is_no_pci_id_reaches_no_command_line(sim: SimHost, gpu: str) -> None:
    outcome, text = asked(sim, gpu)
    assert outcome == "refused" and "is no PCI id" in text


def test_e36_a_reset_that_hangs_is_asked_to_end_and_never_killed(sim: SimHost, monkeypatch: pytest.MonkeyPatch) -> None:
    """E36: a client that was killed inside the driver froze its GPU."""
    monkeypatch.setattr(
        "daemon.remedy.reset.run_to_end", lambda argv, *, limit: run_to_end(argv, limit=limit, grace=0.5)
    )
    sim.inject("reset_hangs")
    answer = reset(Host(root=sim.sysroot), nvidia_smi=str(install(sim)), gpus=(GPU,), limit=3.0)
    pid = answer["hung"]
    assert isinstance(pid, int) and pid > 0
    try:
        assert answer["outcome"] == "hung" and "is not killed" in str(answer["text"])
        os.kill(pid, 0)
    finally:
        os.kill(pid, signal.SIGKILL)


def test_a_program_is_fed_and_its_flood_is_bounded(tmp_path: Path) -> None:
    path = tmp_path / "loud"
    path.write_text("#!/bin/sh\ncat\nyes | head -c 1000000\nexit 3\n")
    path.chmod(0o755)
    ended = run_to_end([str(path)], document=b"hello\n", limit=20.0)
    assert (ended.status, ended.output.startswith("hello\n"), len(ended.output)) == (3, True, 16 * 1024)


def test_a_program_that_is_late_is_asked_to_end(tmp_path: Path) -> None:
    path = tmp_path / "late"
    path.write_text("#!/bin/sh\ntrap 'echo asked; exit 7' TERM\nwhile :; do sleep 0.05; done\n")
    path.chmod(0o755)
    started = time.monotonic()
    ended = run_to_end([str(path)], limit=1.0)
    assert (ended.status, ended.why, "asked" in ended.output, ended.left) == (7, "slow", True, 0)
    assert time.monotonic() - started < 15


def test_a_site_executable_reads_one_document_and_its_status_tells(tmp_path: Path) -> None:
    (tmp_path / "proc").mkdir()
    host = Host(root=tmp_path)  # jobs of a cluster that another test runs meanwhile are none of ours
    with tempfile.TemporaryDirectory(prefix="nv-run-", dir="/tmp") as folder:
        path = Path(folder) / "mend"
        for status, outcome in ((0, "done"), (2, "busy"), (1, "failed"), (77, "failed")):
            path.write_text(f'#!/bin/sh\nread line\necho "got $line"\nexit {status}\n')
            path.chmod(0o755)
            done = run(host, directory=folder, name="mend", document='{"node": "n1"}\n', limit=10.0)
            assert (done["outcome"], f"ended with {status}: got" in str(done["text"])) == (outcome, True), done
        with suppress(OSError):
            path.unlink()
        assert run(host, directory=folder, name="mend", document="", limit=5.0)["outcome"] == "refused"
        assert run(host, directory=folder, name="../mend", document="", limit=5.0)["outcome"] == "refused"


def test_what_was_begun_and_not_ended_is_lost_to_the_next_agent() -> None:
    ledger, heir = Ledger(), Ledger()
    ledger.settle("a", "done", "reset in 2 s")
    ledger.settle("b", "running")
    ledger.hung = (12, 34)
    heir.recall(ledger.document)
    assert [(r.order, r.outcome) for r in heir.told] == [("a", "done"), ("b", "lost")]
    assert heir.knows("b") and heir.hung == (12, 34)
    heir.recall(b"{ garbage")
    assert heir.knows("a")


@pytest.mark.parametrize(
    ("said", "outcome"),
    [
        ("The following GPUs could not be reset:\n  GPU 00000000:3B:00.0: In use by another client\n", "busy"),
        (
            "GPU 00000000:3B:00.0 is currently in use by one or more other processes (e.g. Fabric Manager, CUDA "
            "application). Please first kill all processes using this GPU and all compute applications\n",
            "busy",
        ),
        ("Unable to reset this GPU because it's being used by some other process (e.g. CUDA application)\n", "busy"),
        ("Unable to reset GPU 00000000:3B:00.0: device is currently in use\n", "busy"),
        ("Resetting GPU 00000000:3B:00.0 is not supported.\n", "failed"),
        ("Unable to determine the device handle for GPU 0000:3B:00.0: Unknown Error\n", "failed"),
        ("GPU Reset couldn't run because GPU 00000000:3B:00.0 is the primary GPU.\n", "failed"),
        ("", "failed"),
    ],
)
def test_what_nvidia_smi_says_when_it_does_not_reset(said: str, outcome: str) -> None:
    """E115, E42: each driver's words for a GPU that somebody holds are "busy"; others are a failed reset."""
    assert _judged(Ended(255, said), 1.0, 60.0)[0] == outcome
