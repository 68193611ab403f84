"""A stand-in for nvidia-smi of one simulated host: it resets the simulated GPUs, or refuses as the real one does.

SIMULATION. It knows the few calls that a reset needs: ``--gpu-reset``, ``-pm 0|1`` and ``--query-gpu`` of id and
persistence mode, each with ``-i`` and PCI ids or without for all.
"""

from __future__ import annotations

import signal
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from deploy.simcluster.host import SimHost
from deploy.simcluster.record import ActiveFault

LABEL = "SIMULATED nvidia-smi"
IN_USE = "GPU {gpu} could not be reset: In use by another client"
TOGETHER = "GPU {gpu} could not be reset: all GPUs on this NVSwitch fabric must be reset together"
RESET_SECONDS = 0.3
# What a reset cures on hardware; a GPU off the bus, a failed remap or a dead link is not among it.
CURED = frozenset({"gpu_reset_required", "ecc"})


def install(host: SimHost) -> Path:
    """Put the executable beside the host's NVML, root's and for nobody else to write; returns its path."""
    path = host.folder / "bin" / "nvidia-smi"
    path.parent.mkdir(mode=0o755, exist_ok=True)
    path.parent.chmod(0o755)
    text = (
        f"#!{sys.executable} -I\n# {LABEL}: no GPU answers here\n"
        "import signal\nimport sys\nfrom pathlib import Path\n\n"
        # From its first moment, as in the driver: nothing that is sent to it is heard.
        f"if 'smi.hang 1' in Path({str(host.nvml.path)!r}).read_text():\n"
        "    signal.signal(signal.SIGTERM, signal.SIG_IGN)\n\n"
        "from deploy.simcluster.smi import main\n\n"
        f"sys.exit(main(Path({str(host.folder)!r}), {host.name!r}, sys.argv[1:]))\n"
    )
    fresh = path.with_suffix(".new")
    fresh.write_text(text)
    fresh.chmod(0o755)
    fresh.replace(path)
    return path


def main(folder: Path, name: str, arguments: Sequence[str]) -> int:
    """Answer one call."""
    host = SimHost(folder, name)
    words = list(arguments)
    chosen = _chosen(host, words)
    if chosen is None:
        return _said(f"{LABEL}: no such GPU", 6)
    if words[:1] == ["--gpu-reset"]:
        return _reset(host, chosen, everyone="-i" not in words)
    if words[:1] == ["-pm"] and len(words) > 1 and words[1] in ("0", "1"):
        host.nvml.change({f"gpu.{gpu}.persistence": words[1] for gpu in chosen})
        return 0
    if any(word.startswith("--query-gpu=pci.bus_id,persistence_mode") for word in words):
        for gpu in chosen:
            mode = "Enabled" if _persistent(host, gpu) else "Disabled"
            _said(f"{host.board.gpu_bdf(gpu)}, {mode}", 0)
        return 0
    return _said(f"{LABEL}: not known: {' '.join(words)}", 2)


def _chosen(host: SimHost, words: Sequence[str]) -> list[int] | None:
    known = {host.board.gpu_bdf(gpu): gpu for gpu in range(len(host.board.gpus))}
    if "-i" not in words:
        return sorted(known.values())
    named = words[words.index("-i") + 1].split(",")
    return [known[name] for name in named] if set(named) <= known.keys() else None


def _persistent(host: SimHost, gpu: int) -> bool:
    return host.nvml.read().get(f"gpu.{gpu}.persistence", "1") == "1"


def _reset(host: SimHost, chosen: Sequence[int], *, everyone: bool) -> int:
    state = host.nvml.read()
    if state.get("smi.hang"):
        while True:
            signal.pause()
    for gpu in chosen:
        bdf = host.board.gpu_bdf(gpu)
        if state.get(f"gpu.{gpu}.processes") or _persistent(host, gpu):
            return _said(IN_USE.format(gpu=bdf), 255)
        if state.get("smi.together") and not everyone:
            return _said(TOGETHER.format(gpu=bdf), 255)
    time.sleep(RESET_SECONDS)
    off = {f"gpu.{gpu}.persistence": 0 for gpu in range(len(host.board.gpus)) if not _persistent(host, gpu)}
    for fault in host.faults():
        if fault.name in CURED and _gpu_of(fault) in chosen:
            host.heal(fault.name, **fault.target)
    host.nvml.change(off)
    for gpu in chosen:
        _said(f"GPU {host.board.gpu_bdf(gpu)} was successfully reset.", 0)
    return 0


def _gpu_of(fault: ActiveFault) -> int:
    defaults = {"gpu_reset_required": 3, "ecc": 0}
    given = fault.target.get("gpu", defaults.get(fault.name, 0))
    return int(given) if isinstance(given, int | str) else 0


def _said(text: str, status: int) -> int:
    sys.stdout.write(text + "\n")
    sys.stdout.flush()
    return status
