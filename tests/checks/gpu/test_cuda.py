"""cuInit is asked of the real loader by a process of its own, here of a stand-in that says what hardware would."""

from __future__ import annotations

import os
import shutil
import signal
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from checks import CHECKS, Host
from checks.gpu import cuda_child
from checks.gpu.cuda import gpu_cuda
from checks.runner import run_check
from deploy.simcluster.host import SimHost


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> SimHost:
    folder = tmp_path_factory.mktemp("cuda")
    return SimHost(folder / "n1", "n1").create()


@pytest.fixture
def sim(made: SimHost) -> SimHost:
    """A healthy node that has been up for an hour."""
    made.heal()
    (made.sysroot / "proc/uptime").write_text("3600.00 3600.00\n")
    return made


def children() -> set[str]:
    return {pid for path in Path("/proc/self/task").glob("*/children") for pid in path.read_text().split()}


def host(sim: SimHost) -> Host:
    return Host(root=sim.sysroot, nvml_library=sim.nvml_library, simulated=True)


def asked(sim: SimHost, **options: object) -> list[tuple[str, str]]:
    found = run_check(CHECKS["gpu_cuda"], host(sim), options).findings
    return [(f.code, f.status) for f in found]


def test_a_healthy_node_is_well_and_no_process_is_left(sim: SimHost) -> None:
    before = children()
    (found,) = gpu_cuda(host(sim), expected=8)
    assert (found.status, found.evidence["count"]) == ("ok", 8)
    assert children() == before


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (802, ("gpu_cuda_not_ready", "fail")),
        (803, ("gpu_cuda_mismatch", "fail")),
        (3, ("gpu_cuda_failed", "warn")),
        (100, ("gpu_cuda_failed", "warn")),
        (999, ("gpu_cuda_failed", "warn")),
        (804, ("gpu_cuda_failed", "warn")),
        (12345, ("gpu_cuda_failed", "warn")),
    ],
)
def test_an_error_is_judged_by_what_it_means(sim: SimHost, error: int, expected: tuple[str, str]) -> None:
    """E96, E111: 802 leads to the fabric manager; NVML looks well."""
    sim.inject("cuda_fails", error=error)
    (found,) = run_check(CHECKS["gpu_cuda"], host(sim), {}).findings
    assert (found.code, found.status) == expected
    assert found.evidence["error"] == error


def test_a_fabric_that_is_not_set_up_is_seen_by_cuda(sim: SimHost) -> None:
    """E111: the fabric manager is dead or still training: every rank ends with 802."""
    sim.inject("fabric_down")
    (found,) = gpu_cuda(host(sim))
    assert found.code == "gpu_cuda_not_ready"
    assert "fabric manager" in CHECKS["gpu_cuda"].codes[0].explain


@pytest.mark.parametrize(
    ("fault", "target", "expected"),
    [
        ("gpu_lost", {"gpu": 2}, [("gpu_cuda_fewer", "warn")]),
        ("driver_mismatch", {}, [("gpu_cuda_mismatch", "fail")]),
        ("throttled", {}, [("ok", "ok")]),
    ],
)
def test_what_follows_from_other_faults(
    sim: SimHost, fault: str, target: dict[str, int], expected: list[tuple[str, str]]
) -> None:
    sim.inject(fault, **target)
    assert asked(sim, expected=8) == expected


def test_a_call_that_takes_too_long_is_ended_and_says_nothing(sim: SimHost) -> None:
    """Rule 1: our own deadline is no fault of the node's."""
    sim.inject("cuda_hangs")
    before = children()
    assert asked(sim, patience=0.3) == [("gpu_cuda_unanswered", "unknown")]
    assert children() == before


