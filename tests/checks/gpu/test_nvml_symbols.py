"""Every NVML symbol that we use exists in nvidia-ml-py and in the stand-in, and no error of any of them drains a node.

SIMULATION: the errors come from the stand-in; pynvml, the checks and their judgement are the real ones.
"""

from __future__ import annotations

import ast
import ctypes
import inspect
import json
import re
import subprocess
import sys
from functools import cache
from pathlib import Path

import pynvml
import pytest

from deploy.simcluster.nvml.build import CannotBuild, build

ROOT = Path(__file__).parents[3]
FOLDERS = ("checks", "daemon", "api", "slurm")
SYMBOL = re.compile(r"(nvml|NVML_|c_nvml)\w+")
C_NAME = re.compile(r'_nvmlGetFunctionPointer\("(\w+)"\)')
WORDS = {"nvmlReturn", "nvmlDeviceGet", "nvml_library", "nvml_state"}
"""Of the same form and no symbols: a member of a structure, the begin of some names, names of our own."""
DIVIDED: dict[str, str | int] = {"gpu.0.mig.current": 1, "gpu.0.mig.instances": "1g.10gb,1g.10gb"}
EXTRA: dict[str, dict[str, str | int]] = {
    "GetMaxMigDeviceCount": DIVIDED,
    "GetMigDeviceHandleByIndex": DIVIDED,
    "GetAttributes": DIVIDED,
    "GetMemoryErrorCounter": {"gpu.0.ecc.uncorrected.volatile.sram": 1},
    "GetCurrentClocksThrottleReasons": {"gpu.*.call.GetCurrentClocksEventReasons.error": 13},
    "GetMarginTemperature": {"gpu.*.call.GetTemperatureThreshold.error": 3},
}
"""What must be so before a call is made at all."""
ERRORS = {
    "NOT_SUPPORTED": 3,
    "NO_PERMISSION": 4,
    "GPU_IS_LOST": 15,
    "RESET_REQUIRED": 16,
    "UNKNOWN": 999,
    "TIMEOUT": 10,
    "LIB_RM_VERSION_MISMATCH": 18,
    "FUNCTION_NOT_FOUND": 13,
}
DEAD = {
    "GPU_IS_LOST": {"gpu_lost"},
    "RESET_REQUIRED": {"gpu_reset_required"},
    "LIB_RM_VERSION_MISMATCH": {"gpu_driver_mismatch"},
}
"""The errors that say themselves that no job can run, with the codes that may say so."""


@cache
def used() -> frozenset[str]:
    """Every symbol of NVML that is named in our code, as an attribute or, for a question, as text."""
    found: set[str] = set()
    for folder in FOLDERS:
        for path in (ROOT / folder).rglob("*.py"):
            text = path.read_text(encoding="utf-8")
            if "nvml" not in text.lower():
                continue
            for node in ast.walk(ast.parse(text)):
                name = node.attr if isinstance(node, ast.Attribute) else getattr(node, "value", "")
                if isinstance(name, str) and SYMBOL.fullmatch(name) and name not in WORDS:
                    found.add(name)
    # Made of parts where several calls differ by a word only.
    return frozenset(found | {f"nvmlDeviceGet{kind}RunningProcesses" for kind in ("Compute", "Graphics")})


def functions() -> list[str]:
    return sorted(name for name in used() if re.match(r"nvml[A-Z]", name) and callable(getattr(pynvml, name, None)))


def c_names(name: str, depth: int = 0) -> set[str]:
    """The functions of the C library behind one of pynvml."""
    text = inspect.getsource(getattr(pynvml, name))
    found = set(C_NAME.findall(text))
    if not found and depth < 3:
        for other in set(re.findall(r"\b(nvml[A-Z]\w+)\(", text)) - {name}:
            if callable(getattr(pynvml, other, None)):
                found |= c_names(other, depth + 1)
    return found


def test_the_code_names_the_symbols_we_think_of() -> None:
    assert {"nvmlInit", "nvmlDeviceGetHandleByIndex", "nvmlDeviceGetPowerUsage", "NVML_FI_DEV_MEMORY_TEMP"} <= used()
    assert len(functions()) > 35


def test_every_symbol_exists_in_the_installed_nvidia_ml_py() -> None:
    assert sorted(name for name in used() if not hasattr(pynvml, name)) == []


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    try:
        return build(tmp_path_factory.mktemp("nvml"))
    except CannotBuild as error:
        pytest.skip(str(error))


def test_every_function_exists_in_the_stand_in(library: Path) -> None:
    stand_in = ctypes.CDLL(str(library))
    wanted = {c for name in functions() for c in c_names(name)}
    assert len(wanted) > 35
    assert sorted(name for name in wanted if not hasattr(stand_in, name)) == []


