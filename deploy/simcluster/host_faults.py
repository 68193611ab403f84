"""Faults of a simulated node's memory, clock, services, processes and system."""

from __future__ import annotations

from deploy.simcluster.faults import Effects, Site, fault
from deploy.simcluster.tree import commands, controller, firmware, groups, proc


@fault
def memory_missing(site: Site, *, gib: int = 64) -> Effects:
    """Memory modules are gone, all from one socket: the node has less memory than it should."""
    board = site.board
    gone = -(-gib // board.module_gib)
    return Effects(
        files={
            "proc/meminfo": proc.meminfo(board.memory_kib - (gib << 20)),
            **proc.numa_memory(1, board.memory_kib // 2 - (gib << 20)),
            **firmware.files(board, gone=range(board.modules - gone, board.modules)),
        }
    )


@fault
def memory_slow(site: Site, *, module: int = 3, mts: int = 4000) -> Effects:
    """The firmware runs one memory module slower than the others."""
    return Effects(files=firmware.files(site.board, slow={module: mts}))


@fault
def reboot_pending(site: Site, *, package: str = "linux-image-generic") -> Effects:
    """An update waits for a reboot."""
    return Effects(
        files={"run/reboot-required": "*** System restart required ***\n", "run/reboot-required.pkgs": f"{package}\n"}
    )


@fault
def cgroups_left(site: Site, *, groups_left: int = 200, memory: int = 60_000) -> Effects:
    """Control groups of ended jobs pile up."""
    return Effects(files={**groups.files(memory=memory), **groups.ended_jobs(groups_left)})


@fault
def user_process_left(site: Site, *, pid: int = 81234, uid: int = 20002, name: str = "python3") -> Effects:
    """A user's process outlives its job, in slurmd's own control group."""
    files = proc.process(pid, command=f"{name} -c pass", uid=uid, started=90 * 86_400, job=None)
    return Effects(files={**files, f"proc/{pid}/cgroup": "0::/system.slice/slurmd.service\n"})


@fault
def clock_skew(site: Site, *, seconds: float = 300.0) -> Effects:
    """The clock is off; chrony says so."""
    return Effects(files=dict(commands.chrony(seconds)))


@fault
def service_failed(site: Site, *, unit: str = "munge") -> Effects:
    """A systemd unit has failed."""
    return Effects(failed_units=frozenset({unit.removesuffix(".service")}))


@fault
def power_supply_lost(site: Site, *, supply: int = 2) -> Effects:
    """A power supply of the node gets no current; its BMC says so and logs it."""
    return Effects(files=controller.bmc(dead_supply=supply))


@fault
def fan_dead(site: Site, *, fan: int = 4) -> Effects:
    """A fan stands still; the BMC says so and logs it."""
    return Effects(files=controller.bmc(dead_fan=fan))
