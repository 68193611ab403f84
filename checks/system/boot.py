"""The node runs what is installed, waits for no reboot and has not been up for too long."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator

from checks.declare import check, code, ok
from checks.host import Host
from checks.wire import Finding

PENDING = code(
    "reboot_pending",
    "warn",
    "config",
    "node waits for a reboot{packages}",
    explain="An update takes effect only after it. Confirm: `cat /run/reboot-required.pkgs`, `needs-restarting -r`. "
    "Do: reboot when idle, by `scontrol reboot ASAP nextstate=RESUME <node>`.",
)
NEWER = code(
    "kernel_not_newest",
    "warn",
    "config",
    "kernel {release} runs, {newest} is installed",
    explain="Confirm: `uname -r`, `ls /lib/modules`. Do: reboot when idle, or remove the one that is not wanted.",
)
GONE = code(
    "kernel_modules_gone",
    "warn",
    "config",
    "modules of the running kernel {release} are gone from /lib/modules",
    explain="An update removed them: what is not loaded yet (a driver, a file system) can no longer be. "
    "Confirm: `ls /lib/modules/$(uname -r)`. Do: reboot when idle.",
)
LONG = code(
    "uptime_long",
    "warn",
    "config",
    "up for {days:.1f} days, limit {max_days:g}",
    explain="The site wants its nodes rebooted from time to time; drivers are known to hang after weeks. "
    "Do: reboot when idle.",
)
SHORT = code(
    "uptime_short",
    "warn",
    "config",
    "up for {seconds:.0f} s only, limit {min_seconds:g} s",
    explain="The site wants a node to settle after a boot. It passes by itself. Confirm: `uptime`, `last -x reboot`."
    " Do: wait.",
)
_REQUIRED = ("/run/reboot-required", "/var/run/reboot-required")
_MODULES = "/lib/modules"
_DAY = 86_400.0
_NAMED = 5
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9.+:~_-]{0,127}")


@check(lane="system", interval=600, timeout=2.0, codes=(PENDING, NEWER, GONE, LONG, SHORT))
def boot(
    host: Host, *, max_days: float = 0.0, min_seconds: float = 0.0, newest_kernel: bool = False
) -> Iterator[Finding]:
    """A reboot that the distribution asks for, the running kernel's modules, and uptime against the site's limits.

    That the newest installed kernel runs is asked only with ``newest_kernel``: an image may hold several on purpose.
    Confirm by hand: ``ls /run/reboot-required /lib/modules``, ``uptime``.

    ``max_days`` and ``min_seconds``: the longest and shortest time since the boot; 0 asks for none.
    """
    if packages := _pending(host):
        yield PENDING("node", packages="" if packages == [""] else f" for {', '.join(packages)}")
    release = host.read("/proc/sys/kernel/osrelease").strip()
    yield from _kernel(host, release, newest_kernel)
    up = host.uptime()
    if up is None:
        raise ValueError("/proc/uptime cannot be read")
    if max_days and up > max_days * _DAY:
        yield LONG("node", days=round(up / _DAY, 1), max_days=max_days)
    elif up < min_seconds:
        yield SHORT("node", seconds=up, min_seconds=min_seconds)
    else:
        yield ok("node", f"up for {up / _DAY:.1f} days", seconds=up)


def _pending(host: Host) -> list[str]:
    """The packages that ask for a reboot, [""] where they are not named, nothing where none is asked for."""
    if not any(host.path(name).exists() for name in _REQUIRED):
        return []
    for name in _REQUIRED:
        try:
            lines = host.read(f"{name}.pkgs").split()
        except OSError:
            continue
        if named := [word for word in dict.fromkeys(lines) if _NAME.fullmatch(word)][:_NAMED]:
            return named
    return [""]


def _kernel(host: Host, release: str, newest: bool) -> Iterator[Finding]:
    try:
        installed = [name for name in os.listdir(host.path(_MODULES)) if _NAME.fullmatch(name)]
    except OSError:
        return  # a container, or an image without modules
    whole = [name for name in installed if host.path(f"{_MODULES}/{name}/modules.dep").exists()]
    if whole and release not in installed:
        yield GONE("kernel", release=release)
    if newest and whole and _order(max(whole, key=_order)) > _order(release):
        yield NEWER("kernel", release=release, newest=max(whole, key=_order))


def _order(release: str) -> list[tuple[int, int, str]]:
    """Releases in the order of their numbers: 6.8.0-100 is newer than 6.8.0-60."""
    parts = re.findall(r"\d{1,9}|[a-z]+", release.lower())
    return [(1, int(part), "") if part.isdecimal() else (0, 0, part) for part in parts]
