"""Boot, limits, shared folders, entropy and control groups are told and never drain."""

from __future__ import annotations

from pathlib import Path

import pytest

from deploy.simcluster.tree import groups
from tests.checks.harmless import Tree, codes, found
from tests.fakes import Plant


def rooted(tree: dict[str, str | bytes]) -> Tree:
    return {f"/{path}": content for path, content in tree.items()}


# ---- boot


def booted(up: str = "86400.00 1.00", release: str = "6.8.0-60-generic", *modules: str) -> Tree:
    dep: Tree = {f"/lib/modules/{name}/modules.dep": "" for name in modules}
    return {"/proc/uptime": f"{up}\n", "/proc/sys/kernel/osrelease": f"{release}\n", **dep}


KERNELS = ("6.8.0-60-generic", "6.8.0-100-generic")


@pytest.mark.parametrize(
    ("tree", "options", "expected"),
    [
        (booted(), {}, ["ok"]),
        (booted(), {"max_days": 0.5}, ["uptime_long"]),
        (booted(), {"max_days": 2.0}, ["ok"]),
        (booted("30.5 1.0"), {"min_seconds": 600.0}, ["uptime_short"]),
        (booted("5702400.0 1.0"), {"max_days": 60.0}, ["uptime_long"]),
        (booted() | {"/run/reboot-required": ""}, {}, ["reboot_pending", "ok"]),
        (booted("86400 1", KERNELS[0], *KERNELS), {}, ["ok"]),
        (booted("86400 1", KERNELS[0], *KERNELS), {"newest_kernel": True}, ["kernel_not_newest", "ok"]),
        (booted("86400 1", KERNELS[1], *KERNELS), {"newest_kernel": True}, ["ok"]),
        (booted("86400 1", "6.8.0-50-generic", *KERNELS), {}, ["kernel_modules_gone", "ok"]),
        (booted() | {"/lib/modules/6.8.0-99-generic/left-over": ""}, {"newest_kernel": True}, ["ok"]),
        (booted("nothing"), {}, ["check_error"]),
    ],
)
def test_judges_the_boot(plant: Plant, tree: Tree, options: dict[str, object], expected: list[str]) -> None:
    """Like E35: a driver that hangs after 66 days is foreseen by a limit of the site's own."""
    assert codes(found(plant(tree), "boot", **options)) == expected


def test_names_the_packages_that_ask_and_no_text_of_any_kind(plant: Plant) -> None:
    tree = {"/run/reboot-required": "", "/run/reboot-required.pkgs": "linux-base\nlinux-base\n$(reboot)\nlibc6\n"}
    assert found(plant(booted() | tree), "boot")[0].message == "node waits for a reboot for linux-base, libc6"


# ---- limits

LIMITS = """Limit                     Soft Limit           Hard Limit           Units
Max cpu time              unlimited            unlimited            seconds
Max stack size            8388608              unlimited            bytes
Max open files            1024                 524288               files
Max locked memory         65536                65536                bytes
"""
SLURMD: Tree = {"/proc/812/comm": "slurmd\n", "/proc/812/limits": LIMITS, "/proc/77/comm": "slurmdbd\n"}


@pytest.mark.parametrize(
    ("tree", "options", "expected"),
    [
        (SLURMD, {}, ["not_applicable"]),
        (SLURMD, {"limits": ("stack=8M", "nofile=1024", "cpu=unlimited")}, ["ok"]),
        (SLURMD, {"limits": ("memlock=unlimited", "nofile = 131072")}, ["process_limit_low", "process_limit_low"]),
        (SLURMD, {"limits": ("memlock=64KiB",)}, ["ok"]),
        (SLURMD, {"limits": ("memory=1",)}, ["check_error"]),
        (SLURMD, {"limits": ("nproc=1",)}, ["check_error"]),
        ({"/proc/77/comm": "slurmdbd\n"}, {"limits": ("nofile=1",)}, ["not_applicable"]),
    ],
)
def test_judges_limits(plant: Plant, tree: Tree, options: dict[str, object], expected: list[str]) -> None:
    """Like E96: a large job ran out of open files, and the node is not blamed for it."""
    seen = found(plant(tree), "process_limits", **options)
    assert codes(seen) == expected
    assert {f.blame for f in seen if f.status == "warn"} <= {"config"}


# ---- shared folders

MOUNTS = "22 1 8:2 / / rw,relatime - ext4 /dev/sda2 rw\n"
SHM = "26 22 0:24 / /dev/shm rw - tmpfs tmpfs rw\n"


