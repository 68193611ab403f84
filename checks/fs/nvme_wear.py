"""No NVMe disk is worn out or warns of itself."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

from checks.declare import Skip, check, code, ok
from checks.fs.nvme import disks
from checks.growth import Counters, counters
from checks.host import Host, NotRecorded
from checks.wire import Finding

WORN = code(
    "nvme_worn",
    "warn",
    "node",
    "{used_pct} % of its rated life used, limit {limit_pct} %; {spare_pct} % spare, threshold {spare_threshold_pct} %",
    explain="Confirm: `nvme smart-log /dev/<target>`. Do: plan a replacement.",
)
WARNING = code(
    "nvme_warning",
    "warn",
    "node",
    "disk itself warns of: {warnings}",
    explain="Confirm: `nvme smart-log /dev/<target>`. Do: plan a replacement; look at its cooling if it is the "
    "temperature.",
)
MEDIA = code(
    "nvme_media_errors",
    "warn",
    "node",
    "{errors} new media errors within {hours:g} h, {total} in its life",
    explain="Data could not be read or written. Confirm: `nvme smart-log /dev/<target>` twice, `dmesg`. "
    "Do: plan a replacement.",
)
UNASKED = code(
    "nvme_unasked",
    "unknown",
    "self",
    "smart log could not be read: {error}",
    explain="It says nothing about the disk. Confirm: `nvme smart-log <disk>`. Do: update nvme-cli.",
)
DAY = 86400.0
# NVM Express base specification, SMART / Health Information log page, critical warning.
_BITS = ("spare below threshold", "temperature", "reliability degraded", "read-only", "volatile memory backup failed")


@check(lane="disk", cost="active", interval=3600, timeout=5.0, codes=(WORN, WARNING, MEDIA, UNASKED))
def nvme_wear(host: Host, *, used_pct: int = 95) -> Iterator[Finding]:
    """What each disk keeps of its own life; asked with ``nvme``, since a dying disk may keep the question waiting.

    Media errors are judged by what came within a day, since a disk that lost a sector long ago works on.

    80 and 100 % of the rated life are gcm's limits for a warning and a fault; a disk that is past it works on, so it
    warns only. Confirm by hand: ``nvme smart-log /dev/nvme0``.

    ``used_pct``: of the life that the maker rates.
    """
    found = disks(host)
    if not found:
        raise Skip("no NVMe disk")
    watched = counters(host, "nvme_wear")
    for path in found:
        yield from _smart(host, path, watched, used_pct)
    host.keep("counters", watched.plain())


def _smart(host: Host, path: Path, watched: Counters, used_pct: int) -> Iterator[Finding]:
    name = path.name
    try:
        text = host.run(["nvme", "smart-log", "--output-format=json", f"/dev/{name}"], timeout=2.0)
        log = json.loads(text)
        used, spare, threshold = (int(log[k]) for k in _either(log))
        warning = log["critical_warning"]
        bits = int(warning["value"] if isinstance(warning, dict) else warning)
        media = int(log.get("media_errors", 0))
    except (FileNotFoundError, NotRecorded):
        raise Skip("nvme-cli is not installed") from None
    except (OSError, TimeoutError, ValueError, KeyError, TypeError) as error:
        yield UNASKED(name, error=f"{type(error).__name__}: {error}"[:120])
        return
    figures = {"used_pct": used, "spare_pct": spare, "spare_threshold_pct": threshold}
    if named := [text for i, text in enumerate(_BITS) if bits >> i & 1]:
        yield WARNING(name, warnings=", ".join(named), value=bits, **figures)
    elif used >= used_pct or spare < threshold:
        yield WORN(name, limit_pct=used_pct, **figures)
    else:
        yield ok(name, f"{used} % of its life used", media_errors=media, **figures)
    # By serial number too: another disk in this slot brings its own past.
    grown = watched.of(f"{name} {_serial(host, path)}").over(host.clock(), media, DAY).count
    if grown > 0:
        yield MEDIA(name, errors=grown, hours=DAY / 3600, total=media)


def _serial(host: Host, path: Path) -> str:
    try:
        return host.read(path / "serial").strip()
    except OSError:
        return ""


def _either(log: dict[str, object]) -> tuple[str, str, str]:
    """The names that releases of nvme-cli give to used life, spare and its threshold."""
    return (
        "percent_used" if "percent_used" in log else "percentage_used",
        "avail_spare" if "avail_spare" in log else "available_spare",
        "spare_thresh" if "spare_thresh" in log else "available_spare_threshold",
    )
