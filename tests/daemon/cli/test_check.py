"""`nodevet check` tells the truth about any Linux machine, with the exit codes that monitoring expects."""

from __future__ import annotations

import gzip
import os
from collections.abc import Iterator
from pathlib import Path

import click
import msgspec
import pytest

from checks.profile import GENERIC
from checks.wire import CheckReport
from daemon.cli.asking import KEPT_LOG_LIMIT, _patient
from daemon.cli.check import check, exit_code
from daemon.cli.output import Undecided
from daemon.config import parse_config
from daemon.lanes.wire import HostSpec
from daemon.plan import plan
from deploy.simcluster import dcgm, hang_fs
from deploy.simcluster.host import SimHost
from tests.daemon.cli.command import NOBODY, ROOT, document, nodevet, write_config
from tests.daemon.lanes.harness import eventually, gone

root_only = pytest.mark.skipif(os.geteuid() != 0, reason="changing the user needs root")


def _others_may_read(path: Path) -> bool:
    return all(p.stat().st_mode & 0o005 == 0o005 for p in (path, *path.parents))


@pytest.mark.parametrize(
    ("statuses", "code"),
    [
        ({"ok"}, 0),
        ({"ok", "skipped"}, 0),
        ({"ok", "warn"}, 1),
        ({"warn", "unknown"}, 3),
        ({"unknown", "fail", "warn"}, 2),
        (set(), 0),
    ],
)
def test_exit_codes(statuses: set[str], code: int) -> None:
    assert exit_code(statuses) == code


def test_this_machine_as_it_is(tmp_path: Path) -> None:
    done = nodevet("check", "--json", config=write_config(tmp_path / "nodevet.toml"))
    report = document(done)
    statuses = {f["status"] for f in report["findings"]}
    assert done.returncode == exit_code(statuses) and done.stderr == ""
    assert set(report) == {"cluster", "node", "verdict", "findings", "profile", "simulated"}
    assert msgspec.json.decode(done.stdout, type=CheckReport).verdict == report["verdict"]
    assert report["node"] == "" and report["simulated"] is False
    if not Path("/dev/nvidiactl").exists():
        assert {f["status"] for f in report["findings"] if f["check"] == "gpu_count"} == {"skipped"}
        assert not any(f["status"] == "fail" and "gpu" in f["code"] for f in report["findings"])


def test_an_unanswered_question_is_no_health(tmp_path: Path) -> None:
    """E43, E126: a log of no known form says "unknown", by verdict and by exit code."""
    (log := tmp_path / "dmesg.txt").write_text("3b:00 NVRM Xid 79, GPU has fallen off the bus.\n")
    asked = ("check", "kernel_xid", "--kmsg", str(log), "--json")
    done = nodevet(*asked, config=write_config(tmp_path / "nodevet.toml"))
    assert (done.returncode, document(done)["verdict"]) == (3, "unknown")


@pytest.mark.parametrize(
    ("text", "code", "trust"),
    [
        ("4,7,9912300000,-;NVRM: Xid (PCI:0000:3b:00): 95, Uncontained\n", "gpu_xid_reset", "its facility"),
        ("[ 9912.3] NVRM: Xid (PCI:0000:3b:00): 95, Uncontained\n", "gpu_xid_reset", "no facility"),
        ("Dec  1 12:00:00 n1 kernel: NVRM: Xid (PCI:0000:3b:00): 95, Uncontained\n", "gpu_xid_reset", "logger"),
        ("Dec  1 12:00:00 n1 kernal: NVRM: Xid (PCI:0000:3b:00): 95, Uncontained\n", "ok", "logger"),
        ("12,7,9912300000,-;NVRM: Xid (PCI:0000:3b:00): 95, Uncontained\n", "ok", "its facility"),
        ("[Dec 1 12:00] NVRM: Xid (PCI:0000:3b:00): 95, Uncontained\n[  +0.1] later\n", "gpu_xid_reset", "no facility"),
        ("[ 12.3] NVRM: Xid (PCI:0000:3b:00): 95, Uncontained\n[ 9999.0] later\n", "ok", "no facility"),
    ],
)
def test_a_kept_log_is_judged_as_of_its_own_end(tmp_path: Path, text: str, code: str, trust: str) -> None:
    (log := tmp_path / "log.gz").write_bytes(gzip.compress(text.encode()))
    asked = ("check", "kernel_xid", "--kmsg", str(log), "--json")
    done = nodevet(*asked, config=write_config(tmp_path / "nodevet.toml"))
    findings = document(done)["findings"]
    assert code in {f["code"] for f in findings}
    assert any(trust in f["message"] for f in findings)
    assert done.returncode == (0 if code == "ok" else 2)


