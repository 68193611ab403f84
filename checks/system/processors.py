"""Every processor the node should have is online, and all are set alike."""

from __future__ import annotations

from collections.abc import Iterator

from checks.declare import check, code, ok
from checks.host import Host
from checks.wire import Finding

CPUS = "/sys/devices/system/cpu"
COUNT = code(
    "cpu_count_low",
    "fail",
    "node",
    "{online} processors online, expected at least {expected}",
    explain="A socket or a core is gone, or hyper-threading is off. Confirm: `lscpu`, `dmidecode -t processor`. "
    "Do: let jobs end, power-cycle, replace the processor.",
)
SWITCHED_OFF = code(
    "cpu_count_off",
    "warn",
    "config",
    "{online} processors online, expected at least {expected}; {off} more are present and switched off",
    explain="None is gone: hyper-threading or single processors were switched off while the node runs, or at boot "
    "(nosmt, maxcpus). Confirm: `lscpu`, `cat /sys/devices/system/cpu/smt/control /proc/cmdline`. Do: switch them on, "
    "or correct the profile.",
)
SOCKETS = code(
    "cpu_socket_missing",
    "fail",
    "node",
    "{sockets} sockets with processors, expected at least {expected}",
    explain="Confirm: `lscpu | grep Socket`, `dmidecode -t processor`. Do: let jobs end, power-cycle, replace.",
)
OFFLINE = code(
    "cpu_offline",
    "warn",
    "config",
    "processors {offline} are present and switched off",
    explain="Somebody or a program took them offline: `echo 1 > /sys/devices/system/cpu/cpuN/online`."
    " Do: put them on again, and find what took them off: else it will do so again.",
)
SMT = code(
    "cpu_threads_wrong",
    "warn",
    "config",
    "hyper-threading is {smt}, expected {expected}",
    explain="Confirm: `cat /sys/devices/system/cpu/smt/control`. Do: set it in the firmware or by `nosmt`.",
)
GOVERNOR = code(
    "cpu_governor_wrong",
    "warn",
    "config",
    "{wrong} processors have governor {governor}, expected {expected}",
    explain="Jobs are slower than on other nodes. Do: `cpupower frequency-set -g <governor>`.",
)
MICROCODE = code(
    "cpu_microcode_mixed",
    "warn",
    "config",
    "processors run different microcode: {versions}",
    explain="An update reached a part of them. Confirm: `grep microcode /proc/cpuinfo | sort | uniq -c`. Do: reboot.",
)

OLD = code(
    "cpu_microcode_old",
    "warn",
    "config",
    "processors run microcode {version}, expected at least {expected}",
    explain="Faults and weaknesses that are mended elsewhere are still here. Confirm: `grep -m1 microcode "
    "/proc/cpuinfo`, `journalctl -k | grep microcode`. Do: install the package of microcode or the firmware, reboot.",
)


@check(
    lane="system",
    interval=300,
    timeout=3.0,
    codes=(COUNT, SWITCHED_OFF, SOCKETS, OFFLINE, SMT, GOVERNOR, MICROCODE, OLD),
)
def processors(
    host: Host, *, expected: int = 0, sockets: int = 0, smt: str = "", governor: str = "", microcode: str = ""
) -> Iterator[Finding]:
    """Processors online, sockets, hyper-threading (``on`` or ``off``), frequency governor and microcode.

    ``microcode`` is the least revision that is wanted, such as ``0x2b000603``.

    What is not set is not judged; a processor that is present and off is always told. Confirm by hand: ``lscpu``.

    ``expected`` and ``sockets``: the least number online, 0 asks for none. ``smt``: hyper-threading, on or off.
    ``governor``: of each processor.
    """
    online, present = (cpu_list(host.read(f"{CPUS}/{name}")) for name in ("online", "present"))
    if not online or not present:
        raise ValueError(f"no processor is listed in {CPUS}")
    state, off = _line(host, f"{CPUS}/smt/control"), present - online
    if len(online) >= expected:
        yield ok("cpu", f"{len(online)} processors", online=len(online), expected=expected)
    elif len(online | present) >= expected:
        yield SWITCHED_OFF("cpu", online=len(online), expected=expected, off=len(off))
    else:
        yield COUNT("cpu", online=len(online), expected=expected)
    # With hyper-threading switched off every second one is off, as it should be.
    if off and state not in ("off", "forceoff"):
        yield OFFLINE("cpu", offline=spelled(off))
    if smt and state in ("on", "off", "forceoff") and state.removeprefix("force") != smt:
        yield SMT("cpu", smt=state, expected=smt)
    yield from _alike(host, governor)
    yield from _microcode(host, microcode)
    if sockets and (found := _sockets(host, online)) < sockets:
        yield SOCKETS("cpu", sockets=found, expected=sockets)


def _sockets(host: Host, online: set[int]) -> int:
    """Counted where the firmware tells them: without it the kernel says -1 of every processor, or nothing at all."""
    found = {_line(host, f"{CPUS}/cpu{n}/topology/physical_package_id") for n in online}
    if known := found - {"", "-1"}:
        return len(known)
    raise ValueError("no processor tells its socket")


def _alike(host: Host, governor: str) -> Iterator[Finding]:
    found = [host.read(p).strip() for p in host.glob(f"{CPUS}/cpufreq/policy*/scaling_governor")] if governor else []
    wrong = sorted(g for g in found if g != governor)
    if wrong:
        yield GOVERNOR("cpu", wrong=len(wrong), governor=wrong[0], expected=governor)


def _microcode(host: Host, least: str) -> Iterator[Finding]:
    lines = (line for line in host.read("/proc/cpuinfo").splitlines() if line.startswith("microcode"))
    versions = sorted({line.partition(":")[2].strip() for line in lines})
    if len(versions) > 1:
        yield MICROCODE("cpu", versions=", ".join(versions[:4]))
    if least and versions and (oldest := min(versions, key=_revision)) and _revision(oldest) < _revision(least):
        yield OLD("cpu", version=oldest, expected=least)


def _revision(text: str) -> int:
    """The number of a revision; what a hypervisor shows in its place (0xffffffff) is never too old."""
    return int(text, 16)


def _line(host: Host, path: str) -> str:
    try:
        return host.read(path).strip()
    except OSError:
        return ""


def cpu_list(text: str) -> set[int]:
    """The numbers of a kernel list such as ``0-3,8``; ValueError for any other text."""
    found: set[int] = set()
    for part in text.strip().split(","):
        first, _, last = part.partition("-")
        if not part:
            continue
        low, high = int(first), int(last or first)
        if not 0 <= low <= high < 65_536:
            raise ValueError(f"no processor list: {text[:80]!r}")
        found.update(range(low, high + 1))
    return found


def spelled(numbers: set[int]) -> str:
    """The kernel list of numbers, the inverse of cpu_list()."""
    parts: list[list[int]] = []
    for n in sorted(numbers):
        if parts and n == parts[-1][-1] + 1:
            parts[-1][1:] = [n]
        else:
            parts.append([n])
    return ",".join("-".join(map(str, part)) for part in parts)
