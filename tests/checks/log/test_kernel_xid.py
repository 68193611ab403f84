"""A kernel Xid is judged by the table, by what is true now and by whether we saw it happen."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from checks import CHECKS, Host
from checks.log import xid_events as module
from checks.log.kernel_xid import kernel_xid
from checks.log.xid import Xid
from checks.runner import run_check
from tests.checks.log.gpu_log import GPU, UPTIME, Log
from tests.fakes import BDFS, Plant, pci_tree


@pytest.fixture
def log(plant: Plant, tmp_path: Path) -> Log:
    return Log(plant, tmp_path / "kmsg")


@pytest.mark.parametrize(
    ("number", "text", "expected"),
    [
        (13, "Graphics Exception", ("gpu_xid_job", "warn", "job")),
        (31, "MMU Fault", ("gpu_xid_job", "warn", "job")),
        (43, "Ch 00000010", ("gpu_xid_job", "warn", "job")),
        (45, "Ch 00000010", ("gpu_xid_job", "warn", "job")),
        (68, "NVDEC0", ("gpu_xid_job", "warn", "job")),
        (48, "DBE", ("gpu_xid_warn", "warn", "node")),
        (63, "Row Remapper: new row marked", ("gpu_xid_warn", "warn", "node")),
        (64, "Row Remapper: Error", ("gpu_xid_replace", "fail", "node")),
        (94, "Contained: SM (0x1)", ("gpu_xid_warn", "warn", "node")),
        (95, "Uncontained", ("gpu_xid_reset", "fail", "node")),
        (119, "Timeout after 6s of waiting for RPC response", ("gpu_xid_reset", "fail", "node")),
        (120, "GSP error", ("gpu_xid_reset", "fail", "node")),
        (140, "ECC", ("gpu_xid_reset", "fail", "node")),
        (78, "vGPU start", ("gpu_xid_warn", "warn", "config")),
        (136, "Link Training Failed", ("gpu_xid_reset", "fail", "node")),
        (143, "GPU Initialization Error", ("gpu_xid_reset", "fail", "node")),
        (156, "Resource Retirement", ("gpu_xid_warn", "warn", "node")),
        (158, "GPU Fatal Timeout", ("gpu_xid_reset", "fail", "node")),
        (145, "RLW_RXPIPE Nonfatal XC0 i0 Link 13 (0x0409a0c2)", ("gpu_xid_warn", "warn", "node")),
        (145, "RLW_CTRL Fatal XC0 i0 Link 13 (0x0409a0c2)", ("gpu_xid_nvlink", "fail", "node")),
        (999, "surprise", ("gpu_xid_warn", "warn", "node")),
    ],
)
def test_judges_by_the_table(log: Log, number: int, text: str, expected: tuple[str, str, str]) -> None:
    """E24, E25, E26, E28, E30, E39, E40: program errors never blame the node, 63 warns, 64 is for replacement."""
    log.xid(number, text)
    (found,) = log.found()
    assert (found.code, found.status, found.blame) == expected
    assert (found.target, found.evidence["xid"]) == (GPU, number)


def test_a_link_taken_down_on_purpose_is_no_fault(log: Log) -> None:
    """Xid 155 also comes of a link that sleeps or whose other end is reset: the state of the links decides."""
    log.xid(155, "NVLINK: SW Defined Error")
    (found,) = log.found()
    assert (found.code, found.status) == ("gpu_xid_warn", "warn")
    assert found.evidence["judge"] == "gpu_nvlink"


def test_a_lost_gpu_is_confirmed_on_the_bus(plant: Plant, tmp_path: Path) -> None:
    """E102: log and bus agree, and the code is the same as by NVML."""
    log = Log(plant, tmp_path / "kmsg", pci_tree(dead=[3]))
    log.xid(79, "GPU has fallen off the bus.")
    assert log.brief() == [("gpu_lost", "fail", "node")]


def test_a_lost_gpu_that_answers_is_only_a_warning(log: Log) -> None:
    """E102: Xid 79 in the log and the GPU alive on the bus."""
    log.xid(79, "GPU has fallen off the bus.")
    assert log.brief() == [("gpu_xid_warn", "warn", "node")]


def test_old_evidence_is_history(plant: Plant, tmp_path: Path) -> None:
    """E41, E103, E104: what was logged before we listened never drains by itself."""
    path = tmp_path / "kmsg"
    text = f"4,7,1000000,-;NVRM: Xid (PCI:{GPU[:-2]}): 119, pid=1, name=x, Timeout\n"
    path.write_text(text)
    host = plant(pci_tree() | UPTIME, kmsg=path)
    for _ in range(2):
        (found,) = kernel_xid(host)
        assert (found.status, "history" in found.message) == ("ok", True)


def test_old_evidence_with_agreeing_state_is_a_fault(plant: Plant, tmp_path: Path) -> None:
    path = tmp_path / "kmsg"
    path.write_text(f"4,7,1000000,-;NVRM: Xid (PCI:{GPU[:-2]}): 79, pid=1, name=x, off the bus\n")
    (found,) = kernel_xid(plant(pci_tree(dead=[3]) | UPTIME, kmsg=path))
    assert (found.code, found.status) == ("gpu_lost", "fail")


def test_a_forged_line_is_ignored(log: Log) -> None:
    """E101: facility user, in whatever words."""
    log.write(f"NVRM: Xid (PCI:{GPU[:-2]}): 119, pid=1, name=x, Timeout", priority=12)
    log.write(f"NVRM: Xid (PCI:{GPU[:-2]}): 119, pid=1, name=x, Timeout", priority=3 + 8)
    assert log.brief() == []


def test_a_burst_is_one_event(log: Log) -> None:
    """E26: a burst of lines in one second is one event."""
    for _ in range(50):
        log.xid(119, "Timeout")
    (found,) = log.found()
    assert found.evidence["lines"] == 50


def test_one_error_on_every_part_of_a_gpu_is_one_event(log: Log) -> None:
    """E26: a burst of lines in one second is one event, whichever parts they name."""
    for tpc in range(30):
        log.xid(13, f"Graphics SM Warp Exception on (GPC 3, TPC {tpc}, SM 0)", pid=11)
    (found,) = log.found()
    assert (found.code, found.blame, found.evidence["lines"]) == ("gpu_xid_job", "job", 30)


def test_many_programs_on_one_part_are_a_warning_about_the_part(log: Log) -> None:
    """E26: three programs with Xid 13 on the same TPC point at hardware; it stays a warning."""
    for pid in (11, 12, 13):
        log.xid(13, "Graphics SM Warp Exception on (GPC 3, TPC 1, SM 0)", pid=pid)
        log.seconds += 100
    assert log.brief() == [("gpu_xid_job", "warn", "job"), ("gpu_xid_repeated", "warn", "node")]


def test_one_program_again_and_again_is_one_program(log: Log) -> None:
    for _ in range(5):
        log.xid(31, "MMU Fault", pid=11)
        log.seconds += 100
    assert log.brief() == [("gpu_xid_job", "warn", "job")]


def test_a_victim_is_not_blamed(log: Log) -> None:
    """E31: the GPU with the primary Xid is at fault, the others are victims."""
    log.xid(149, "NETIR Fatal XC0 i0 Link 3 (0x000fe406 0x0)")
    log.xid(45, "Ch 00000001 caused by previous Xid 149", gpu=BDFS[5])
    assert [(f.target, f.code, f.status) for f in log.found()] == [
        (GPU, "gpu_xid_nvlink", "fail"),
        (BDFS[5], "ok", "ok"),
    ]


def test_an_event_stands_until_its_time_is_over(log: Log) -> None:
    """E24, E07: it neither vanishes with the next look nor stays for ever."""
    log.xid(119, "Timeout")
    assert log.brief() == log.brief() == [("gpu_xid_reset", "fail", "node")]
    log.clock += 901
    assert log.brief() == []


def test_a_programs_error_is_shown_for_a_short_time(log: Log) -> None:
    log.xid(31, "MMU Fault", pid=5)
    assert len(log.brief()) == 1
    log.clock += 121
    assert log.brief() == []


@pytest.mark.parametrize(
    "ending",
    [
        f"NVRM: Xid (PCI:{GPU[:-2]}): 154, GPU recovery action changed from 0x1 (GPU Reset Required) to 0x0 (None)",
        "NVRM: loading NVIDIA UNIX Open Kernel Module for x86_64  580.95.05",
    ],
)
def test_the_driver_ends_what_it_reported(log: Log, ending: str) -> None:
    log.xid(119, "Timeout")
    assert len(log.brief()) == 1
    log.write(ending)
    assert log.brief() == []


def test_a_new_boot_ends_everything(log: Log) -> None:
    """E41: evidence of an earlier boot is no fault of this one."""
    log.xid(119, "Timeout")
    assert len(log.brief()) == 1
    log.host.path("/proc/sys/kernel/random/boot_id").write_text("boot-2\n")
    assert [f.status for f in log.found()] == ["ok"]


def test_our_own_question_is_no_evidence(tmp_path: Path) -> None:
    """E34: each poll of ours would make another Xid 119."""
    host = Host(kmsg=tmp_path / "kmsg")
    assert module._by_us(host, Xid(GPU, 119, pid=os.getpid()))
    assert module._by_us(host, Xid(GPU, 119, pid=os.getppid()))
    assert not module._by_us(host, Xid(GPU, 119, pid=1))
    assert not module._by_us(host, Xid(GPU, 119))


def test_a_line_that_our_question_drew_gives_no_finding(tmp_path: Path) -> None:
    """E34: read on the live node, where process ids are ours to know."""
    path = tmp_path / "kmsg"
    path.write_text("6,1,1000000,-;Linux version 6.8\n")
    host = Host(kmsg=path)
    list(kernel_xid(host))
    text = "4,{},2000000,-;NVRM: Xid (PCI:0000:5d:00): 119, pid={}, name=python3, Timeout\n"
    with path.open("a") as file:
        file.write(text.format(2, os.getpid()))
    assert list(kernel_xid(host)) == []
    with path.open("a") as file:
        file.write(text.format(3, 1))
    assert [f.code for f in kernel_xid(host)] == ["gpu_xid_reset"]


def test_an_unreadable_log_is_visible(plant: Plant, tmp_path: Path) -> None:
    """E43: never "no Xids" when nothing could be read."""
    (found,) = kernel_xid(plant(pci_tree(), kmsg=tmp_path / "none"))
    assert (found.code, found.status, found.blame) == ("kernel_log_unreadable", "unknown", "self")


def test_a_log_of_another_kind_is_visible(plant: Plant, tmp_path: Path) -> None:
    path = tmp_path / "dmesg.txt"
    path.write_text("[   12.3] NVRM: Xid (PCI:0000:5d:00): 79, pid=1, name=x, off the bus\n")
    (found,) = kernel_xid(plant(pci_tree(), kmsg=path))
    assert found.code == "kernel_log_unreadable"


def test_a_site_overrides_one_entry(log: Log, tmp_path: Path) -> None:
    """E39: people want their own list."""
    (tmp_path / "policy.d").mkdir()
    (tmp_path / "policy.d" / "site.toml").write_text('version = "s"\n[xid."119"]\nstatus = "warn"\n')
    log.xid(119, "Timeout")
    (found,) = kernel_xid(log.host, policy_dir=str(tmp_path / "policy.d"))
    assert (found.code, found.status, found.blame) == ("gpu_xid_reset", "warn", "node")


def test_a_broken_site_file_leaves_the_shipped_table(log: Log, tmp_path: Path) -> None:
    (tmp_path / "broken.d").mkdir()
    (tmp_path / "broken.d" / "site.toml").write_text("version = ")
    log.xid(119, "Timeout")
    (found,) = kernel_xid(log.host, policy_dir=str(tmp_path / "broken.d"))
    assert found.status == "fail"


def test_skips_a_node_without_gpus(plant: Plant) -> None:
    (found,) = run_check(CHECKS["kernel_xid"], plant()).findings
    assert found.status == "skipped"


def test_one_programs_many_errors_hide_no_fault(log: Log) -> None:
    """Like E26, rule 8: an illegal instruction on every TPC of every GPU leaves room for what comes after it."""
    for gpu in BDFS:
        for unit in range(66):
            log.xid(13, f"Graphics SM Warp Exception on (GPC {unit // 9}, TPC {unit % 9}, SM 0)", pid=77, gpu=gpu)
    log.xid(95, "Uncontained: LTC TAG (0x2,0x0)")
    assert ("gpu_xid_reset", "fail", "node") in log.brief()


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("RLW_CTRL Non-Fatal XC0 i0 Link 03 (0x1)", "gpu_xid_warn"),
        ("RLW_CTRL NonFatal, link 3, status 0x1", "gpu_xid_warn"),
        ("RLW_CTRL error on link 3", "gpu_xid_warn"),
        ("RLW_CTRL FATAL, link 3, status 0x1", "gpu_xid_nvlink"),
    ],
)
def test_another_drivers_words_of_an_nvlink_error(log: Log, text: str, expected: str) -> None:
    """Like E28, E29: the driver's own word decides however it is written, and without one the present state does."""
    log.xid(145, text, pid=5)
    assert [f.code for f in log.found()] == [expected]