SCRIPT = """
import ctypes, json, os, sys
from pathlib import Path
from checks import Host
from checks.catalog import load
from checks.gpu.values import NvmlError
from checks.runner import run_check
from deploy.simcluster.nvml.state import NvmlState

library, folder, calls, errors, tree, extra = json.loads(sys.argv[1])
state = NvmlState(Path(folder) / "nvml.state")
# Both GPUs compute, so that their clocks are asked for, too.
busy = {"clocks.event_reasons": 0, "utilization.gpu": 99, "clocks.graphics": 1980, "pcie.max_generation": 5}
healthy = {"count": 2, "latency.scale": 0, **{f"gpu.*.{key}": value for key, value in busy.items()}}
state.write(healthy)
os.environ["NODEVET_SIM_NVML"] = str(state.path)
ours = [c for n, c in load().items() if c.lane == "nvml" and not c.per_job]
root = Path(folder) / "root"
for name, text in tree.items():
    (root / name).parent.mkdir(parents=True, exist_ok=True)
    (root / name).write_text(text)

def host():
    made = Host(root=root, nvml_library=Path(library), simulated=True)
    made.clock = lambda: 1000.0
    return made

def round_of(one):
    found = []
    for declared in ours:
        options = {"gpu_count": {"expected": 2}, "gpu_driver": {"expected": 2}, "gpu_nvlink": {"links": 18}}
        for f in run_check(declared, one, options.get(declared.name, {})).findings:
            if f.status not in ("ok", "skipped"):
                found.append((declared.name, f.code, f.status, f.blame, f.message))
    return found

seen = {"healthy": round_of(host())}
for call in calls:
    for name, code in errors.items():
        of_gpu = call not in ("Init", "Shutdown", "GetCount") and not call.startswith("System")
        state.write({**healthy, **extra.get(call, {}), f"{'gpu.0.' if of_gpu else ''}call.{call}.error": code})
        # Opened anew: what never changes of a GPU is asked once.
        seen[f"{call} {name}"] = round_of(host())
state.write(healthy)
seen["healed"] = round_of(host())
print(json.dumps(seen))
"""


def calls() -> list[str]:
    """Names by which the stand-in knows the calls behind our functions."""
    found = set()
    for name in {c for function in functions() for c in c_names(function)}:
        bare = name.removeprefix("nvmlDevice") if name.startswith("nvmlDevice") else name.removeprefix("nvml")
        found.add("Init" if bare == "InitWithFlags" else re.sub(r"(_v\d+|V)$", "", bare))
    return sorted(found - {"ErrorString"})


Seen = dict[str, list[tuple[str, str, str, str, str]]]


@pytest.fixture(scope="module")
def seen(library: Path, tmp_path_factory: pytest.TempPathFactory) -> Seen:
    """What all checks of the lane find under each error of each call, in one process of its own."""
    tree = {
        "proc/uptime": "90000.0 1.0\n",
        "proc/driver/nvidia/version": "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.95.05  Release\n",
        "sys/fs/cgroup/system.slice/slurmstepd.scope/cgroup.procs": "",
        "dev/nvidiactl": "",
        "dev/nvidia-uvm": "",
        "dev/nvidia1": "",
        "dev/nvidia3": "",
    }
    told = json.dumps([str(library), str(tmp_path_factory.mktemp("state")), calls(), ERRORS, tree, EXTRA])
    argv = [sys.executable, "-c", SCRIPT, told]
    done = subprocess.run(argv, cwd=ROOT, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    found: Seen = json.loads(done.stdout)
    return found


def test_without_an_error_nothing_is_found(seen: Seen) -> None:
    assert seen["healthy"] == seen["healed"] == []


@pytest.mark.parametrize("error", sorted(ERRORS))
def test_no_error_of_any_call_is_a_fault_unless_it_says_so_itself(seen: Seen, error: str) -> None:
    """E33, E40, E50: each on each call; only a lost GPU, a reset or a mismatch is a fault, told by its owner."""
    tried = [key for key in seen if key.endswith(f" {error}")]
    assert len(tried) == len(calls())
    for key in tried:
        fails = {code for _, code, status, _, _ in seen[key] if status == "fail"}
        assert fails <= DEAD.get(error, set()) | ({"gpu_count_low"} if error == "GPU_IS_LOST" else set()), key


@pytest.mark.parametrize("error", sorted(ERRORS))
def test_no_error_of_any_call_ends_a_check(seen: Seen, error: str) -> None:
    """Rule 1: whatever the driver answers is an answer; a check that broke would say check_error."""
    for key in (key for key in seen if key.endswith(f" {error}")):
        broken = [row for row in seen[key] if row[1] == "check_error"]
        assert broken == [], key


@pytest.mark.parametrize("error", sorted(set(ERRORS) - {"NOT_SUPPORTED", "FUNCTION_NOT_FOUND"}))
def test_every_error_is_told_with_its_reason(seen: Seen, error: str) -> None:
    """E33: an error that is swallowed is how a dead GPU passed for a healthy one."""
    silent = {key.split()[0] for key, found in seen.items() if key.endswith(f" {error}") and not found}
    assert silent <= SILENT


@pytest.mark.parametrize("error", ["NOT_SUPPORTED", "FUNCTION_NOT_FOUND"])
def test_what_a_board_or_driver_does_not_have_is_no_trouble(seen: Seen, error: str) -> None:
    loud = {key.split()[0] for key, found in seen.items() if key.endswith(f" {error}") and found}
    assert loud - NEEDED == {"GetMemoryErrorCounter"}
    assert {row[1] for row in seen[f"GetMemoryErrorCounter {error}"]} == {"gpu_ecc_uncorrected"}


SILENT = {"Shutdown", "GetGspFirmwareVersion", "GetNvLinkState"}
"""Not asked in a round, only where not all links are up, or only to add a word to what is told anyhow."""
NEEDED = {"Init", "GetCount", "GetHandleByIndex", "SystemGetDriverVersion"}
"""Without these there is no NVML: then the trouble is told, and it is no fault either."""
