"""A diagnostic is judged by error number and severity, the same in both generations, and never by its exit status."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from checks import CODES, Host
from checks.catalog import load
from checks.dcgm.diag import _OURS
from checks.judge.context import Context
from checks.judge.decide import decide
from checks.judge.policy import shipped
from checks.runner import run_check
from checks.wire import Finding, JobAttempt
from deploy.simcluster import dcgm
from deploy.simcluster.dcgm import Bad
from tests.checks.dcgm.planted import SERIALS, gpus, node
from tests.fakes import BDFS, FakeNvml, Plant

DIAG = load()["dcgm_diag"]


def look(host: Host, level: int = 1) -> list[Finding]:
    return list(run_check(DIAG, host, {"level": level}).findings)


def troubles(found: list[Finding]) -> list[tuple[str, str]]:
    return [(f.code, f.target) for f in found if f.status not in ("ok", "skipped")]


def diag(plant: Plant, text: str, *, level: int = 1, status: int = 0, nvml: FakeNvml | None = None) -> list[Finding]:
    return look(node(plant, {f"diag -r {level} -j": text}, status=status, nvml=nvml), level)


@pytest.mark.parametrize("generation", [3, 4])
@pytest.mark.parametrize("level", [1, 2, 3, 4])
def test_a_healthy_node_passes(plant: Plant, generation: int, level: int) -> None:
    found = diag(plant, dcgm.diag(generation, level, SERIALS), level=level)
    assert [f.status for f in found] == ["ok"] and found[0].evidence["level"] == level
    assert found[0].evidence["version"] == dcgm.VERSIONS[generation]


@pytest.mark.parametrize("generation", [3, 4])
@pytest.mark.parametrize(
    ("bad", "expected"),
    [
        (Bad(gpu=5, error=52), "dcgm_diag_hardware"),
        (Bad(gpu=5, error=115), "dcgm_diag_hardware"),
        (Bad(gpu=5, error=85, severity=6), "dcgm_diag_reset"),
        (Bad(gpu=5, error=30, severity=4, test="pcie"), "dcgm_diag_failed"),
        (Bad(gpu=5, error=29, severity=5, test="software"), "dcgm_diag_config"),
        (Bad(gpu=5, error=44, severity=4), "dcgm_diag_unsure"),
        # Newer than our table: by its severity.
        (Bad(gpu=5, error=999, severity=2), "dcgm_diag_failed"),
        (Bad(gpu=5, error=999, severity=1), "dcgm_diag_warn"),
        (Bad(gpu=5, error=999, severity=5), "dcgm_diag_config"),
        (Bad(gpu=5, error=999, severity=3), "dcgm_diag_unsure"),
        (Bad(gpu=5, error=999, severity=99), "dcgm_diag_failed"),
        # A test that only warned makes no fault, whatever its number.
        (Bad(gpu=5, error=52, status="Warn"), "dcgm_diag_warn"),
    ],
)
def test_number_and_severity_decide(plant: Plant, generation: int, bad: Bad, expected: str) -> None:
    """E53, E54: both generations, the same answer, at the GPU whose serial DCGM tells."""
    found = diag(plant, dcgm.diag(generation, 4, SERIALS, [bad]), level=4, nvml=gpus(swapped=True), status=205)
    assert troubles(found)[0] == (expected, BDFS[5])
    assert all(code == "dcgm_unasked" for code, _ in troubles(found)[1:])


def test_a_fail_at_any_depth_fails(plant: Plant) -> None:
    """E53: dcgm 3.3.5 with one PCIe Fail; the exit status says nothing."""
    text = dcgm.diag(3, 3, SERIALS, [Bad(gpu=2, error=30, severity=4, test="pcie", text="Bandwidth of GPU 2")])
    [failed] = [f for f in diag(plant, text, level=3) if f.status == "fail"]
    assert (failed.code, failed.target, failed.evidence["test"]) == ("dcgm_diag_failed", BDFS[2], "PCIe")
    moved = {"site wrapper": {"deeper": [{"still": [{"name": "x", "status": "FAIL", "gpu_ids": "gpu1,gpu4"}]}]}}
    assert troubles(diag(plant, json.dumps(moved))) == [("dcgm_diag_failed", BDFS[1]), ("dcgm_diag_failed", BDFS[4])]


def test_a_summary_alone_counts_once(plant: Plant) -> None:
    """E54: a test whose GPUs all passed and whose summary failed."""
    test = {"name": "nccl_tests", "results": [{"entity_group": "GPU", "entity_id": 0, "status": "Pass"}]}
    text = json.dumps({"DCGM Diagnostic": {"tests": [{**test, "test_summary": {"status": "Fail"}}]}})
    assert troubles(diag(plant, text)) == [("dcgm_diag_failed", "node")]


def test_an_error_of_another_part_names_it(plant: Plant) -> None:
    test = {"entity_group": "CPU", "entity_id": 1, "status": "Fail", "warnings": [{"warning": "x", "error_id": 95}]}
    text = json.dumps({"DCGM Diagnostic": {"tests": [{"name": "cpu_eud", "results": [test]}]}})
    assert troubles(diag(plant, text)) == [("dcgm_diag_hardware", "CPU 1")]


@pytest.mark.parametrize("warnings", ["GPU 0 has failed", ["GPU 0 has failed"], [{"warning": "GPU 0"}], None, [], 7])
def test_older_ones_give_text_alone(plant: Plant, warnings: object) -> None:
    """E53: a Fail without a number is a fault that drains nothing by itself."""
    result = {"gpu_ids": "0", "status": "Fail", "warnings": warnings}
    found = diag(plant, json.dumps({"DCGM GPU Diagnostic": {"tests": [{"name": "PCIe", "results": [result]}]}}))
    assert troubles(found) == [("dcgm_diag_failed", BDFS[0])]
    assert decide(found, shipped(), Context(occasion="interval")).wanted == "admit"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Thermal violations totaling 0.0 seconds started at 0.0 seconds into the test for GPU 0", []),
        ("There were thermal violations totaling 0.0 seconds for GPU 0", []),
        ("There were thermal violations totaling 0.4 seconds for GPU 0", [("dcgm_diag_failed", BDFS[0])]),
        ("There were thermal violations totaling 10.0 seconds for GPU 0", [("dcgm_diag_failed", BDFS[0])]),
    ],
)
def test_a_violation_of_no_time_is_none(plant: Plant, text: str, expected: list[tuple[str, str]]) -> None:
    """E55."""
    bad = Bad(error=40, severity=1, test="targeted_stress", text=text)
    found = diag(plant, dcgm.diag(4, 3, SERIALS, [bad]), level=3, status=205)
    assert troubles(found) == expected
    assert decide(found, shipped(), Context(occasion="interval")).wanted == "admit"


def test_an_xid_of_dcgm_alone_is_a_note(plant: Plant) -> None:
    """E28: the kernel's line says whether it was fatal."""
    found = diag(plant, dcgm.diag(4, 1, SERIALS, [Bad(error=101, severity=4, test="software")]))
    assert [(f.status, f.code, f.evidence.get("judge")) for f in found[:1]] == [
        ("warn", "dcgm_diag_warn", "kernel_xid")
    ]


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (dcgm.RUNNING, "already running"),
        (dcgm.NO_ENGINE, "no host engine"),
        ("Error: API version mismatch\n", "version mismatch"),
        ("Error: requested test memory bandwidth was not found\n", "was not found"),
        ('{"DCGM Diagnostic": {"runtime_error": "GPU is lost"}}', "GPU is lost"),
        ('{"DCGM GPU Diagnostic": {"test_categories": [{"tests": [{"name": "PCIe", "results": [', "no JSON"),
        (dcgm.diag(4, 1, SERIALS).rstrip()[:-1] + ",", "no JSON"),
        ('{"DCGM Diagnostic": {"test_categories": []}}', "names no test"),
        ('{"verdict": "FAIL"}', "names no test"),
        ("", "no answer"),
        ("[]", "[]"),
    ],
)
@pytest.mark.parametrize("status", [0, 226])
def test_no_answer_says_nothing_about_the_node(plant: Plant, text: str, why: str, status: int) -> None:
    """E52, E54: truncated, of another shape, refused, busy, unreachable: unknown, ours, whatever the exit status."""
    found = diag(plant, text, status=status)
    assert [(f.status, f.blame, f.code) for f in found] == [("unknown", "self", "dcgm_unasked")]
    assert why in found[0].message


