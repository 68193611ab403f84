"""The memory controllers have counted no uncorrected error, and corrected ones stay rare."""

from __future__ import annotations

from collections.abc import Iterator

from checks.declare import Skip, check, code, ok
from checks.growth import counters
from checks.host import Host
from checks.wire import Finding

CONTROLLERS = "/sys/devices/system/edac/mc"
UNCORRECTED = code(
    "memory_uncorrected",
    "fail",
    "node",
    "{errors} uncorrected memory errors since boot, limit 0",
    explain="Data was lost. Confirm: `ras-mc-ctl --errors`, `grep . /sys/devices/system/edac/mc/mc*/ue_count`, "
    "`ipmitool sel list`. Do: let jobs end, replace the module; a person gives the node back.",
)
MANY = code(
    "memory_corrected_many",
    "warn",
    "node",
    "{errors} corrected memory errors within {hours:g} h, limit {limit}",
    explain="Each was put right, so many announce one that will not be. Confirm: `ras-mc-ctl --error-count`. "
    "Do: plan a replacement of the module.",
)
HOUR = 3600.0


@check(lane="system", interval=120, timeout=2.0, codes=(UNCORRECTED, MANY))
def memory_errors(host: Host, *, corrected_per_hour: int = 100) -> Iterator[Finding]:
    """EDAC's counters of each memory controller, as the kernel keeps them since it loaded their driver.

    Corrected errors are judged by what came within the last hour, and a counter that went back was cleared and
    counts from zero; an agent that starts anew goes on where the former one was. The limit
    is ours: published ones range from 10 a day to thousands, and a bad module gives thousands an hour.
    Confirm by hand: ``ras-mc-ctl --error-count``.

    ``corrected_per_hour``: errors that one controller may correct.
    """
    controllers = [p for p in host.glob(f"{CONTROLLERS}/mc*") if p.name[2:].isdecimal()]
    if not controllers:
        raise Skip("no memory controller is watched by EDAC")
    now, watched = host.clock(), counters(host, "memory_errors")
    silent: Exception | None = None
    for path in controllers:
        target = path.name.upper()
        try:
            lost, corrected = (host.count(path / name) for name in ("ue_count", "ce_count"))
        except (OSError, ValueError) as error:
            silent = error
            continue
        grown = watched.of(target).over(now, corrected, HOUR)
        if lost:
            yield UNCORRECTED(target, errors=lost, limit=0)
        if grown.beyond(corrected_per_hour, HOUR):
            yield MANY(
                target, errors=grown.count, hours=max(1, round(grown.seconds / HOUR, 1)), limit=corrected_per_hour
            )
        elif corrected and not lost:
            yield ok(target, f"{corrected} corrected errors since boot", corrected=corrected)
    host.keep("counters", watched.plain())
    if silent is not None:
        raise silent
