"""What /proc and the CPU side of /sys tell: processors, memory, mounts, boot and the NVIDIA driver."""

from __future__ import annotations

from collections.abc import Iterable

from deploy.simcluster.tree.board import DRIVER, UPTIME, Board, Identity, bdf

MOUNTS = (
    # mount id, parent, device, where, options, type, source
    (22, 1, "8:2", "/", "rw,relatime", "ext4", "/dev/sda2"),
    (23, 22, "0:21", "/proc", "rw,nosuid,nodev,noexec,relatime", "proc", "proc"),
    (24, 22, "0:22", "/sys", "rw,nosuid,nodev,noexec,relatime", "sysfs", "sysfs"),
    (25, 22, "0:6", "/dev", "rw,nosuid", "devtmpfs", "devtmpfs"),
    (26, 25, "0:24", "/dev/shm", "rw,nosuid,nodev", "tmpfs", "tmpfs"),
    (27, 22, "0:31", "/tmp", "rw,nosuid,nodev", "tmpfs", "tmpfs"),
    (40, 22, "0:45", "/home", "rw,relatime,vers=4.2,hard", "nfs4", "storage:/home"),
    (41, 22, "0:46", "/scratch", "rw,relatime,flock", "lustre", "10.0.0.1@o2ib:/scratch"),
)
NVIDIA_MAJORS = {"nvidia": 195, "nvidia-modeset": 195, "nvidiactl": 195, "nvidia-uvm": 508, "nvidia-caps": 509}
MODULES = ("nvidia", "nvidia_uvm", "nvidia_modeset", "nvidia_peermem", "mlx5_core", "mlx5_ib", "ib_core", "lustre")


def files(board: Board, identity: Identity) -> dict[str, str | bytes]:
    """Return the files of /proc and of /sys/devices/system."""
    return {
        **mounts(()),
        "proc/1/comm": "systemd\n",
        "proc/devices": _devices(),
        "proc/meminfo": meminfo(board.memory_kib),
        "proc/uptime": f"{UPTIME}.00 {UPTIME * board.cpus}.00\n",
        "proc/loadavg": "0.12 0.20 0.18 1/2310 4242\n",
        "proc/stat": _stat(board, identity),
        "proc/cpuinfo": _cpuinfo(board),
        "proc/version": "Linux version 6.8.0-simulated (nodevet simulation) #1 SMP\n",
        "proc/cmdline": "BOOT_IMAGE=/vmlinuz root=/dev/sda2 ro\n",
        **modules(set()),
        "proc/sys/kernel/random/boot_id": f"{identity.boot_id}\n",
        "proc/sys/kernel/random/entropy_avail": "256\n",
        "proc/sys/kernel/random/poolsize": "256\n",
        "proc/sys/kernel/hostname": f"{identity.name}\n",
        "proc/sys/kernel/osrelease": "6.8.0-simulated\n",
        "proc/sys/kernel/pid_max": "4194304\n",
        "proc/sys/kernel/tainted": "12289\n",
        "proc/sys/kernel/threads-max": "16510000\n",
        "proc/sys/fs/file-nr": "9120\t0\t9223372036854775807\n",
        "proc/pressure/memory": "some avg10=0.00 avg60=0.00 avg300=0.00 total=0\n"
        "full avg10=0.00 avg60=0.00 avg300=0.00 total=0\n",
        **{f"sys/module/{name}/initstate": "live\n" for name in MODULES},
        "sys/module/nvidia/version": f"{DRIVER}\n",
        **_driver(board, identity),
        **_system(board),
    }


def mounts(extra: Iterable[str], *, without: str = "", read_only: str = "") -> dict[str, str | bytes]:
    """Return the mount tables; a path of ``extra`` that is not in them yet is added."""
    rows = [row for row in MOUNTS if row[3] != without]
    rows = [(*row[:4], row[4].replace("rw", "ro"), *row[5:]) if row[3] == read_only else row for row in rows]
    for where in extra:
        if where not in {row[3] for row in rows}:
            rows.append((50 + len(rows), 22, f"0:{60 + len(rows)}", where, "rw,relatime", "nfs4", f"storage:{where}"))
    table = "".join(f"{source} {where} {kind} {options} 0 0\n" for _, _, _, where, options, kind, source in rows)
    info = "".join(
        f"{number} {parent} {device} / {where} {options} - {kind} {source} {options.split(',')[0]}\n"
        for number, parent, device, where, options, kind, source in rows
    )
    return {
        "proc/mounts": table,
        "proc/self/mounts": table,
        "proc/self/mountinfo": info,
        "proc/1/mountinfo": info,
    }


def meminfo(total_kib: int) -> str:
    """Return /proc/meminfo of a mostly idle node."""
    figures = {
        "MemTotal": total_kib,
        "MemFree": total_kib * 94 // 100,
        "MemAvailable": total_kib * 96 // 100,
        "Buffers": 812_004,
        "Cached": total_kib * 2 // 100,
        "SwapTotal": 0,
        "SwapFree": 0,
        "Dirty": 1204,
        "AnonPages": 4_102_332,
        "Shmem": 51_212,
        "Slab": 2_204_112,
        "HardwareCorrupted": 0,
        "Hugepagesize": 2048,
    }
    return "".join(f"{name}:{value:>16} kB\n" for name, value in figures.items()) + "HugePages_Total:       0\n"