def test_what_stands_around_the_document_does_no_harm(plant: Plant) -> None:
    """E54: a comma behind the end, a warning before the beginning."""
    text = f"Warning: deprecated\n{dcgm.diag(4, 1, SERIALS).rstrip()},\n"
    assert [f.status for f in diag(plant, text)] == ["ok"]


@pytest.mark.parametrize("status", [1, 205, 226, -9])
def test_the_exit_status_alone_makes_no_fault(plant: Plant, status: int) -> None:
    """E53: exit status and document are compared; where they disagree nobody knows."""
    found = diag(plant, dcgm.diag(4, 1, SERIALS), status=status)
    assert [f.code for f in found] == ["dcgm_unasked", "ok"] and str(status) in found[0].message


def test_skipped_tests_are_told(plant: Plant) -> None:
    """E54: new warnings and skipped tests are no failure; a run in which nothing ran is no answer."""
    skipped = [Bad(gpu=n, error=117, severity=5, test="software", status="Skip") for n in range(8)]
    assert [f.code for f in diag(plant, dcgm.diag(4, 1, SERIALS, skipped))] == ["dcgm_unasked", "ok"]
    assert [f.code for f in diag(plant, dcgm.diag(4, 2, SERIALS, skipped), level=2)] == ["ok"]


def test_nothing_runs_beside_a_process(plant: Plant) -> None:
    host = node(plant, {"diag -r 1 -j": dcgm.diag(4, 1, SERIALS, [Bad(test="software")])}, nvml=gpus(busy=(3,)))
    assert [(f.status, f.message) for f in look(host)] == [("skipped", "not run beside 1 processes on the GPUs")]


