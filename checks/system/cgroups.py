"""Control groups are of the kind that Slurm is set up for, with its controllers, and none of them pile up."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from checks.declare import Skip, check, code, ok
from checks.host import Host
from checks.wire import Finding

ROOT = "/sys/fs/cgroup"
VERSION = code(
    "cgroup_version_wrong",
    "warn",
    "config",
    "control groups are of version {version}, expected {expected}",
    explain="Slurm's plugin and containers are set up for another one: steps fail to start or are not contained. "
    "Confirm: `stat -fc %T /sys/fs/cgroup` (cgroup2fs = 2, tmpfs = 1). Do: boot with or without "
    "systemd.unified_cgroup_hierarchy=1; set CgroupPlugin in cgroup.conf.",
)
CONTROLLER = code(
    "cgroup_controller_absent",
    "warn",
    "config",
    "controller {controller} is not {lacking}",
    explain="Slurm cannot hold jobs to their share of it. Confirm: `cat /sys/fs/cgroup/cgroup.controllers`, "
    "`cat /sys/fs/cgroup/cgroup.subtree_control`, `cat /proc/cgroups`. Do: boot without cgroup_disable=; let systemd "
    "delegate it (Delegate=yes in slurmd's unit, or EnableControllers=yes in cgroup.conf).",
)
MANY = code(
    "cgroups_many",
    "warn",
    "node",
    "{groups} control groups with memory accounting, limit {limit} of {most}",
    explain="Ended ones stay as long as a page belongs to them; at 65,535 no new step can start. "
    "Confirm: `grep memory /proc/cgroups`, `cat /sys/fs/cgroup/cgroup.stat`. "
    "Do: when idle `echo 2 > /proc/sys/vm/drop_caches`; if the number stays, reboot.",
)
LEFT = code(
    "job_cgroups_left",
    "warn",
    "config",
    "{groups} control groups of jobs without a process, limit {limit}",
    explain="slurmstepd could not remove them when its jobs ended. Confirm: `systemd-cgls`, the log of slurmd. "
    "Do: remove them with rmdir when no job runs; see the release notes of Slurm for its fixes.",
)
MOST = 65_535
"""Identifiers that the kernel has for groups with memory accounting."""
_JOBS_V2 = ("system.slice/slurmstepd.scope/job_*", "system.slice/*_slurmstepd.scope/job_*")
_JOBS_V1 = ("freezer/slurm*/uid_*/job_*", "memory/slurm*/uid_*/job_*")
_GROUPS_LIMIT = 5000


@check(lane="system", interval=300, timeout=3.0, codes=(VERSION, CONTROLLER, MANY, LEFT))
def cgroups(
    host: Host,
    *,
    version: int = 0,
    controllers: tuple[str, ...] = (),
    many_pct: int = 80,
    max_left: int = 100,
) -> Iterator[Finding]:
    """``version`` (1 or 2) and ``controllers`` as named, groups well below the kernel's limit, none left of ended jobs.

    Controllers of version 2 are looked for in what the root hands down; ``devices`` is built in there (eBPF). A mixed
    tree counts as version 1, as Slurm takes it. Confirm by hand: ``stat -fc %T /sys/fs/cgroup``, ``cat /proc/cgroups``.

    ``many_pct``: of the 65,535 groups that the kernel has room for. ``max_left``: groups of ended jobs.
    """
    unified = host.path(f"{ROOT}/cgroup.controllers").is_file()
    if not unified and not host.path(ROOT).is_dir():
        raise Skip("no control groups are mounted")
    found = 2 if unified else 1
    if version and found != version:
        yield VERSION("node", version=found, expected=version)
    counts = _counts(host)
    yield from _lacking(host, unified, controllers, counts)
    groups, limit = counts.get("memory", (0, True))[0], MOST * many_pct // 100
    if groups > limit:
        yield MANY("node", groups=groups, limit=limit, most=MOST)
    left = _left(host, unified)
    if left > max_left:
        yield LEFT("node", groups=left, limit=max_left)
    yield ok("node", f"version {found}, {groups} groups", version=found, groups=groups, left=left)


def _counts(host: Host) -> dict[str, tuple[int, bool]]:
    """Groups (ended ones that still hold something included) and whether it is enabled, of each controller."""
    try:
        lines = host.read("/proc/cgroups").splitlines()
    except OSError:
        return {}  # kernels that are built for version 2 only
    rows = (line.split() for line in lines if not line.startswith("#"))
    return {row[0]: (int(row[2]), row[3] == "1") for row in rows if len(row) >= 4}


def _lacking(
    host: Host, unified: bool, wanted: tuple[str, ...], counts: dict[str, tuple[int, bool]]
) -> Iterator[Finding]:
    if not wanted:
        return
    if not unified:
        for name in wanted:
            if not counts.get(name, (0, False))[1]:
                yield CONTROLLER(name, controller=name, lacking="enabled in the kernel")
        return
    known = host.read(f"{ROOT}/cgroup.controllers").split()
    handed = host.read(f"{ROOT}/cgroup.subtree_control").split()
    for name in wanted:
        if name == "devices":
            continue
        if name not in known:
            yield CONTROLLER(name, controller=name, lacking="enabled in the kernel")
        elif name not in handed:
            yield CONTROLLER(name, controller=name, lacking="handed down by the root group")


def _left(host: Host, unified: bool) -> int:
    """Groups of jobs in which nothing lives; each job is counted once, in whichever tree has most."""
    patterns = _JOBS_V2 if unified else _JOBS_V1
    seen = [host.glob(f"{ROOT}/{pattern}")[:_GROUPS_LIMIT] for pattern in patterns]
    dead = [sum(_empty(host, path, unified) for path in paths) for paths in seen]
    return sum(dead) if unified else max(dead, default=0)


def _empty(host: Host, path: Path, unified: bool) -> bool:
    if unified:
        try:
            return "populated 0" in host.read(path / "cgroup.events")
        except OSError:
            return False
    # Version 1 does not tell of groups below: one with a group of a step in it is not judged.
    try:
        with os.scandir(path) as entries:
            below = any(entry.is_dir(follow_symlinks=False) for entry in entries)
        return not below and not host.read(path / "cgroup.procs").strip()
    except OSError:
        return False