@root_only
@pytest.mark.skipif(not _others_may_read(ROOT), reason="the clone lies where other users cannot read it")
def test_an_ordinary_user_is_told_what_needs_root(tmp_path: Path) -> None:
    own = tmp_path / "nodevet.toml"
    root = nodevet("check", config=write_config(own))
    nobody = nodevet("check", "--json", config="", user=NOBODY)
    report = document(nobody)
    assert nobody.returncode == exit_code({f["status"] for f in report["findings"]})
    assert not any(f["code"] in ("no_root", "check_error") for f in report["findings"]), report["findings"]
    needy = {f["message"] for f in report["findings"] if f["code"] == "needs_root"}
    assert needy <= {"needs root"} and "needs root" not in root.stdout


@pytest.fixture
def simulated(tmp_path: Path) -> Iterator[SimHost]:
    """A healthy simulated node with eight GPUs; at the end its faults are healed, which frees what they held."""
    host = SimHost(tmp_path / "host", "gpu1").create()
    yield host
    host.heal()
    stuck = [int(p.name.partition("-")[0]) for p in (tmp_path / "state/lanes").glob("*.json")]
    eventually(lambda: all(map(gone, stuck)), "a worker outlived the fault that held it")
    host.close()


def _config(tmp_path: Path, host: SimHost, more: str = "") -> Path:
    where = f'[host]\nroot = "{host.sysroot}"\nkmsg = "{host.kmsg}"\nnvml_library = "{host.nvml_library}"\n'
    return write_config(tmp_path / "nodevet.toml", f'node = "gpu1"\ncluster = "lab"\n{where}simulated = true\n{more}')


def test_a_healthy_simulated_node(tmp_path: Path, simulated: SimHost) -> None:
    done = nodevet("check", "gpu_count", "gpu_health", "--json", config=_config(tmp_path, simulated))
    report = document(done)
    assert done.returncode == 0, done.stdout
    assert (report["cluster"], report["node"], report["verdict"]) == ("lab", "gpu1", "healthy")
    assert report["simulated"] is True and report["profile"] == "hgx-h100"


def test_a_lost_gpu_fails_and_is_labelled_as_simulated(tmp_path: Path, simulated: SimHost) -> None:
    simulated.inject("gpu_lost", gpu=3)
    done = nodevet("check", config=_config(tmp_path, simulated))
    assert done.returncode == 2, done.stdout + done.stderr
    assert done.stdout.startswith("SIMULATED hardware: ")
    assert "faulty" in done.stdout and "nodevet explain" in done.stdout and "\x1b" not in done.stdout


def test_a_driver_that_hangs_does_not_hang_the_command(tmp_path: Path, simulated: SimHost) -> None:
    simulated.inject("nvml_hang")
    config = _config(tmp_path, simulated, "[checks.gpu_health]\ntimeout = 1.0\n")
    done = nodevet("check", "gpu_health", "--json", config=config)
    (finding,) = document(done)["findings"]
    assert (finding["code"], finding["blame"], done.returncode) == ("gpu_driver_hung", "node", 2)
    assert len(list((tmp_path / "state/lanes").glob("*.json"))) == 1, "the stuck worker was not written down"


def test_a_captured_tree_borrows_no_device_of_this_machine(tmp_path: Path, simulated: SimHost) -> None:
    config = write_config(tmp_path / "plain.toml")
    done = nodevet("check", "gpu_count", "--sysroot", str(simulated.sysroot), "--json", config=config)
    report = document(done)
    assert report["profile"] == "hgx-h100" and report["simulated"] is True
    assert done.returncode in (0, 3), done.stdout


def test_profile_by_name_and_by_file(tmp_path: Path) -> None:
    config = write_config(tmp_path / "nodevet.toml")
    own = tmp_path / "own.toml"
    own.write_text('name = "own"\n[checks.gpu_count]\nexpected = 4\n')
    for given, name in (("hgx-h100", "hgx-h100"), (str(own), "own")):
        done = nodevet("check", "gpu_count", "--profile", given, "--json", config=config)
        assert document(done)["profile"] == name
    own.write_text('name = "own"\n[checks.gpu_count]\nexpectd = 4\n')
    done = nodevet("check", "--profile", str(own), config=config)
    assert done.returncode == 3 and "did you mean 'expected'" in done.stderr


def test_a_broken_configuration_is_our_own_trouble(tmp_path: Path) -> None:
    config = write_config(tmp_path / "nodevet.toml", "answer_budget = 'soon'\n")
    done = nodevet("check", config=config)
    assert done.returncode == 3 and "answer_budget" in done.stderr and "Traceback" not in done.stderr


def test_what_breaks_in_nodevet_is_unknown_and_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken() -> None:
        raise SyntaxError("a site's check")

    monkeypatch.setattr("daemon.cli.asking.Zygote.start", lambda *_: broken())
    context = click.Context(check, obj=str(write_config(tmp_path / "nodevet.toml")))
    with pytest.raises(Undecided, match="could not look: SyntaxError: a site's check") as caught:
        context.invoke(check)
    assert caught.value.exit_code == 3