@pytest.mark.parametrize(("name", "uid", "expected"), [("nv-hostengine", 0, "ok"), ("nv-hostengine", 1000, "skipped"),
                                                      ("python3", 0, "skipped")])  # fmt: skip
def test_the_engine_itself_is_no_holder(plant: Plant, name: str, uid: int, expected: str) -> None:
    """A name proves nothing unless root runs it."""
    host = node(plant, {"diag -r 1 -j": dcgm.diag(4, 1, SERIALS)}, nvml=gpus(busy=(3,)))
    place = host.path("/proc/4711")
    place.mkdir(parents=True)
    (place / "comm").write_text(f"{name}\n")
    if uid and os.geteuid() != 0:
        pytest.skip("giving a folder away needs root")
    if os.geteuid() == 0:
        os.chown(place, uid, uid)
    elif not uid:
        pytest.skip("only root's folder is root's")
    assert [f.status for f in look(host)] == [expected]


def test_a_site_can_leave_an_error_out(plant: Plant, tmp_path: Path) -> None:
    (tmp_path / "site.toml").write_text('version = "1"\n[dcgm.30]\noff = true\n[dcgm.52]\nstatus = "warn"\n')
    text = dcgm.diag(4, 2, SERIALS, [Bad(error=30, test="pcie"), Bad(error=52, test="memory")])
    host = node(plant, {"diag -r 2 -j": text})
    found = run_check(DIAG, host, {"level": 2, "policy_dir": str(tmp_path)}).findings
    assert [(f.status, f.code) for f in found] == [("warn", "dcgm_diag_hardware"), ("ok", "ok")]


def test_a_process_that_began_meanwhile_makes_it_worthless(plant: Plant) -> None:
    nvml = gpus()
    host = node(plant, {"diag -r 1 -j": dcgm.diag(4, 1, SERIALS, [Bad(test="software")])}, nvml=nvml)
    asked = host.outcome

    class Late(Host):
        def outcome(self, *a: object, **k: object) -> object:  # type: ignore[override]
            nvml[6].processes = (99,)
            return asked(["dcgmi", "diag", "-r", "1", "-j"], timeout=1)

    late = Late(root=host.root, simulated=True)
    late._nvml = nvml
    assert [(f.status, f.code) for f in look(late) if f.status != "ok"] == [("unknown", "dcgm_diag_unsure")]


def test_with_mig_it_is_skipped(plant: Plant) -> None:
    """E48."""
    found = diag(plant, dcgm.diag(4, 1, SERIALS, [Bad(test="software")]), nvml=gpus(mig=True))
    assert [(f.status, "MIG is on" in f.message) for f in found] == [("skipped", True)]


def test_only_the_jobs_gpus_are_tested(plant: Plant) -> None:
    """E68: a list of GPUs gives those, an empty one none, and no service is started."""
    job = JobAttempt(job_id=1, gpu_minors=(3, 5))
    line = f"diag -r 1 -j -i {(3 - 3) % 8},{(5 - 3) % 8}"
    assert [f.status for f in look(node(plant, {line: dcgm.diag(4, 1, SERIALS)}, job=job))] == ["ok"]
    none = Host(root=node(plant, {}).root, job=JobAttempt(job_id=1, gpu_minors=()))
    none._nvml = gpus()
    assert [f.message for f in look(none)] == ["job has no GPU that is known here"]


def test_without_dcgm_it_does_not_apply(plant: Plant) -> None:
    assert [(f.status, f.message) for f in look(plant({}))] == [("skipped", "DCGM is not installed")]


def test_a_captured_tree_is_judged_by_what_was_recorded(plant: Plant) -> None:
    """Without its driver nobody can be disturbed, and GPUs are named as DCGM counts them."""
    text = dcgm.diag(3, 2, SERIALS, [Bad(gpu=1, error=52)])
    host = plant({"/nodevet-commands/dcgmi_diag_-r_2_-j": text})
    assert troubles(look(host, 2)) == [("dcgm_diag_hardware", "gpu1 of DCGM")]


@pytest.mark.parametrize("level", [0, 5])
def test_another_level_is_our_own_error(plant: Plant, level: int) -> None:
    assert [f.blame for f in look(node(plant, {}), level)] == ["self"]


def test_every_entry_of_the_table_names_one_of_our_codes() -> None:
    table = shipped().dcgm
    assert {str(n) for n in range(1, 133)} | {f"severity-{n}" for n in range(1, 7)} == set(table)
    for key, entry in table.items():
        assert entry.code in _OURS and entry.reason, key
        assert not entry.judge or entry.judge in load(), key
        # Our own trouble stays ours, whatever a layer says.
        assert CODES[entry.code].blame != "self" or (entry.status, entry.blame) == (None, None), key


def test_what_is_no_proof_drains_nothing() -> None:
    """Rule 1: only what saw wrong data, and what asks for a reset, takes a node away."""
    acting = {c for c in _OURS if decide_of(c) != "admit"}
    assert acting == {"dcgm_diag_hardware", "dcgm_diag_reset"}


def decide_of(code: str) -> str:
    finding = Finding(target="x", status=CODES[code].status, blame=CODES[code].blame, code=code)
    return decide([finding], shipped(), Context(occasion="interval")).wanted
