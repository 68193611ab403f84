"""MIG of each GPU is held against what Slurm hands out."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from checks import CHECKS, Finding
from checks.gpu.mig import Mig, gpu_mig, mig_state
from checks.gpu.values import Fault, NvmlError
from checks.runner import run_check
from slurm.gres import promised_parts
from tests.fakes import BDFS, FakeNvml, Plant, h100s, pci_tree

OFF, SEVEN = Mig(False, False), Mig(True, True, ("1g.10gb",) * 7)


def node(*told: Mig | NvmlError) -> FakeNvml:
    """GPUs with these answers; the minor of index 0 is the last."""
    nvml = h100s(len(told))
    for index, state in enumerate(told):
        nvml[index].told[mig_state] = state
    return nvml


def bad(found: list[Finding]) -> list[tuple[str, str]]:
    return [(f.code, f.target) for f in found if f.status != "ok"]


def judged(plant: Plant, nvml: FakeNvml, **options: object) -> list[tuple[str, str]]:
    host = plant(pci_tree(), nvml=nvml)
    return bad(list(run_check(CHECKS["gpu_mig"], host, options).findings))


@pytest.mark.parametrize(
    ("state", "promise", "expected"),
    [
        (OFF, ("0:",), []),
        (OFF, (), []),
        (SEVEN, (), []),
        (SEVEN, ("0:",), ["gpu_mig_on"]),
        (Mig(True, True), ("0:",), ["gpu_mig_on"]),
        (Mig(True, True), (), ["gpu_mig_empty"]),
        (SEVEN, ("0:1g.10gb",) * 7, []),
        (SEVEN, ("0:nvidia_h100_1g.10gb+me",) * 7, []),
        (SEVEN, ("0:1g.10gb",) * 5, []),
        (OFF, ("0:1g.10gb",) * 7, ["gpu_mig_off"]),
        (Mig(True, True, ("1g.10gb",) * 6), ("0:1g.10gb",) * 7, ["gpu_mig_missing"]),
        (Mig(True, True), ("0:1g.10gb",) * 7, ["gpu_mig_missing"]),
        (Mig(True, True, ("3g.40gb", "3g.40gb")), ("0:2g.20gb", "0:3g.40gb"), ["gpu_mig_missing"]),
        (Mig(True, True, ("1c.3g.40gb", "1g.10gb")), ("0:1c.3g.40gb", "0:?"), []),
        (Mig(True, True, ("1g.10gb",)), ("0:small", "0:small"), ["gpu_mig_missing"]),
        (Mig(True, True, ("?", "?")), ("0:1g.10gb", "0:2g.20gb"), []),
        (Mig(True, True, ("?",)), ("0:1g.10gb", "0:2g.20gb"), ["gpu_mig_missing"]),
        (Mig(False, True), (), ["gpu_mig_pending"]),
        (Mig(True, False, ("1g.10gb",)), ("0:1g.10gb",), ["gpu_mig_pending"]),
        (OFF, ("x:1g.10gb", "garbage", "9:1g.10gb"), []),
    ],
)
def test_a_gpu_is_divided_as_it_is_handed_out(
    plant: Plant, state: Mig, promise: tuple[str, ...], expected: list[str]
) -> None:
    assert judged(plant, node(state), gres_mig=promise) == [(code, BDFS[0]) for code in expected]


def test_the_gpu_is_found_by_its_minor(plant: Plant) -> None:
    """Rule 6: minor order and NVML order differ."""
    nvml = node(SEVEN, OFF)  # minors 1 and 0
    assert judged(plant, nvml, gres_mig=("0:", *["1:1g.10gb"] * 7)) == []
    assert judged(plant, nvml, gres_mig=("1:", *["0:1g.10gb"] * 7)) == [
        ("gpu_mig_on", BDFS[0]),
        ("gpu_mig_off", BDFS[1]),
    ]


@pytest.mark.parametrize(
    ("layout", "states", "expected"),
    [
        ("gpu:a100_1g.5gb:7,gpu:a100:1", (Mig(True, True, ("1g.5gb",) * 7), OFF), []),
        ("gpu:a100_1g.5gb:7,gpu:a100:1", (Mig(True, True, ("1g.5gb",) * 6), OFF), ["6 of 7 1g.5gb"]),
        ("gpu:a100_1g.5gb:7(S:0,1),gpu:a100:1(S:0)", (OFF, OFF), ["0 of 7 1g.5gb"]),
        ("gpu:a100_1g.5gb:7,gpu:a100:1", (Mig(True, True, ("1g.5gb",) * 7),) * 2, ["0 of 1 whole"]),
        ("gpu:2", (OFF, OFF), []),
        ("gpu:h100:8,nic:2,shard:64K", (OFF, OFF), ["2 of 8 whole"]),
        ("gpu", (OFF,), []),
        ("gpu:a100_1g.5gb", (OFF,), ["0 of 1 1g.5gb"]),
        ("gpu:a:b:c:d", (OFF,), ["not understood"]),
        ("(null)", (OFF,), ["not understood"]),
    ],
)
def test_a_node_is_held_against_its_gres(
    plant: Plant, layout: str, states: tuple[Mig, ...], expected: list[str]
) -> None:
    """E48, E92: physical GPUs and instances per profile against gres, with dots in types and (S:..)."""
    host = plant(pci_tree(len(states)), nvml=node(*states))
    found = [f for f in gpu_mig(host, layout=layout) if f.status != "ok"]
    assert len(found) == len(expected)
    assert all(word in f.message and f.blame in ("config", "self") for f, word in zip(found, expected, strict=True))


def test_what_is_wrong_here_is_never_a_reason_to_drain(plant: Plant) -> None:
    assert not [c.name for c in CHECKS["gpu_mig"].codes if c.status == "fail" and c.blame == "node"]


def test_gpus_that_cannot_be_divided_are_skipped(plant: Plant) -> None:
    host = plant(pci_tree(2), nvml=h100s(2))
    assert [f.status for f in run_check(CHECKS["gpu_mig"], host).findings] == ["skipped"]


@pytest.mark.parametrize("fault", list(Fault))
def test_a_gpu_that_does_not_tell_is_no_fault(plant: Plant, fault: Fault) -> None:
    host = plant(pci_tree(), nvml=node(OFF, NvmlError(fault)))
    found = run_check(CHECKS["gpu_mig"], host, {"gres_mig": ("0:1g.10gb",)}).findings
    assert {f.status for f in found} <= {"ok", "unknown", "skipped"}


CAPS = "/dev/nvidia-caps/nvidia-cap"


def test_gres_conf_says_what_is_whole_and_what_is_divided() -> None:
    conf = (
        "AutoDetect=off\nNodeName=n[1-2] Name=gpu Type=h100 File=/dev/nvidia[1-2]\n"
        f"NodeName=n1 Name=gpu Type=1g.10gb MultipleFiles=/dev/nvidia0,{CAPS}21,{CAPS}22\n"
        f"NodeName=n1 Name=gpu MultipleFiles=/dev/nvidia0,{CAPS}30,{CAPS}31\n"
        "NodeName=n1 Name=nic File=/dev/nic0\n"
    )
    assert promised_parts(conf, "n1") == ("1:", "2:", "0:1g.10gb", "0:?")
    assert promised_parts(conf, "n2") == ("1:", "2:")
    assert promised_parts("AutoDetect=nvml\nName=gpu Type=a100_1g.5gb\n", "n1") == ()


SCRIPT = """
import sys
from pathlib import Path
from checks import Host
from checks.gpu.mig import mig_state, gpu_mig
from deploy.simcluster.host import SimHost

