"""Lines of the kernel's log become findings by the table, never by a user's words, and end when the trouble does."""

from __future__ import annotations

from pathlib import Path

import pytest

from checks import CHECKS, CODES
from checks.catalog import load
from checks.judge.context import Context
from checks.judge.decide import decide
from checks.judge.policy import PolicyError, load_policy, read_pack, shipped
from checks.log.kernel_events import _USERS_OWN, KEPT, _rules, kernel_events
from checks.runner import run_check
from tests.checks.log.host_log import Log
from tests.checks.log.kernel_lines import CLEARS, HARMLESS, HEALTHY, LINES, REPEATED, VARIANTS
from tests.fakes import Plant


@pytest.fixture
def log(plant: Plant, tmp_path: Path) -> Log:
    return Log(plant, tmp_path / "kmsg")


def test_every_entry_of_the_table_has_a_line_here_and_a_code() -> None:
    assert set(shipped().kernel) == set(LINES)
    for name, rule in shipped().kernel.items():
        assert rule.match and rule.means and CODES[rule.code or ""] in CHECKS["kernel_events"].codes, name
        assert rule.judge is None or rule.judge in load(), name


@pytest.mark.parametrize("name", sorted(LINES))
def test_a_line_is_found_from_its_limit_on_and_by_nothing_else(log: Log, name: str) -> None:
    """E21, E116: a lock-up is one from its repetition on; an eviction is the file server's."""
    rule, (text, target) = shipped().kernel[name], LINES[name]
    limit = rule.at_least or 1
    log.write(*[text] * (limit - 1))
    assert log.found() == []
    log.write(text)
    (found,) = log.found()
    assert (found.code, found.target, found.evidence["kind"]) == (rule.code, target, name)
    assert text not in found.message


@pytest.mark.parametrize("name", sorted(CLEARS))
def test_the_line_that_ends_it_ends_it(log: Log, name: str) -> None:
    log.write(*[LINES[name][0]] * (shipped().kernel[name].at_least or 1))
    assert [f.evidence["kind"] for f in log.found()] == [name]
    log.write(CLEARS[name])
    assert log.found() == []


def test_every_clear_is_tried() -> None:
    assert {n for n, r in shipped().kernel.items() if r.clear} == set(CLEARS)


def test_it_stands_for_its_time_and_no_longer(log: Log) -> None:
    log.write(LINES["nvme_gone"][0])
    assert len(log.found()) == 1
    log.clock += 899
    assert len(log.found()) == 1
    log.clock += 2
    assert log.found() == []


def test_a_new_boot_ends_all(log: Log) -> None:
    log.write(LINES["nvme_gone"][0])
    assert len(log.found()) == 1
    log.host.path("/proc/sys/kernel/random/boot_id").write_text("boot-2\n")
    log.path.write_text("6,1,1000000,-;Linux version 6.8\n")
    assert log.found() == []


def test_lines_far_apart_are_no_storm(log: Log) -> None:
    for _ in range(10):
        log.write(LINES["soft_lockup"][0])
        log.seconds += 400.0
    assert log.found() == []


def test_two_targets_do_not_add_up(log: Log) -> None:
    text = LINES["soft_lockup"][0]
    log.write(*[text] * 2, *[text.replace("CPU#31", "CPU#32")] * 2)
    assert log.found() == []


def test_a_core_that_stays_in_the_kernel_is_a_fault_within_two_minutes(log: Log) -> None:
    """E21: a line every 28 s, each with the frames of the mount that it waits for."""
    for _ in range(3):
        log.write(LINES["soft_lockup"][0], "RIP: 0010:nfs_lock_and_join_requests+0x4d/0x2a0 [nfs]")
        log.seconds += 28.0
    assert [(f.code, f.status, f.target) for f in log.found()] == [("kernel_lockup", "fail", "CPU#31")]


@pytest.mark.parametrize(("name", "text"), VARIANTS)
def test_other_kernels_words_for_the_same_are_known(log: Log, name: str, text: str) -> None:
    log.write(*[text] * (shipped().kernel[name].at_least or 1))
    assert [f.evidence["kind"] for f in log.found()] == [name]


