"""Which program keeps the node's clock, and what ntpd says of it."""

from __future__ import annotations

import math
import re

from checks.host import Host, NotRecorded

NTPQ = ("ntpq", "-c", "rv")
SERVICES = ("chrony", "ntpd", "timesyncd", "ptp")
OWN = "7F7F0101"
"""chrony's reference when it follows nothing but the node's own clock (directive ``local``)."""
_PIDS = {
    "chrony": ("/run/chrony/chronyd.pid", "/run/chronyd.pid"),
    "ntpd": ("/run/ntpd.pid", "/var/run/ntpd.pid"),
}
_SIGNS = {"timesyncd": "/run/systemd/timesync/synchronized", "ptp": "/run/ptp4lro"}
_PROGRAMS = ("/usr/bin/ntpq", "/usr/sbin/ntpq")
_OFFSET = re.compile(r"\boffset=(-?\d{1,12}(?:\.\d{1,9})?)\b")
_LEAP = re.compile(r"\bleap=([01]{2})\b")
_ALARM = "11"


def running(host: Host) -> tuple[str, ...]:
    """The time services that run, by their process files; ptp by the socket of ptp4l, timesyncd by its own mark."""
    found = [name for name, paths in _PIDS.items() if any(_lives(host, path) for path in paths)]
    return (*found, *(name for name, path in _SIGNS.items() if host.path(path).exists()))


def _lives(host: Host, path: str) -> bool:
    try:
        pid = host.read_bytes(path, 32).decode("ascii", "replace").strip()
    except OSError:
        return False
    return pid.isdecimal() and host.path(f"/proc/{pid}").is_dir()


def ntpd(host: Host) -> tuple[float, str] | None:
    """Offset in seconds and leap status as ntpd gives them; None without an ntpd that answers."""
    if not host.redirected and not any(host.path(path).exists() for path in _PROGRAMS):
        return None
    try:
        text = host.run(NTPQ)
    except (NotRecorded, OSError):
        return None
    offset, leap = _OFFSET.search(text), _LEAP.search(text)
    if offset is None or leap is None:
        return None
    # ntpq gives milliseconds.
    seconds = abs(float(offset[1])) / 1000
    return (seconds, "Not synchronised" if leap[1] == _ALARM else "Normal") if math.isfinite(seconds) else None