def folders(root: Path, mode: int = 0o1777) -> None:
    for name in ("tmp", "var/tmp", "dev/shm"):
        (root / name).mkdir(parents=True)
        (root / name).chmod(mode)


def test_judges_shared_folders(plant: Plant) -> None:
    host = plant({"/proc/1/mountinfo": MOUNTS + SHM})
    folders(host.root)
    assert codes(found(host, "temporary")) == ["ok"]
    (host.root / "tmp").chmod(0o777)
    (host.root / "dev/shm").chmod(0o755)
    seen = found(host, "temporary")
    assert [(f.code, f.target) for f in seen] == [("folder_mode_wrong", "/tmp"), ("folder_mode_wrong", "/dev/shm")]
    assert "777, expected 1777" in seen[0].message


def test_shared_memory_must_be_a_tmpfs(plant: Plant) -> None:
    host = plant({"/proc/1/mountinfo": MOUNTS + SHM.replace("tmpfs", "ext4")})
    assert codes(found(host, "temporary")) == ["shm_absent"]


def test_a_folder_of_a_file_server_is_not_touched(plant: Plant) -> None:
    host = plant({"/proc/1/mountinfo": MOUNTS + SHM + "40 22 0:45 / /var/tmp rw - nfs4 store:/tmp rw\n"})
    folders(host.root)
    (host.root / "var/tmp").chmod(0o700)
    assert codes(found(host, "temporary")) == ["ok"]


def test_modes_of_a_copied_tree_say_nothing(plant: Plant) -> None:
    host = plant({"/proc/1/mountinfo": MOUNTS + SHM})
    folders(host.root, 0o755)
    host.simulated = False
    assert codes(found(host, "temporary")) == ["ok"]


@pytest.mark.parametrize(
    ("size_mib", "used_mib", "options", "expected"),
    [
        (1024, 10, {}, "ok"),
        (1024, 1000, {}, "shm_full"),
        (1024, 1000, {"max_used_pct": 99.0}, "ok"),
        (1024, 10, {"min_gib": 2.0}, "shm_small"),
    ],
)
def test_judges_room_in_shared_memory(
    plant: Plant,
    monkeypatch: pytest.MonkeyPatch,
    size_mib: int,
    used_mib: int,
    options: dict[str, object],
    expected: str,
) -> None:
    import os

    host = plant({"/proc/1/mountinfo": MOUNTS + SHM})
    free = size_mib - used_mib
    space = os.statvfs_result((1 << 20, 1 << 20, size_mib, free, free, 0, 0, 0, 0, 255))
    monkeypatch.setattr(os.path, "ismount", lambda path: True)
    monkeypatch.setattr(os, "statvfs", lambda path: space)
    (seen,) = found(host, "temporary", **options)
    assert (seen.code, seen.target) == (expected, "/dev/shm")
    assert seen.blame in (None, "job", "config"), "anybody can fill it: never the node's fault"


# ---- entropy


@pytest.mark.parametrize(
    ("pool", "bits", "expected"),
    [("4096", "3200", "ok"), ("4096", "40", "entropy_low"), ("256", "40", "not_applicable"), ("x", "1", "check_error")],
)
def test_judges_entropy_of_old_kernels_only(plant: Plant, pool: str, bits: str, expected: str) -> None:
    base = "/proc/sys/kernel/random"
    assert codes(found(plant({f"{base}/poolsize": pool, f"{base}/entropy_avail": bits}), "entropy")) == [expected]


# ---- control groups

V2 = rooted(groups.files())
V1: Tree = {
    "/proc/cgroups": "#subsys_name\thierarchy\tnum_cgroups\tenabled\ncpuset\t3\t9\t1\nmemory\t4\t95\t0\n",
    "/sys/fs/cgroup/freezer/slurm/uid_1000/job_7/cgroup.procs": "",
    "/sys/fs/cgroup/freezer/slurm/uid_1000/job_8/cgroup.procs": "4711\n",
    "/sys/fs/cgroup/freezer/slurm/uid_1000/job_9/step_0/cgroup.procs": "4712\n",
    "/sys/fs/cgroup/freezer/slurm/uid_1000/job_9/cgroup.procs": "",
}
HANDED = {"/sys/fs/cgroup/cgroup.subtree_control": "cpu memory\n"}