def _stat(board: Board, identity: Identity) -> str:
    jiffies = UPTIME * 100
    lines = [f"cpu  {jiffies} 0 {jiffies // 2} {jiffies * board.cpus} 1200 0 800 0 0 0"]
    lines += [f"cpu{cpu} {jiffies // 200} 0 {jiffies // 400} {jiffies} 5 0 3 0 0 0" for cpu in range(board.cpus)]
    lines += ["intr 0", "ctxt 918273645", f"btime {identity.btime}", "processes 4242", "procs_running 1"]
    return "\n".join([*lines, "procs_blocked 0", ""])


def _cpuinfo(board: Board) -> str:
    half = board.cpus // 2
    return "\n".join(
        f"processor\t: {cpu}\nvendor_id\t: GenuineIntel\nmodel name\t: Intel(R) Xeon(R) Platinum 8480+ (simulated)\n"
        f"microcode\t: 0x2b000603\ncpu MHz\t\t: 2000.000\nphysical id\t: {cpu % half * 2 // half}\n"
        f"siblings\t: {half}\ncore id\t\t: {cpu % (half // 2)}\ncpu cores\t: {half // 2}\n"
        "flags\t\t: fpu avx512f amx_tile\n"
        for cpu in range(board.cpus)
    )


def modules(without: set[str]) -> dict[str, str | bytes]:
    """Return the list of loaded kernel modules, all but some."""
    loaded = (name for name in MODULES if name not in without)
    return {"proc/modules": "".join(f"{name} 16384 1 - Live 0x0000000000000000\n" for name in loaded)}


def kernel_module(version: str, *, open_: bool = True) -> str:
    """Return /proc/driver/nvidia/version for a loaded kernel module of ``version``, of the open kind or not."""
    kind = "UNIX Open Kernel Module for x86_64" if open_ else "UNIX x86_64 Kernel Module"
    return (
        f"NVRM version: NVIDIA {kind}  {version}  Release Build  (simulated)\n"
        "GCC version:  gcc version 12.3.0 (Ubuntu 12.3.0-1ubuntu1~22.04)\n"
    )


def _devices() -> str:
    lines = [f"{major:3d} {name}\n" for name, major in {"mem": 1, **NVIDIA_MAJORS}.items()]
    return "".join(["Character devices:\n", *lines, "\nBlock devices:\n", "259 blkext\n"])


def _driver(board: Board, identity: Identity) -> dict[str, str | bytes]:
    tree: dict[str, str | bytes] = {
        "proc/driver/nvidia/version": kernel_module(DRIVER),
        "proc/driver/nvidia/params": "ModifyDeviceFiles: 1\nDeviceFileUID: 0\nDeviceFileGID: 0\nDeviceFileMode: 438\n",
    }
    for gpu, bus in enumerate(board.gpus):
        about = {
            "Model": "NVIDIA H100 80GB HBM3",
            "IRQ": str(32 + bus),
            "GPU UUID": identity.gpu_uuid(gpu),
            "Video BIOS": "96.00.99.00.01",
            "Bus Type": "PCIe",
            "Bus Location": bdf(bus),
            "Device Minor": str(board.minors[gpu]),
            "GPU Firmware": DRIVER,
            "GPU Excluded": "No",
        }
        text = "".join(f"{name}: \t {value}\n" for name, value in about.items())
        tree[f"proc/driver/nvidia/gpus/{bdf(bus)}/information"] = text
    return tree


def _system(board: Board) -> dict[str, str | bytes]:
    half = board.cpus // 2
    everyone = f"0-{board.cpus - 1}\n"
    tree: dict[str, str | bytes] = {f"sys/devices/system/cpu/{name}": everyone for name in ("present", "online")}
    tree["sys/devices/system/cpu/offline"] = "\n"
    for node in range(2):
        home = f"sys/devices/system/node/node{node}"
        tree[f"{home}/cpulist"] = f"{node * half}-{node * half + half - 1}\n"
        tree |= numa_memory(node, board.memory_kib // 2)
    for controller in range(8):
        home = f"sys/devices/system/edac/mc/mc{controller}"
        tree |= {f"{home}/mc_name": "Intel_10nm (simulated)\n", f"{home}/ce_count": "0\n", f"{home}/ue_count": "0\n"}
    return tree


def numa_memory(node: int, kib: int) -> dict[str, str | bytes]:
    """Return the file that tells the memory of one NUMA node."""
    return {f"sys/devices/system/node/node{node}/meminfo": f"Node {node} MemTotal:       {kib} kB\n"}


def process(pid: int, *, command: str, uid: int, started: int, job: int | None) -> dict[str, str | bytes]:
    """Return the files of /proc/PID of a user's process, ``started`` ticks after boot; ``job`` None = a session."""
    session = f"user.slice/user-{uid}.slice/session-7.scope"
    group = session if job is None else f"system.slice/slurmstepd.scope/job_{job}/step_batch/user/task_0"
    home = f"proc/{pid}"
    name = command.split()[0].rpartition("/")[2]
    return {
        f"{home}/comm": f"{name[:15]}\n",
        f"{home}/cmdline": command.replace(" ", "\0") + "\0",
        f"{home}/status": f"Name:\t{name[:15]}\nState:\tS (sleeping)\nPid:\t{pid}\nPPid:\t1\n"
        f"Uid:\t{uid}\t{uid}\t{uid}\t{uid}\nGid:\t{uid}\t{uid}\t{uid}\t{uid}\n",
        f"{home}/stat": f"{pid} ({name[:15]}) S 1 {pid} {pid} 0 -1 0 0 0 0 0 90 10 0 0 20 0 1 0 {started} 0 0\n",
        f"{home}/cgroup": f"0::/{group}\n",
    }