def test_a_part_that_nobody_named_is_no_unknown_check(tmp_path: Path) -> None:
    config = write_config(tmp_path / "nodevet.toml")
    done = nodevet("check", "mount:/scratch", config=config)
    assert done.returncode == 64 and "name it by paths under [checks.mount]" in done.stderr
    done = nodevet("check", "disk_space:/local", config=config)
    assert done.returncode == 64 and "named are disk_space:/" in done.stderr
    assert "no check 'gpu_count:5'" in nodevet("check", "gpu_count:5", config=config).stderr


def test_a_check_that_is_switched_off_is_said_to_be(tmp_path: Path) -> None:
    config = write_config(tmp_path / "nodevet.toml", "[checks.gpu_count]\nenabled = false\n")
    done = nodevet("check", "gpu_count", config=config)
    assert done.returncode == 3 and "switched off" in done.stderr


@pytest.mark.parametrize("kind", ["file", "fifo"])
def test_a_useless_state_directory_is_no_matter(tmp_path: Path, kind: str) -> None:
    state = tmp_path / "state"
    if kind == "file":
        state.write_text("")
    else:
        (state / "lanes").mkdir(parents=True)
        os.mkfifo(state / "lanes" / "1-1.json")
    done = nodevet("check", "gpu_count", "--json", config=write_config(tmp_path / "nodevet.toml"))
    assert done.returncode in (0, 3), done.stderr
    assert all(f["code"] != "lane_busy" for f in document(done)["findings"])


@pytest.mark.faults
@pytest.mark.skipif(hang_fs.cannot_run() is not None, reason=hang_fs.cannot_run() or "usable")
def test_a_hung_mount_costs_its_time_out_and_one_worker_however_often_it_is_asked(tmp_path: Path) -> None:
    hung = tmp_path / "hung"
    hung.mkdir()
    config = write_config(tmp_path / "nodevet.toml", f'[checks.mount]\npaths = ["{hung}", "/"]\ntimeout = 1.0\n')
    server = hang_fs.start(hung)
    try:
        runs = [nodevet("check", "mount", "--json", config=config) for _ in range(2)]
        records = list((tmp_path / "state/lanes").glob("*.json"))
    finally:
        hang_fs.stop(server, hung)
    for done in runs:
        found = {f["target"]: f for f in document(done)["findings"]}
        assert (found[str(hung)]["code"], found[str(hung)]["blame"]) == ("mount_hung", "shared")
        assert found["/"]["status"] == "ok" and done.returncode == 2
    assert len(records) == 1, "a second worker was sent after the first"
    after = nodevet("check", "mount:/", f"mount:{hung}", "--json", config=config)
    assert [f["code"] for f in document(after)["findings"]] != ["mount_hung"] * 2
    assert not list((tmp_path / "state/lanes").glob("*.json"))


def test_a_diagnostic_is_run_at_the_level_that_is_asked_for(tmp_path: Path) -> None:
    """E53: by name alone, never in passing."""
    (tree := tmp_path / "tree" / "nodevet-commands").mkdir(parents=True)
    (tree / "dcgmi_diag_-r_3_-j").write_text(dcgm.diag(3, 3, ["1", "2"], [dcgm.Bad(gpu=1, test="memtest")]))
    (tree / "dcgmi_diag_-r_4_-j").write_text(dcgm.diag(3, 4, ["1", "2"], [dcgm.Bad(gpu=1, test="memtest")]))
    config = write_config(tmp_path / "nodevet.toml")
    asked = ("check", "dcgm_diag", "--sysroot", str(tree.parent), "--json")
    assert [nodevet(*asked, "--level", str(n), config=config).returncode for n in (3, 4)] == [0, 2]
    assert not any(
        f["check"] == "dcgm_diag" for f in document(nodevet(*asked[:1], *asked[2:], config=config))["findings"]
    )
    for wrong in (("check", "--level", "2"), ("check", "memory", "--level", "2"), (*asked, "--level", "5")):
        assert nodevet(*wrong, config=config).returncode == 64


def test_a_kept_log_of_any_size_has_its_time() -> None:
    """E102: a log of a hundred megabytes takes seconds to read; "the worker does not answer" said nothing of it."""
    every = plan(parse_config("", None, {}), GENERIC)
    log = {i.name for i in every if i.lane == "kmsg"}
    assert log >= {"kernel_xid", "kernel_events", "kernel_oom"}
    patient = {i.name: i.timeout for i in _patient(every, HostSpec(captured=True))}
    assert all((patient[i.name] == KEPT_LOG_LIMIT) == (i.name in log) for i in every)
    assert _patient(every, HostSpec()) == every
