"""One check's ear at the kernel's log: what is new in it since it asked last, or why nothing can be heard."""

from __future__ import annotations

from pathlib import Path

from checks.declare import code
from checks.host import Host
from checks.log.kmsg import KernelLog, Reading
from checks.wire import Finding

DEVICE = Path("/dev/kmsg")
UNREADABLE = code(
    "kernel_log_unreadable",
    "unknown",
    "self",
    "kernel log cannot be read: {error}",
    explain="No Xid will be seen. The agent needs to read /dev/kmsg (root or CAP_SYSLOG)."
    " Do: let the agent run as root, as its unit does.",
)
OVERRUN = code(
    "kernel_log_overrun",
    "unknown",
    "self",
    "kernel log ran over, some records were never seen",
    explain="The kernel wrote faster than we read. Confirm: `dmesg | wc -l`. Do: find who floods the log; boot "
    "with a larger log_buf_len.",
)


def log_path(host: Host) -> Path:
    """Where this node's log lies for us."""
    return host.kmsg or host.path(DEVICE)


def usual(host: Host) -> bool:
    """Whether nobody named another log than the kernel's own."""
    return host.kmsg in (None, DEVICE)


def open_log(host: Host) -> KernelLog:
    """A reader of its own for one check; on a live node nothing but the kernel's own device is believed."""
    live = usual(host) and not host.redirected
    kept = host.kmsg is None and host.redirected
    return KernelLog(log_path(host), device=live, file=kept, captured=host.captured)


def listen(host: Host, log: KernelLog, boot_id: str) -> Reading | Finding:
    """What has come since the last look, or the finding that it cannot be known; PermissionError for ordinary users."""
    try:
        return log.read(boot_id, host.uptime())
    except OSError as error:
        if isinstance(error, PermissionError) and not host.privileged:
            raise
        return UNREADABLE("node", error=f"{log_path(host).name}: {error.strerror or error}")