def test_an_eviction_is_told_although_the_client_is_let_in_again_at_once(log: Log) -> None:
    """E116: files that were open stay broken."""
    log.write(LINES["lustre_evicted"][0], "Lustre: scratch-OST0006-osc-ffff88: Connection restored to 10.0.0.6@o2ib")
    assert [f.code for f in log.found()] == ["file_client_evicted"]


def test_what_ended_the_boot_before_is_history(log: Log) -> None:
    """E41, E104: firmware repeats it when the kernel starts (BERT)."""
    log.write("BERT: Error records from previous boot:", "[Hardware Error]: event severity: fatal")
    assert log.found() == []


@pytest.mark.parametrize("name", sorted(LINES))
def test_no_mount_of_a_user_makes_a_finding(log: Log, name: str) -> None:
    """Rule 8: who has a user namespace has the kernel repeat any text of his."""
    log.write(*[form.format(LINES[name][0]) for form in REPEATED] * 200)
    assert log.found() == []


@pytest.mark.parametrize("text", HARMLESS + HEALTHY)
def test_what_healthy_machines_say_is_no_finding(log: Log, text: str) -> None:
    log.write(*[text] * 200)
    assert log.found() == []


def test_what_stood_there_before_we_listened_is_history(plant: Plant, tmp_path: Path) -> None:
    """E103, E104: an old line leads to nothing."""
    log = Log(plant, tmp_path / "kmsg", f"4,2,2000000,-;{LINES['nvme_gone'][0]}\n")
    assert log.found() == []


@pytest.mark.parametrize("name", sorted(LINES))
def test_a_record_that_is_not_the_kernels_proves_nothing(log: Log, name: str) -> None:
    """E101: a user's write to /dev/kmsg has facility 1."""
    log.write(*[LINES[name][0]] * 200, priority=8 + 3)
    assert log.found() == []


USERS_LINES = (
    "{comm}[4711]: segfault at 0 ip 000055d0c0de sp 00007ffd error 4 in a.out[55d0c0d000+1000]",
    "traps: {comm}[4711] general protection fault ip:7f00 sp:7ffd error:0 in libc.so.6[7f0000000000+1000]",
    "traps: {comm}[4711] trap invalid opcode ip:7f00 sp:7ffd error:0 in a.out[400000+1000]",
    "Out of memory: Killed process 4711 ({comm}) total-vm:1kB, anon-rss:1kB",
    "oom-kill:constraint=CONSTRAINT_MEMCG,nodemask=(null),task={comm},pid=4711,uid=1000",
    "INFO: task {comm}:4711 blocked for more than 122 seconds.",
    "watchdog: BUG: soft lockup - CPU#3 stuck for 26s! [{comm}:4711]",
    "process '{comm}' launched '/bin/true' with NULL argv: empty string added",
    "{comm}: page allocation failure: order:4, mode:0xcc0(GFP_KERNEL), nodemask=(null)",
    "CPU: 3 PID: 4711 Comm: {comm} Tainted: P           OE      6.8.0 #1",
)


def test_no_process_name_makes_a_fault_of_the_node() -> None:
    """Rule 8: fifteen characters of a user's choice in the kernel's own line never drain.

    Every piece of fifteen characters of every line that is a fault is tried as a process name.
    """
    rules = {n: r for n, r in _rules("").items() if r.match is not None}
    assert len(rules) == len(LINES)
    faults = {n: r.match for n, r in rules.items() if r.match and (r.given.status or r.code.status) == "fail"}
    assert len(faults) >= 7
    for name in faults:
        text = LINES[name][0]
        names = {text[i : i + 15] for i in range(max(1, len(text) - 14))}
        for template in USERS_LINES:
            for comm in names:
                line = template.format(comm=comm)
                hit = [n for n, match in faults.items() if not _USERS_OWN.match(line) and match.match(line)]
                allowed = ["soft_lockup"] if "soft lockup - CPU#3" in template else []
                assert hit == allowed, (line, hit)


