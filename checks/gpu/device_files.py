"""Every device file of the NVIDIA driver is one, leads to the driver and may be opened by a job."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from dataclasses import dataclass

from checks.declare import Skip, check, code
from checks.gpu.driver_files import HOME, information, settings
from checks.gpu.pci import has_nvidia
from checks.host import Host
from checks.wire import Finding

MISSING = code(
    "gpu_device_file_missing",
    "warn",
    "node",
    "{path} is missing",
    explain="Programs cannot reach the GPUs through it, or each waits until nvidia-modprobe makes it anew. "
    "Confirm: `ls -l /dev/nvidia*`. Do: `nvidia-modprobe -u -c 0`, or start nvidia-persistenced; for a capability of "
    "MIG `nvidia-modprobe -f <its file below /proc/driver/nvidia/capabilities>`.",
)
NO_DEVICE = code(
    "gpu_device_file_wrong",
    "warn",
    "node",
    "{path} is {found}, expected {expected}",
    explain="Something else stands where the driver's device file should: a program wrote to the path while the device "
    "was missing, or the driver was given another number since. CUDA fails for whoever opens it. "
    "Confirm: `ls -l <path>`, `grep nvidia /proc/devices`. Do: remove it, `nvidia-modprobe -u -c <minor>`.",
)
MODE = code(
    "gpu_device_file_mode",
    "warn",
    "config",
    "{path} has mode {mode}, expected {expected}",
    explain="Users may be kept from the GPU. Confirm: `ls -l <path>`, `grep DeviceFile /proc/driver/nvidia/params`. "
    "Do: `chmod`, and look for the udev rule or the module option NVreg_DeviceFileMode that sets it.",
)
BAD_MODE = code(
    "gpu_device_file_unset",
    "unknown",
    "self",
    "setting mode is {mode!r}, expected octal such as 0666",
    explain='The setting ``mode`` cannot be read. Do: write it in octal, such as "0666".',
)

CONTROL = ("nvidiactl", "nvidia-uvm")
OPEN_TO_ALL = 0o666
_FIXED = {"nvidiactl": ("nvidiactl", 255), "nvidia-modeset": ("nvidia-modeset", 254), "nvidia-uvm": ("nvidia-uvm", 0),
          "nvidia-uvm-tools": ("nvidia-uvm", 1)}  # fmt: skip
_FRONTEND = 195
"""The number that Linux has set aside for NVIDIA; older drivers list it as nvidia-frontend."""


@dataclass(frozen=True, slots=True)
class _Wanted:
    """What one device file should be; ``major`` or ``mode`` None: not known, not judged."""

    path: str
    major: int | None
    minor: int
    mode: int | None


# The driver's own files wait for its locks, so they are read where a hang is told as the driver's.
@check(lane="nvml", interval=300, timeout=5.0, codes=(MISSING, NO_DEVICE, MODE, BAD_MODE))
def gpu_device_files(host: Host, *, files: tuple[str, ...] = CONTROL, mode: str = "") -> Iterator[Finding]:
    """Kind, number and mode of /dev/nvidia*; ``files`` must exist, those of GPUs are counted by gpu_count.

    The numbers are the loaded driver's (/proc/devices). ``mode`` in octal; without one what the driver was told
    (NVreg_DeviceFileMode), else 0666. With MIG the capabilities of each instance must exist as well.
    Confirm by hand: ``ls -l /dev/nvidia* /dev/nvidia-caps``, ``grep nvidia /proc/devices``.
    """
    if not has_nvidia(host):
        raise Skip("no NVIDIA GPU in this node")
    if not host.path(f"{HOME}/version").exists():
        raise Skip("no NVIDIA driver is loaded, see gpu_driver")
    if not host.path("/dev").is_dir():
        raise Skip("/dev is not there to be looked at")
    told = settings(host)
    expected = _octal(mode) if mode else _number(told.get("devicefilemode", ""))
    if mode and expected is None:
        yield BAD_MODE("node", mode=mode)
    for wanted in _wanted(host, OPEN_TO_ALL if expected is None else expected):
        yield from _judge(host, wanted, os.path.basename(wanted.path) in files, exact=bool(mode))
    yield from _capabilities(host)


def _wanted(host: Host, mode: int) -> Iterator[_Wanted]:
    majors = _majors(host)
    frontend = majors.get("nvidia", majors.get("nvidia-frontend", _FRONTEND if majors else None))
    for name, (owner, minor) in _FIXED.items():
        usual = frontend if owner in ("nvidiactl", "nvidia-modeset") else None
        yield _Wanted(f"/dev/{name}", majors.get(owner, usual), minor, mode)
    minors = {one.minor for one in information(host) if one.minor is not None and not one.excluded}
    for minor in sorted(minors):
        yield _Wanted(f"/dev/nvidia{minor}", frontend, minor, mode)


def _capabilities(host: Host) -> Iterator[Finding]:
    """The files through which a job is given an instance of MIG; the driver says which numbers they have."""
    major = _majors(host).get("nvidia-caps")
    for path in host.glob(f"{HOME}/capabilities/gpu*/mig/gi*/**/access"):
        minor = _number(settings(host, host.name(path)).get("devicefileminor", ""))
        if minor is not None:
            yield from _judge(host, _Wanted(f"/dev/nvidia-caps/nvidia-cap{minor}", major, minor, None), True)


def _judge(host: Host, wanted: _Wanted, needed: bool, *, exact: bool = False) -> Iterator[Finding]:
    path = wanted.path
    try:
        seen = os.stat(host.path(path))
    except FileNotFoundError:
        if needed:
            yield MISSING(path, path=path)
        return
    # What stands for a device in a captured tree is an empty file: only root can make another device.
    if host.redirected and stat.S_ISREG(seen.st_mode) and not seen.st_size:
        return
    yield from judge_file(seen, path, major=wanted.major, minor=wanted.minor, mode=wanted.mode, exact=exact)


def judge_file(
    seen: os.stat_result, path: str, *, major: int | None, minor: int, mode: int | None, exact: bool = False
) -> Iterator[Finding]:
    """What is wrong with a file that stands at ``path``; more rights than expected only matter when ``exact``."""
    number = f"character device {'?' if major is None else major}:{minor}"
    if not stat.S_ISCHR(seen.st_mode):
        yield NO_DEVICE(path, path=path, found=_kind(seen.st_mode), expected=number)
        return
    found = os.major(seen.st_rdev), os.minor(seen.st_rdev)
    if found[1] != minor or (major is not None and found[0] != major):
        yield NO_DEVICE(path, path=path, found=f"character device {found[0]}:{found[1]}", expected=number)
        return
    has = stat.S_IMODE(seen.st_mode) & 0o777
    if mode is not None and (has != mode if exact else mode & ~has):
        yield MODE(path, path=path, mode=f"{has:04o}", expected=f"{mode:04o}", uid=seen.st_uid, gid=seen.st_gid)


def _kind(mode: int) -> str:
    if stat.S_ISREG(mode):
        return "a regular file"
    return "a directory" if stat.S_ISDIR(mode) else "no character device"


def _majors(host: Host) -> dict[str, int]:
    """The NVIDIA driver's character devices by name; nothing where the kernel lists none."""
    try:
        text = host.read("/proc/devices")
    except OSError:
        return {}
    words = (line.split() for line in text.partition("Block devices:")[0].splitlines())
    return {w[1]: int(w[0]) for w in words if len(w) == 2 and w[0].isdecimal() and w[1].startswith("nvidia")}


def _number(text: str) -> int | None:
    return int(text) if text.isascii() and text.isdecimal() and len(text) < 10 else None


def _octal(text: str) -> int | None:
    try:
        value = int(text, 8)
    except ValueError:
        return None
    return value if 0 < value <= 0o777 else None
