"""Xids are judged together: causes and victims, bursts, cancelling pairs, and whose jobs the errors came of."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.checks.log.gpu_log import Log
from tests.fakes import BDFS, Plant, pci_tree, planter

GPU, PEER = BDFS[3], BDFS[5]
SCOPE = "/sys/fs/cgroup/system.slice/slurmstepd.scope"


@pytest.fixture
def log(plant: Plant, tmp_path: Path) -> Log:
    return Log(plant, tmp_path / "kmsg")


def told(log: Log) -> list[tuple[str, str, str]]:
    return [(f.target, f.code, f.status) for f in log.found()]


@pytest.mark.parametrize("victim", [43, 45, 31])
@pytest.mark.parametrize("late", [False, True])
def test_what_dies_with_a_lost_gpu_is_its_victim(plant: Plant, tmp_path: Path, victim: int, late: bool) -> None:
    """Like E31: one lost GPU, and the programs on it end; also where the driver notices the loss last."""
    log = Log(plant, tmp_path / "kmsg", pci_tree(dead=[3]))
    for number in (victim, 79) if late else (79, victim):
        log.xid(number, "x", pid=77)
        log.seconds += 4.0
    assert sorted(told(log)) == sorted([(GPU, "gpu_lost", "fail"), (GPU, "ok", "ok")])
    assert [f.message for f in log.found() if f.code == "ok"] == [f"Xid {victim} is a victim of Xid 79"]


def test_links_to_a_lost_gpu_are_victims_on_its_peers(plant: Plant, tmp_path: Path) -> None:
    """Like E31: 74 on the peers, because the other end went away."""
    log = Log(plant, tmp_path / "kmsg", pci_tree(dead=[3]))
    log.xid(79, "GPU has fallen off the bus.")
    for peer in BDFS[4:7]:
        log.xid(74, "NVLink: fatal error detected on link 2(0x0, 0x0, 0x10000, 0x0)", gpu=peer)
    assert told(log) == [(GPU, "gpu_lost", "fail"), *((peer, "ok", "ok") for peer in BDFS[4:7])]


def test_a_link_error_by_itself_is_no_victim(log: Log) -> None:
    log.xid(74, "NVLink: fatal error detected on link 2")
    log.xid(74, "NVLink: fatal error detected on link 7", gpu=PEER)
    assert told(log) == [(GPU, "gpu_xid_warn", "warn"), (PEER, "gpu_xid_warn", "warn")]


def test_a_cause_long_ago_or_on_another_gpu_is_none(log: Log) -> None:
    log.xid(119, "Timeout")
    log.xid(43, "Ch 1", pid=5, gpu=PEER)
    log.seconds += 300.0
    log.xid(43, "Ch 1", pid=6)
    assert told(log) == [
        (GPU, "gpu_xid_reset", "fail"),
        (PEER, "gpu_xid_job", "warn"),
        (GPU, "gpu_xid_job", "warn"),
    ]


def test_an_nvlink_error_that_is_no_fault_is_no_cause(log: Log) -> None:
    log.xid(145, "RLW_RXPIPE Nonfatal XC0 i0 Link 13 (0x0409a0c2 0x00000008)")
    log.xid(45, "Ch 1", pid=6)
    assert told(log) == [(GPU, "gpu_xid_warn", "warn"), (GPU, "gpu_xid_job", "warn")]


@pytest.mark.parametrize(
    ("text", "code", "status"),
    [
        ("0x0 (None) to 0x1 (GPU Reset Required)", "gpu_reset_required", "fail"),
        ("0x0 (None) to 0x2 (Node Reboot Required)", "gpu_reboot_required", "fail"),
        ("0x0 (None) to 0x2 (OS Reboot)", "gpu_reboot_required", "fail"),
        ("0x0 (None) to 0x3 (Drain P2P)", "gpu_drain_p2p", "warn"),
        ("0x0 (None) to 0x4 (Drain and Reset)", "gpu_drain_and_reset", "fail"),
        ("0x0 (None) to 0x1 (Drain and Reset)", "gpu_reset_required", "fail"),
        ("0 (None) to 2 (Node Reboot Required)", "gpu_reboot_required", "fail"),
        ("0 to 1", "gpu_reset_required", "fail"),
        ("None to Node Reboot Required", "gpu_reboot_required", "fail"),
        ("0x0 (None) to 0x9 (Something New)", "gpu_reset_required", "fail"),
        ("(None) to (Something New)", "gpu_reset_required", "fail"),
        ("0x1 (GPU Reset Required) to 0x0 (GPU Reset Required)", "gpu_reset_required", "fail"),
    ],
)
def test_a_recovery_action_goes_by_number_then_words(log: Log, text: str, code: str, status: str) -> None:
    """E123, E33: the number, the words as a check; what is not known holds new work as a reset would."""
    log.xid(154, f"GPU recovery action changed from {text}")
    assert told(log) == [(GPU, code, status)]


@pytest.mark.parametrize(
    "text", ["0x1 (GPU Reset Required) to 0x0 (None)", "1 (GPU Reset Required) to 0 (None)", "2 to 0"]
)
def test_an_action_of_none_is_none_in_any_spelling(log: Log, text: str) -> None:
    """E123, E24: the GPU is well again, and no spelling of that holds new work."""
    log.xid(154, f"GPU recovery action changed from {text}")
    assert told(log) == []


def test_a_text_that_names_no_action_holds_new_work(log: Log) -> None:
    """E123."""
    log.xid(154, "GPU recovery action has other words now")
    assert told(log) == [(GPU, "gpu_reset_required", "fail")]


@pytest.mark.parametrize("number", [63, 94, 119, 120, 145])
def test_an_action_of_none_takes_back_what_was_said_of_the_gpu(log: Log, number: int) -> None:
    """E24, E33: of this GPU and of no other."""
    log.xid(number, "RLW_CTRL Fatal XC0 i0 Link 13 (0x0409a0c2)")
    log.xid(154, "GPU recovery action changed from 0x0 (None) to 0x1 (GPU Reset Required)")
    log.xid(119, "Timeout", gpu=PEER)
    assert len(told(log)) == 3
    log.xid(154, "GPU recovery action changed from 0x1 (GPU Reset Required) to 0x0 (None)")
    assert told(log) == [(PEER, "gpu_xid_reset", "fail")]


def test_one_number_takes_back_another(log: Log) -> None:
    log.xid(163, "PSHC disengaged")
    assert told(log) == [(GPU, "gpu_xid_warn", "warn")]
    log.xid(162, "PSHC re-engaged")
    assert [f.evidence["xid"] for f in log.found()] == [162]


def test_the_fatal_line_counts_among_many(log: Log) -> None:
    """E29, E30: a nonfatal line about another link neither hides it nor ends it."""
    log.xid(145, "RLW_CTRL Fatal XC0 i0 Link 13 (0x0409a0c2 0x00000040)")
    log.seconds += 30.0
    log.xid(145, "RLW_RXPIPE Nonfatal XC0 i0 Link 02 (0x0409a0c2 0x00000008)")
    log.xid(145, "RLW_CTRL Nonfatal XC0 i0 Link 02 (0x0409a0c2 0x00000008)")
    assert told(log) == [(GPU, "gpu_xid_nvlink", "fail")]


def jobs(log: Log, *numbers: int) -> None:
    """Those and no other jobs run on the node now."""
    scope = log.host.path(SCOPE)
    scope.mkdir(parents=True, exist_ok=True)
    for path in scope.glob("job_*"):
        path.rmdir()
    for number in numbers:
        (scope / f"job_{number}").mkdir()


def repeated(log: Log) -> list[str]:
    return [f.message for f in log.found() if f.code == "gpu_xid_repeated"]


def warp(log: Log, pid: int) -> None:
    log.xid(13, "Graphics SM Warp Exception on (GPC 3, TPC 1, SM 0)", pid=pid)
    log.found()
    log.seconds += 100.0
    log.clock += 100.0


def test_what_one_job_repeats_counts_once(log: Log) -> None:
    """E26: a script that starts its program anew is one job, however many processes it were."""
    jobs(log, 7)
    for pid in range(11, 31):
        warp(log, pid)
    assert repeated(log) == []


def test_different_jobs_on_one_part_are_a_warning(log: Log) -> None:
    """E26: also hours apart, and with the processes long gone."""
    for job in (7, 8, 9):
        jobs(log, job)
        warp(log, job)
        log.seconds += 3 * 3600.0
        log.clock += 3 * 3600.0
    (message,) = repeated(log)
    assert message == "Xid 13 from 3 different jobs on GPC 3, TPC 1, limit 3"
    log.seconds += 86400.0
    log.write("a line much later")
    assert repeated(log) == []


def test_jobs_that_cannot_be_told_apart_count_as_one(log: Log) -> None:
    """Rule 8: of two jobs that run, either may have done it each time."""
    jobs(log, 7, 8)
    for pid in (11, 12, 13):
        warp(log, pid)
    assert repeated(log) == []


def test_the_control_group_of_the_process_tells(log: Log) -> None:
    jobs(log, 1, 2, 3)
    for pid, job in ((11, 1), (12, 2), (13, 3)):
        path = log.host.path(f"/proc/{pid}/cgroup")
        path.parent.mkdir(parents=True)
        path.write_text(f"0::/system.slice/slurmstepd.scope/job_{job}/step_0/user/task_0\n")
        warp(log, pid)
    assert len(repeated(log)) == 1


def test_what_is_nobodys_any_more_does_not_count(log: Log) -> None:
    jobs(log)
    for pid in (11, 12, 13, 14):
        warp(log, pid)
    assert repeated(log) == []


def test_a_burst_of_many_processes_is_one(log: Log) -> None:
    """E26: eight ranks of one job say it within one second."""
    for pid in range(11, 19):
        log.xid(31, "MMU Fault", pid=pid)
    assert repeated(log) == []


def test_what_was_counted_stays_over_a_restart_of_the_agent(log: Log, tmp_path: Path) -> None:
    """Like E78: of the same boot only, and what the ring still holds is not counted again."""
    for job in (7, 8):
        jobs(log, job)
        warp(log, job)
    kept = log.host.keeps["sightings"]
    for boot, expected in (("boot-1", 1), ("boot-2", 0)):
        after = Log(planter(tmp_path / boot), tmp_path / f"kmsg-{boot}", remembered=kept, boot=boot)
        after.seconds, after.sequence = log.seconds, log.sequence
        jobs(after, 9)
        warp(after, 9)
        assert len(repeated(after)) == expected


@pytest.mark.parametrize("garbage", [None, 3, {}, {"boot": "boot-1"}, {"boot": "boot-1", "rows": [[1]]}])
def test_garbage_in_the_memory_is_none(plant: Plant, tmp_path: Path, garbage: object) -> None:
    log = Log(plant, tmp_path / "kmsg", remembered=garbage)
    jobs(log, 9)
    warp(log, 9)
    assert repeated(log) == []


def test_victims_do_not_count(log: Log) -> None:
    for job in (7, 8, 9):
        jobs(log, job)
        log.xid(119, "Timeout")
        log.xid(43, "Ch 1", pid=job)
        log.found()
        log.seconds += 2000.0
        log.clock += 2000.0
    assert repeated(log) == []


def test_a_wrapped_message_is_put_together(plant: Plant, tmp_path: Path) -> None:
    """Like E29: as records of their own, where the kernel or a logger splits at the line feeds."""
    log = Log(plant, tmp_path / "kmsg", pci_tree(dead=[3]))
    log.write(
        f"NVRM: The NVIDIA GPU {GPU}",
        "NVRM: (PCI ID: 10de:2330) installed in this system has",
        "NVRM: fallen off the bus and is not responding to commands.",
    )
    assert told(log) == [(GPU, "gpu_lost", "fail")]


def test_a_line_split_behind_the_pci_id_is_put_together(log: Log) -> None:
    log.write(f"NVRM: Xid (PCI:{GPU[:-2]}):", "NVRM: 119, pid=5, name=x, Timeout after 6s")
    assert told(log) == [(GPU, "gpu_xid_reset", "fail")]


def test_the_rest_of_a_message_is_the_drivers_alone(log: Log) -> None:
    """Rule 8: a process name in another line of the kernel's is no rest."""
    log.write(f"NVRM: Xid (PCI:{GPU[:-2]}):", "119, x[1234]: segfault at 0 ip 0")
    log.write(f"NVRM: The NVIDIA GPU {GPU}", "fallen off the bus[12]: segfault at 0 ip 0")
    assert told(log) == []