def test_a_kernel_that_died_in_part_is_a_fault_until_the_next_boot(plant: Plant, tmp_path: Path) -> None:
    (tmp_path / "kmsg").write_text("")
    tree = {"/proc/uptime": "9000.0 1.0", "/proc/sys/kernel/random/boot_id": "b\n"}
    host = plant(tree | {"/proc/sys/kernel/tainted": f"{4096 + 128}\n"}, kmsg=tmp_path / "kmsg")
    (found,) = kernel_events(host)
    assert (found.code, found.status, found.blame) == ("kernel_oops", "fail", "node")


@pytest.mark.parametrize("taint", ["0", "12289", "4097", "not a number", ""])
def test_other_taints_are_none(plant: Plant, tmp_path: Path, taint: str) -> None:
    """12289 = proprietary, out-of-tree, unsigned: every node with the NVIDIA driver."""
    (tmp_path / "kmsg").write_text("")
    tree = {"/proc/uptime": "9000.0 1.0", "/proc/sys/kernel/random/boot_id": "b\n"}
    host = plant(tree | {"/proc/sys/kernel/tainted": taint}, kmsg=tmp_path / "kmsg")
    assert list(kernel_events(host)) == []


def test_a_log_that_cannot_be_read_is_said(plant: Plant, tmp_path: Path) -> None:
    """E43: never taken for a log without trouble."""
    host = plant({"/proc/uptime": "9000.0 1.0"}, kmsg=tmp_path / "none")
    (found,) = run_check(CHECKS["kernel_events"], host).findings
    assert (found.code, found.status, found.blame) == ("kernel_log_unreadable", "unknown", "self")


def test_many_targets_are_bounded(log: Log) -> None:
    log.write(*[f"nfs: server s{i}.example.org not responding, still trying" for i in range(4 * KEPT)])
    assert len(log.found()) <= KEPT + 1


def test_a_site_changes_single_values_and_turns_entries_off(plant: Plant, tmp_path: Path) -> None:
    site = tmp_path / "policy.d"
    site.mkdir()
    (site / "a.toml").write_text(
        'version = "site"\n[kernel.nvme_gone]\nstatus = "warn"\n[kernel.hard_lockup]\noff = true\n'
        '[kernel.ours]\nmatch = "acme: card (?P<target>[0-9]+) is sad"\ncode = "kernel_trouble"\nmeans = "sad"\n'
    )
    log = Log(plant, tmp_path / "kmsg")
    list(kernel_events(log.host, policy_dir=str(site)))
    log.write(LINES["nvme_gone"][0], LINES["hard_lockup"][0], "acme: card 7 is sad")
    found = {f.evidence["kind"]: f for f in kernel_events(log.host, policy_dir=str(site))}
    assert set(found) == {"nvme_gone", "ours"}
    assert (found["nvme_gone"].status, found["ours"].target) == ("warn", "7")
    assert load_policy(site).origin["kernel.nvme_gone.status"].endswith("a.toml")


@pytest.mark.parametrize(
    "line", ['match = "("', 'clear = "[a"', 'blame = "self"', 'matches = "x"', 'at_least = "many"']
)
def test_a_wrong_entry_names_its_place(line: str) -> None:
    with pytest.raises(PolicyError, match=r"kernel\.x"):
        read_pack(f'version = "1"\n[kernel.x]\n{line}\n', "site.toml")


def test_what_a_fault_leads_to(log: Log) -> None:
    """A job that runs can bear it: drained, not refused; a file server's silence leads to nothing."""
    log.write(LINES["nvme_gone"][0], LINES["memory_uncorrected"][0], LINES["nfs_silent"][0])
    findings = run_check(CHECKS["kernel_events"], log.host).findings
    at_prolog = decide(findings, shipped(), Context("prolog"))
    assert at_prolog.wanted == "drain" and set(at_prolog.codes) == {"disk_gone", "hardware_error_uncorrected"}