@pytest.mark.parametrize(
    ("tree", "options", "expected"),
    [
        (V2, {}, ["ok"]),
        (V2, {"version": 2, "controllers": ("cpuset", "cpu", "memory", "devices")}, ["ok"]),
        (V2, {"version": 1}, ["cgroup_version_wrong", "ok"]),
        (V2 | HANDED, {"controllers": ("cpuset",)}, ["cgroup_controller_absent", "ok"]),
        (V2, {"controllers": ("net_cls",)}, ["cgroup_controller_absent", "ok"]),
        (V1, {"version": 2}, ["cgroup_version_wrong", "ok"]),
        (V1, {"version": 1, "controllers": ("cpuset",)}, ["ok"]),
        (V1, {"controllers": ("memory", "devices")}, ["cgroup_controller_absent", "cgroup_controller_absent", "ok"]),
        (V1, {"max_left": 0}, ["job_cgroups_left", "ok"]),
        (rooted(groups.files(memory=60_000)), {}, ["cgroups_many", "ok"]),
        (V2 | rooted(groups.ended_jobs(101)), {}, ["job_cgroups_left", "ok"]),
        (V2 | rooted(groups.ended_jobs(100)), {}, ["ok"]),
        ({}, {"version": 2}, ["not_applicable"]),
    ],
)
def test_judges_control_groups(plant: Plant, tree: Tree, options: dict[str, object], expected: list[str]) -> None:
    assert codes(found(plant(tree), "cgroups", **options)) == expected


# ---- image

IMAGE: Tree = {
    "/etc/os-release": "NAME=\"Ubuntu\"\nVERSION_ID='22.04'\nID=ubuntu\n#X=1\nIMAGE_VERSION=2026.11.3\nbad\n",
    "/etc/image-version": "gpu-7.2\nmore\n",
}


@pytest.mark.parametrize(
    ("tree", "options", "expected"),
    [
        (IMAGE, {}, ["not_applicable"]),
        (IMAGE, {"release": ("ID=ubuntu", "VERSION_ID=22.04", "NAME=Ubuntu", "IMAGE_VERSION=2026.11.*")}, ["ok"]),
        (IMAGE, {"release": ("VERSION_ID=24.04", "VARIANT=x")}, ["os_image_wrong", "os_image_wrong"]),
        (IMAGE, {"files": ("/etc/image-version=gpu-7*",)}, ["ok"]),
        (IMAGE, {"files": ("/etc/image-version=gpu-8*", "/etc/none=1")}, ["os_image_wrong", "os_image_wrong"]),
        (IMAGE, {"release": ("ubuntu",)}, ["check_error"]),
        ({"/usr/lib/os-release": "ID=rocky\n"}, {"release": ("ID=rocky",)}, ["ok"]),
        ({}, {"release": ("ID=rocky",)}, ["check_error"]),
    ],
)
def test_judges_the_image(plant: Plant, tree: Tree, options: dict[str, object], expected: list[str]) -> None:
    assert codes(found(plant(tree), "os_image", **options)) == expected


# ---- processors and services


@pytest.mark.parametrize(
    ("shown", "wanted", "expected"),
    [
        ("0x2b000603", "", ["ok"]),
        ("0x2b000603", "0x2b000603", ["ok"]),
        ("0x2b000590", "0x2b000603", ["ok", "cpu_microcode_old"]),
        ("0xa0011d1", "0xb000000", ["ok", "cpu_microcode_old"]),
        ("0xffffffff", "0x2b000603", ["ok"]),
    ],
)
def test_microcode_has_a_least_revision(plant: Plant, shown: str, wanted: str, expected: list[str]) -> None:
    cpus = "/sys/devices/system/cpu"
    tree = {
        f"{cpus}/online": "0\n",
        f"{cpus}/present": "0\n",
        "/proc/cpuinfo": f"processor : 0\nmicrocode\t: {shown}\n",
    }
    assert codes(found(plant(tree), "processors", microcode=wanted)) == expected


@pytest.mark.parametrize(
    ("state", "expected"),
    [
        ("loaded active running", ["service_unwanted"]),
        ("loaded activating start", ["service_unwanted"]),
        ("loaded inactive dead", ["ok"]),
        ("loaded failed failed", ["ok"]),
        ("not-found inactive dead", ["ok"]),
    ],
)
def test_a_forbidden_service_may_be_absent(plant: Plant, state: str, expected: list[str]) -> None:
    """Like E22, the other way round: not installed and failed are both not running."""
    load_state, active, sub = state.split()
    record = "/nodevet-commands/systemctl_show_-p_LoadState,ActiveState,SubState_apt-daily.timer"
    text = f"LoadState={load_state}\nActiveState={active}\nSubState={sub}\n"
    assert codes(found(plant({record: text}), "services", forbidden=("apt-daily.timer",))) == expected
