"""Control groups of version 2 as a node with systemd and Slurm shows them."""

from __future__ import annotations

CONTROLLERS = ("cpuset", "cpu", "io", "memory", "hugetlb", "pids", "rdma", "misc")
_ROOT = "sys/fs/cgroup"


def files(*, memory: int = 180) -> dict[str, str | bytes]:
    """Return the files of a healthy tree; ``memory`` is the number of groups with memory accounting."""
    names = " ".join(CONTROLLERS) + "\n"
    rows = "".join(f"{name}\t0\t{memory}\t1\n" for name in CONTROLLERS)
    return {
        "proc/cgroups": "#subsys_name\thierarchy\tnum_cgroups\tenabled\n" + rows,
        f"{_ROOT}/cgroup.controllers": names,
        f"{_ROOT}/cgroup.subtree_control": names,
        f"{_ROOT}/cgroup.stat": f"nr_descendants {memory}\nnr_dying_descendants 12\n",
        f"{_ROOT}/system.slice/slurmstepd.scope/cgroup.controllers": names,
        f"{_ROOT}/system.slice/slurmstepd.scope/cgroup.events": "populated 1\nfrozen 0\n",
    }


def ended_jobs(count: int) -> dict[str, str | bytes]:
    """Return the groups of ``count`` jobs that have ended and were not removed."""
    scope = f"{_ROOT}/system.slice/slurmstepd.scope"
    return {f"{scope}/job_{5000 + n}/cgroup.events": "populated 0\nfrozen 0\n" for n in range(count)}
