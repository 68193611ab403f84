"""The node runs the kernel, boot arguments, sysctls and modules that its profile asks for."""

from __future__ import annotations

from collections.abc import Iterator

from checks.declare import Skip, check, code, ok
from checks.host import Host
from checks.wire import Finding

RELEASE = code(
    "kernel_release_wrong",
    "warn",
    "config",
    "kernel {release} runs, expected {expected}",
    explain="An update is half done, or the node booted another image. Confirm: `uname -r`. Do: reboot into the "
    "expected one.",
)
ARGUMENT = code(
    "kernel_argument_wrong",
    "warn",
    "config",
    "boot argument {argument} is {found}, expected {expected}",
    explain="Confirm: `cat /proc/cmdline`. Do: set it in the boot loader or the image, reboot.",
)
SYSCTL = code(
    "sysctl_wrong",
    "warn",
    "config",
    "{name} is {value}, expected {expected}",
    explain="Confirm: `sysctl <name>`. Do: set it in /etc/sysctl.d.",
)
MODULE = code(
    "kernel_module_absent",
    "warn",
    "config",
    "module {module} is not loaded",
    explain="Confirm: `lsmod`. Do: `modprobe <module>`; see /etc/modules-load.d and whether DKMS built it.",
)
CLOCKSOURCE = code(
    "clocksource_wrong",
    "warn",
    "config",
    "clock source is {source}, expected {expected}",
    explain="Reading the time may cost a hundred times as much. Confirm: `dmesg | grep -i clocksource`. Do: reboot.",
)
HUGEPAGES = code(
    "hugepages_few",
    "warn",
    "config",
    "{pages} huge pages are set aside, expected at least {expected}",
    explain="Memory was in pieces when they were asked for. Confirm: `grep Huge /proc/meminfo`. Do: ask at boot.",
)


@check(
    lane="system",
    interval=300,
    timeout=2.0,
    codes=(RELEASE, ARGUMENT, SYSCTL, MODULE, CLOCKSOURCE, HUGEPAGES),
)
def kernel_settings(
    host: Host,
    *,
    release: str = "",
    arguments: tuple[str, ...] = (),
    forbidden_arguments: tuple[str, ...] = (),
    sysctls: tuple[str, ...] = (),
    modules: tuple[str, ...] = (),
    clocksource: str = "",
    hugepages: int = 0,
) -> Iterator[Finding]:
    """What the site names is compared with what runs: ``sysctls`` as ``name=value``, ``arguments`` as at boot.

    Nothing is expected unless it is named. Confirm by hand: ``uname -r``, ``cat /proc/cmdline``, ``sysctl NAME``.

    ``release`` is compared as a whole (``uname -r``), ``forbidden_arguments`` must not stand in the boot line,
    ``modules`` must be loaded, ``clocksource`` is the one in use, ``hugepages`` the least number of default size.
    """
    if not any((release, arguments, forbidden_arguments, sysctls, modules, clocksource, hugepages)):
        raise Skip("nothing is asked of the kernel")
    runs = host.read("/proc/sys/kernel/osrelease").strip()
    if release and runs != release:
        yield RELEASE("kernel", release=runs, expected=release)
    else:
        yield ok("kernel", f"kernel {runs}", release=runs)
    yield from _arguments(host.read("/proc/cmdline").split(), arguments, forbidden_arguments)
    for wanted in sysctls:
        yield from _sysctl(host, wanted)
    loaded = {line.split()[0] for line in host.read("/proc/modules").splitlines() if line.strip()} if modules else set()
    for module in modules:
        if module.replace("-", "_") not in loaded and not host.path(f"/sys/module/{module.replace('-', '_')}").is_dir():
            yield MODULE(module, module=module)
    yield from _other(host, clocksource, hugepages)


def _arguments(runs: list[str], wanted: tuple[str, ...], forbidden: tuple[str, ...]) -> Iterator[Finding]:
    for argument in wanted:
        if argument not in runs:
            yield ARGUMENT("kernel", argument=argument, found="absent", expected="present")
    for argument in forbidden:
        if argument in runs:
            yield ARGUMENT("kernel", argument=argument, found="present", expected="absent")


def _sysctl(host: Host, wanted: str) -> Iterator[Finding]:
    name, _, value = (part.strip() for part in wanted.partition("="))
    parts = name.split(".")
    if not name or ".." in name or "/" in name:
        raise ValueError(f"no sysctl: {wanted!r}, expected name=value")
    try:
        found = " ".join(host.read("/proc/sys/" + "/".join(parts)).split())
    except FileNotFoundError:
        found = "unknown to the kernel"
    if found != " ".join(value.split()):
        yield SYSCTL(name, name=name, value=found, expected=value)


def _other(host: Host, clocksource: str, hugepages: int) -> Iterator[Finding]:
    if clocksource:
        source = host.read("/sys/devices/system/clocksource/clocksource0/current_clocksource").strip()
        if source != clocksource:
            yield CLOCKSOURCE("kernel", source=source, expected=clocksource)
    if hugepages:
        pages = int(host.read("/proc/sys/vm/nr_hugepages"))
        if pages < hugepages:
            yield HUGEPAGES("kernel", pages=pages, expected=hugepages)