def test_a_process_that_cannot_end_keeps_its_worker(sim: SimHost) -> None:
    """Rule 3: it is never killed, no second one is started; the lane that waits for it is judged from outside."""
    sim.inject("cuda_hangs", uninterruptible=1)
    told: list[object] = []
    library = str(sim.nvml_library.with_name("libcuda.so.1"))
    asking = threading.Thread(target=lambda: told.append(cuda_child.ask(library, 0.3)), daemon=True)
    asking.start()
    asking.join(2.0)
    assert asking.is_alive()
    sim.heal()
    asking.join(30.0)
    assert told
    assert str(told[0]).startswith("0.3 s are over")


def test_its_lane_is_judged_as_the_driver_when_it_does_not_come_back() -> None:
    from checks.hang import judge_hang

    found = judge_hang(
        CHECKS["gpu_cuda"].lane, observations=2, in_kernel=True, control_lane_answers=True, target="node", seconds=99.0
    )
    assert (found.code, found.status) == ("gpu_driver_hung", "fail")


@pytest.mark.parametrize(("content", "word"), [(b"", "too short"), (b"x" * 4096, "invalid ELF header")])
def test_a_library_that_does_not_load_is_told(sim: SimHost, content: bytes, word: str) -> None:
    """E51: dlopen says why."""
    library = sim.nvml_library.with_name("libcuda.so.1")
    library.write_bytes(content)
    (found,) = gpu_cuda(host(sim))
    sim.create()
    assert (found.code, found.status) == ("gpu_cuda_library", "warn")
    assert word in found.message


@pytest.mark.parametrize(
    ("text", "status", "expected"),
    [
        (b"", signal.SIGSEGV, "ended by signal 11"),
        (b"", 3 << 8, "ended with 3"),
        (b"0 8 9", 0, "ended with 0"),
        (b"zero eight", 0, "ended with 0"),
        (b"\xff\x00", 0, "ended with 0"),
        (b"not-loaded", 0, "ended with 0"),
    ],
)
def test_a_worker_that_fails_says_nothing_of_the_node(text: bytes, status: int, expected: str) -> None:
    meant = cuda_child._meaning(text, status, 0.1)
    assert isinstance(meant, str)
    assert expected in meant


def test_nothing_is_asked_beside_a_job_nor_right_after_boot(sim: SimHost) -> None:
    job = sim.sysroot / "sys/fs/cgroup/system.slice/slurmstepd.scope/job_17"
    job.mkdir(parents=True)
    sim.inject("cuda_fails")
    assert asked(sim) == [("not_applicable", "skipped")]
    assert asked(sim, beside_jobs=True) == [("gpu_cuda_not_ready", "fail")]
    (job / "cgroup.events").write_text("populated 0\nfrozen 0\n")
    assert asked(sim) == [("gpu_cuda_not_ready", "fail")], "an ended job may leave its control group behind"
    shutil.rmtree(job)
    assert asked(sim) == [("gpu_cuda_not_ready", "fail")]
    sim.reboot()
    assert asked(sim) == [("not_applicable", "skipped")]


def test_another_machines_tree_never_asks_our_own_driver(sim: SimHost) -> None:
    found = run_check(CHECKS["gpu_cuda"], Host(root=sim.sysroot)).findings
    assert [f.status for f in found] == ["skipped"]


def test_users_settings_do_not_reach_it(sim: SimHost, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A shell's CUDA_VISIBLE_DEVICES hides GPUs from `nodevet check` only; MPS must not be started for us."""
    seen = tmp_path / "seen"
    real: Callable[[str], str] = cuda_child._asked

    def spy(library: str) -> str:
        words = ("CUDA_VISIBLE_DEVICES", "CUDA_MPS_PIPE_DIRECTORY")
        seen.write_text(" ".join(f"{w}={os.environ.get(w)}" for w in words))
        return real(library)

    monkeypatch.setattr(cuda_child, "_asked", spy)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0")
    assert asked(sim, expected=8) == [("ok", "ok")]
    assert seen.read_text() == "CUDA_VISIBLE_DEVICES=None CUDA_MPS_PIPE_DIRECTORY=/dev/null/none"