sim = SimHost(Path(sys.argv[1]) / "n1", "n1").create()
host = Host(root=sim.sysroot, nvml_library=sim.nvml_library, simulated=True)
nvml = host.nvml()
print(nvml.read(mig_state, nvml.gpus()[0]))
sim.inject("mig_divided", gpu=0, instances="1g.10gb,2g.20gb,4g.40gb")
print(nvml.read(mig_state, nvml.gpus()[0]).instances)
print(sorted({f.code for f in gpu_mig(host, gres_mig=("3:",))}))
sim.inject("mig_divided", gpu=0, instances="", pending=0)
print(sorted({f.code for f in gpu_mig(host)}))
sim.heal()
print(sorted({f.code for f in gpu_mig(host)}))
"""


def test_the_real_pynvml_tells_instances_by_profile(tmp_path: Path) -> None:
    argv = [sys.executable, "-c", SCRIPT, str(tmp_path)]
    root = Path(__file__).parents[3]
    done = subprocess.run(argv, cwd=root, capture_output=True, text=True, timeout=120, check=False)
    assert done.stdout.splitlines() == [
        "Mig(current=False, pending=False, instances=())",
        "('1g.10gb', '2g.20gb', '4g.40gb')",
        "['gpu_mig_on', 'ok']",
        "['gpu_mig_empty', 'gpu_mig_pending', 'ok']",
        "['ok']",
    ], done.stderr[-2000:]
