"""A container gets the GPUs, libraries and hooks that this node has."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path

from checks.declare import Skip, check, code
from checks.gpu.driver_files import HOME, module_version
from checks.gpu.pci import has_nvidia
from checks.host import Host
from checks.wire import Finding

STALE = code(
    "gpu_cdi_stale",
    "warn",
    "config",
    "{path} names {what}",
    explain="The description of the GPUs for containers was written before the driver or the GPUs changed: containers "
    "with a GPU do not start. Confirm: `nvidia-ctk cdi list`, `grep -e hostPath -e path: <file>`. "
    "Do: `nvidia-ctk cdi generate --output=<file>`, or restart nvidia-cdi-refresh.service.",
)
NO_CDI = code(
    "gpu_cdi_absent",
    "warn",
    "config",
    "no CDI file of nvidia.com/gpu in {folders}",
    explain="Containers ask for a GPU by its name (nvidia.com/gpu=0) and nobody describes it. Confirm: `nvidia-ctk cdi "
    "list`. Do: `nvidia-ctk cdi generate --output=/etc/cdi/nvidia.yaml`.",
)
NO_TOOL = code(
    "gpu_container_part_missing",
    "warn",
    "config",
    "{part} is not usable: {why}",
    explain="Jobs in containers start without a GPU or not at all. Confirm: `ls -l <path>`; `enroot version`, "
    "`srun --help | grep container-image`. Do: install nvidia-container-toolkit, enroot or pyxis as on other nodes.",
)

CDI_FOLDERS = ("/etc/cdi", "/var/run/cdi", "/run/cdi")
_LIMIT = 1024 * 1024
_KIND = re.compile(r"[\"']?kind[\"']?\s*:\s*[\"']?nvidia\.com/gpu\b")
_DEVICE = re.compile(r"/dev/(?:nvidia\d{1,3}|nvidia-caps/nvidia-cap\d{1,6})(?![\w.-])")
_VERSION = re.compile(r"/lib(?:nvidia-[\w-]+|cuda|nvcuvid)\.so\.(\d{3}\.\d[\d.]*\d)")
_HOOKS = ("/etc/enroot/hooks.d/98-nvidia.sh", "/usr/local/etc/enroot/hooks.d/98-nvidia.sh")
_NVC = ("/usr/bin/nvidia-container-cli", "/usr/local/bin/nvidia-container-cli")
_PLUGSTACK = ("/etc/slurm/plugstack.conf", "/etc/slurm/plugstack.conf.d/*")


@check(lane="system", interval=3600, timeout=3.0, codes=(STALE, NO_CDI, NO_TOOL))
def gpu_containers(
    host: Host, *, cdi: bool = False, enroot: bool = False, pyxis: bool = False, programs: tuple[str, ...] = ()
) -> Iterator[Finding]:
    """CDI files that are there agree with driver and devices; ``cdi``, ``enroot`` and ``pyxis`` must be there if asked.

    ``programs``: paths that must be executable, such as ``/usr/bin/nvidia-ctk``. A CDI file of devices other than
    nvidia.com/gpu is none of ours. Confirm by hand: ``nvidia-ctk cdi list``, ``ls -l /etc/cdi /etc/enroot/hooks.d``.
    """
    if not has_nvidia(host):
        raise Skip("no NVIDIA GPU in this node")
    found = _cdi_files(host)
    if not found and not (cdi or enroot or pyxis or programs):
        raise Skip("no CDI file is here and nothing is asked of containers")
    for path, text in found.items():
        if what := _stale(host, text):
            yield STALE(path, path=path, what=what)
    if cdi and not found:
        yield NO_CDI("node", folders=", ".join(CDI_FOLDERS[:2]))
    if enroot:
        yield from _enroot(host)
    if pyxis:
        yield from _pyxis(host)
    for program in programs:
        if why := _unusable(host, program):
            yield NO_TOOL(program, part=program, why=why)


def _cdi_files(host: Host) -> dict[str, str]:
    """The files that describe NVIDIA's GPUs; a folder that is only another name for one is looked at once."""
    found: dict[str, str] = {}
    seen: set[str] = set()
    for folder in CDI_FOLDERS:
        real = os.path.realpath(host.path(folder))
        if real in seen:
            continue
        seen.add(real)
        for path in host.glob(f"{folder}/*"):
            if path.suffix not in (".yaml", ".yml", ".json"):
                continue
            try:
                text = host.read_bytes(path, _LIMIT).decode("utf-8", "replace")
            except OSError:
                continue
            if _KIND.search(text):
                found[f"{folder}/{path.name}"] = text
    return found


def _stale(host: Host, text: str) -> str:
    """What a CDI file names that is not so, empty when nothing; without a loaded driver nothing is said."""
    module = module_version(host)
    if not module:
        return ""
    versions = set(_VERSION.findall(text))
    if versions and module not in versions:
        return f"libraries of driver {', '.join(sorted(versions)[:3])}, {module} is loaded"
    if host.path(f"{HOME}/gpus").is_dir() and host.path("/dev/nvidiactl").exists():
        gone = sorted(p for p in set(_DEVICE.findall(text)) if not host.path(p).exists())
        if gone:
            return f"{', '.join(gone[:4])}{' and more' if len(gone) > 4 else ''}, which {_is(gone)} missing"
    return ""


def _is(gone: list[str]) -> str:
    return "is" if len(gone) == 1 else "are"


def _enroot(host: Host) -> Iterator[Finding]:
    """The hook that mounts GPUs into an enroot container, and the program that it calls."""
    for part, places in (("enroot's hook 98-nvidia.sh", _HOOKS), ("nvidia-container-cli", _NVC)):
        troubles = [_unusable(host, place) for place in places]
        if all(troubles):
            there = next((t for t in troubles if t and not t.endswith("missing")), f"{places[0]} is missing")
            yield NO_TOOL(part, part=part, why=there)


def _pyxis(host: Host) -> Iterator[Finding]:
    """slurmd loads pyxis where plugstack.conf names it, and a required plugin that is missing stops every job."""
    lines = [line for pattern in _PLUGSTACK for path in host.glob(pattern) for line in _lines(host, path)]
    named = [w for line in lines for w in line.split("#", 1)[0].split() if w.endswith("spank_pyxis.so")]
    if not named:
        yield NO_TOOL("pyxis", part="pyxis", why=f"{_PLUGSTACK[0]} does not name spank_pyxis.so")
        return
    for path in dict.fromkeys(n for n in named if n.startswith("/")):
        if not host.path(path).exists():
            yield NO_TOOL("pyxis", part="pyxis", why=f"{path} is missing")


def _lines(host: Host, path: Path) -> list[str]:
    try:
        return host.read(path).splitlines()
    except OSError:
        return []


def _unusable(host: Host, path: str) -> str:
    """Why a program cannot be run, empty when it can."""
    try:
        seen = host.path(path).stat()
    except FileNotFoundError:
        return f"{path} is missing"
    except OSError as error:
        return f"{path}: {error.strerror}"
    if not seen.st_size:
        return f"{path} has 0 bytes"
    return "" if seen.st_mode & 0o111 else f"{path} is not executable"
