"""A stand-in for dcgmi of one simulated host: it prints what both generations of DCGM print, and tests nothing.

SIMULATION. It knows ``health -c -j``, ``diag -r 1|2|3|4 -j [-i 0,1]`` and ``--version``; a redirected agent reads the
same texts as recordings.
"""

from __future__ import annotations

import json
import signal
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

LABEL = "SIMULATED dcgmi"
NO_ENGINE = (
    "Error: unable to establish a connection to the specified host: localhost\n"
    "Error: Unable to connect to host engine. Host engine connection invalid/disconnected.\n"
)
RUNNING = "Error: unable to run diagnostic: A diagnostic instance is already running, cannot run concurrent ones.\n"
VERSIONS = {3: "3.3.5", 4: "4.4.2"}
# Category, name before 4, name since, the level that begins to run it.
_TESTS = (
    ("Deployment", "Denylist", "software", 1),
    ("Deployment", "NVML Library", "", 1),
    ("Deployment", "Persistence Mode", "", 1),
    ("Deployment", "Page Retirement/Row Remap", "", 1),
    ("Integration", "PCIe", "pcie", 2),
    ("Hardware", "GPU Memory", "memory", 2),
    ("Hardware", "Diagnostic", "diagnostic", 3),
    ("Stress", "Targeted Stress", "targeted_stress", 3),
    ("Stress", "Targeted Power", "targeted_power", 3),
    ("Stress", "Memory Bandwidth", "memory_bandwidth", 3),
    ("Stress", "Memtest", "memtest", 4),
    ("Stress", "Pulse Test", "pulse_test", 4),
)


@dataclass(frozen=True, slots=True)
class Bad:
    """One error of one GPU; ``test`` as generation 4 names it, ``status`` Fail, Warn or Skip."""

    gpu: int = 0
    error: int = 52
    severity: int = 2
    test: str = "memory"
    status: str = "Fail"
    text: str = "simulated error"

    @classmethod
    def read(cls, text: str) -> Bad:
        """The inverse of str()."""
        gpu, error, severity, test, status = text.split(":")
        return cls(int(gpu), int(error), int(severity), test, status)

    def __str__(self) -> str:
        return f"{self.gpu}:{self.error}:{self.severity}:{self.test}:{self.status}"


def diag(generation: int, level: int, serials: Sequence[str], bad: Sequence[Bad] = ()) -> str:
    """What ``dcgmi diag -r LEVEL -j`` prints; ``serials`` of the GPUs in DCGM's order."""
    categories: dict[str, list[dict[str, Any]]] = {}
    for category, old, new, since in _TESTS:
        if since <= level and (name := new if generation >= 4 else old):
            mine = {b.gpu: b for b in bad if b.test == new}
            test: dict[str, Any] = {"name": name, "results": _results(generation, len(serials), mine)}
            if generation >= 4:
                test["test_summary"] = {"status": next((b.status for b in mine.values()), "Pass")}
            categories.setdefault(category, []).append(test)
    tests = [{"category": name, "tests": found} for name, found in categories.items()]
    about: dict[str, Any] = {"version": VERSIONS[generation], "Driver Version Detected": "580.95.05", LABEL: True}
    if generation < 4:
        told = {"GPU Device Serials": {str(n): s for n, s in enumerate(serials)}}
        return json.dumps({"DCGM GPU Diagnostic": {**about, **told, "test_categories": tests}}, indent=2) + "\n"
    entities = [{"device_id": "2330", "entity_id": n, "serial_num": s} for n, s in enumerate(serials)]
    groups = [{"entities": entities, "entity_group": "GPU", "entity_group_id": 1}]
    made = {"DCGM Diagnostic": {"test_categories": tests}, "entity_groups": groups, "metadata": about}
    return json.dumps(made, indent=2) + "\n"


def _results(generation: int, gpus: int, bad: dict[int, Bad]) -> list[dict[str, Any]]:
    found = []
    for gpu in range(gpus):
        where = {"entity_group": "GPU", "entity_group_id": 1, "entity_id": gpu}
        result: dict[str, Any] = {**where} if generation >= 4 else {"gpu_id": str(gpu)}
        result["status"] = bad[gpu].status if gpu in bad else "Pass"
        if gpu in bad:
            one = bad[gpu]
            error = {"error_id": one.error, "error_severity": one.severity, "warning": one.text}
            result["warnings"] = [error]
        found.append(result)
    return found


def health(bad: Sequence[Bad] = (), system: str = "Memory system") -> str:
    """What ``dcgmi health -c -j`` prints, the same in both generations."""
    body: dict[str, Any] = {"Overall Health": {"value": "Failure" if bad else "Healthy"}}
    for one in bad:
        word = "Warning" if one.status == "Warn" else "Failure"
        errors = {"children": {system: {"overflow": [one.text], "value": word}}}
        entities = body.setdefault("GPU", {"children": {}})["children"]
        entities[str(one.gpu)] = {"children": {"Errors": errors}, "value": word}
    return json.dumps({"body": body, "header": ["Health Monitor Report", LABEL]}, indent=2) + "\n"


def install(path: Path, state: Path, serials: Sequence[str]) -> Path:
    """Write the executable; ``state`` is the file of the host's NVML, whose lines ``dcgm.*`` it goes by."""
    text = (
        f"#!{sys.executable} -I\n# {LABEL}: no GPU answers here\nimport sys\nfrom pathlib import Path\n\n"
        "from deploy.simcluster.dcgm import main\n\n"
        f"sys.exit(main(Path({str(state)!r}), {list(serials)!r}, sys.argv[1:]))\n"
    )
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(0o755)
    return path


def main(state: Path, serials: Sequence[str], arguments: Sequence[str]) -> int:
    """Answer one call as the state says."""
    lines = (line.split(" ", 1) for line in state.read_text().splitlines() if line.startswith("dcgm."))
    told = {words[0]: words[1] for words in lines if len(words) == 2}
    words = list(arguments)
    generation = int(told.get("dcgm.generation", "4"))
    bad = [Bad.read(one) for one in told.get("dcgm.bad", "").split(";") if one]
    if words[:1] == ["--version"]:
        return _said(f"dcgmi  version: {VERSIONS[generation]} {LABEL}\n", 0)
    while told.get("dcgm.hang"):
        signal.pause()
    if told.get("dcgm.engine") == "0":
        return _said(NO_ENGINE, 1)
    if words[:1] == ["health"]:
        return _said(health(bad), 0)
    if words[:2] != ["diag", "-r"]:
        return _said(f"{LABEL}: not known: {' '.join(words)}\n", 2)
    if told.get("dcgm.busy"):
        return _said(RUNNING, 217)
    chosen = serials
    if "-i" in words:
        asked = {int(n) for n in words[words.index("-i") + 1].split(",")}
        chosen = [serial for n, serial in enumerate(serials) if n in asked]
    failed = any(one.status == "Fail" for one in bad)
    return _said(diag(generation, int(words[2]), chosen, bad), int(told.get("dcgm.exit", 205 if failed else 0)))


def _said(text: str, status: int) -> int:
    sys.stdout.write(text)
    sys.stdout.flush()
    return status
