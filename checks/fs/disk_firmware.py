"""All NVMe disks of one model run the same firmware, and the one that the site has named."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from fnmatch import fnmatchcase

from checks.declare import Skip, check, code, ok
from checks.fs.nvme import disks
from checks.host import Host
from checks.wire import Finding

MIXED = code(
    "nvme_firmware_mixed",
    "warn",
    "config",
    "{model} has firmware {firmware}, the other {others} have {usual}",
    explain="Confirm: `nvme list`. Do: bring the odd one to the same firmware when the node is idle.",
)
WRONG = code(
    "nvme_firmware_wrong",
    "warn",
    "config",
    "{model} has firmware {firmware}, expected {expected}",
    explain="Confirm: `nvme list`. Do: update it when the node is idle (`nvme fw-download`, `nvme fw-commit`).",
)


@check(lane="system", interval=3600, timeout=2.0, codes=(MIXED, WRONG))
def disk_firmware(host: Host, *, firmware: tuple[str, ...] = ()) -> Iterator[Finding]:
    """Model and firmware of each local disk as sysfs has them; ``firmware`` is "MODEL=REVISION", with wild cards.

    Without a name only disks of one model within this node are compared, and only where most agree.
    Confirm by hand: ``grep . /sys/class/nvme/*/firmware_rev``.
    """
    found = []
    for path in disks(host):
        try:
            found.append((path.name, host.read(path / "model").strip(), host.read(path / "firmware_rev").strip()))
        except OSError:
            continue
    if not found:
        raise Skip("no NVMe disk that tells its firmware")
    for name, model, runs in found:
        named = [e.rpartition("=")[2] for e in firmware if fnmatchcase(model, e.rpartition("=")[0].strip())]
        if named and not any(fnmatchcase(runs, one) for one in named):
            yield WRONG(name, model=model, firmware=runs, expected=" or ".join(named))
        elif not named:
            yield from _odd(name, model, runs, [r for _, m, r in found if m == model])
    yield ok("node", f"{len(found)} NVMe disks tell their firmware", disks=len(found))


def _odd(name: str, model: str, runs: str, alike: list[str]) -> Iterator[Finding]:
    """Said of the few only: where none is in the majority nobody can tell which is odd."""
    usual, count = Counter(alike).most_common(1)[0]
    if runs != usual and 2 * count > len(alike):
        yield MIXED(name, model=model, firmware=runs, usual=usual, others=count)
