"""Lines as kernels write them: what each entry of the table is for, what ends it, and what healthy machines say."""

from __future__ import annotations

from pathlib import Path

BDF = "0000:5e:00.0"
LINES: dict[str, tuple[str, str]] = {
    "soft_lockup": ("watchdog: BUG: soft lockup - CPU#31 stuck for 26s! [kworker/31:1:1234]", "CPU#31"),
    "hard_lockup": ("NMI watchdog: Watchdog detected hard LOCKUP on cpu 7", "cpu 7"),
    "rcu_stall": ("rcu: INFO: rcu_sched self-detected stall on CPU", "node"),
    "hung_task": ("INFO: task python3:4711 blocked for more than 122 seconds.", "node"),
    "clocksource": (
        "clocksource: timekeeping watchdog on CPU3: Marking clocksource 'tsc' as unstable because",
        "node",
    ),
    "throttled": ("CPU12: Core temperature is above threshold, cpu clock is throttled (total events = 1)", "CPU12"),
    "memory_uncorrected": (
        "EDAC MC1: 1 UE memory read error on CPU_SrcID#0_MC#1_Chan#0_DIMM#0 (channel:0 slot:0 page:0x6f1ea0)",
        "MC1",
    ),
    "memory_consumed": ("mce: Uncorrected hardware memory error in user-access at 3f1ea0c80", "node"),
    "machine_check_recoverable": ("{7}[Hardware Error]: event severity: recoverable", "node"),
    "memory_failed": ("Memory failure: 0x6f1ea0: recovery action for dirty LRU page: Failed", "node"),
    "machine_check_fatal": ("{1}[Hardware Error]: event severity: fatal", "node"),
    "memory_corrected": (
        "EDAC MC0: 1 CE memory read error on CPU_SrcID#0_MC#0_Chan#1_DIMM#0 (channel:1 slot:0 page:0x1)",
        "MC0",
    ),
    "pcie_recovery_failed": ("pcieport 0000:3a:00.0: AER: device recovery failed", "0000:3a:00.0"),
    "pcie_uncorrected": (f"pcieport 0000:3a:00.0: AER: Uncorrected (Fatal) error received: {BDF}", BDF),
    "pcie_corrected": (f"pcieport 0000:3a:00.0: AER: Correctable error message received from {BDF}", BDF),
    "pcie_link_down": ("pcieport 0000:3a:00.0: pciehp: Slot(12): Link Down", "0000:3a:00.0"),
    "gpu_init_failed": (f"NVRM: GPU {BDF}: RmInitAdapter failed! (0x62:0xffff:2360)", BDF),
    "gpu_asks_reset": (
        "NVRM: nvCheckOkFailedNoLog: Check failed: GPU requires reset [NV_ERR_RESET_REQUIRED] (0x00000075) returned",
        "node",
    ),
    "nvme_gone": ("nvme nvme3: Removing after probe failure status: -19", "nvme3"),
    "nvme_reset": ("nvme nvme3: I/O 12 QID 4 timeout, aborting", "nvme3"),
    "disk_io": ("blk_update_request: I/O error, dev nvme0n1, sector 1052672 op 0x0:(READ) flags 0x0", "nvme0n1"),
    "ext4_error": ("EXT4-fs error (device sda2): ext4_find_entry:1455: inode #2: comm ls: reading directory", "sda2"),
    "xfs_error": ("XFS (nvme1n1p1): Corruption detected. Unmount and run xfs_repair", "nvme1n1p1"),
    "raid_failed": ("md/raid1:md0: Disk failure on sdb1, disabling device.", "md0"),
    "nic_firmware": (
        f"mlx5_core {BDF}: poll_health:712:(pid 0): device's health compromised - reached miss count",
        BDF,
    ),
    "nic_transmit": ("NETDEV WATCHDOG: ens2f0np0 (mlx5_core): transmit queue 17 timed out", "ens2f0np0"),
    "nic_hot": (f"mlx5_core {BDF}: temp_warn:180:(pid 0): High temperature on sensors with bit set 0 1", BDF),
    "nic_cable": (f"mlx5_core {BDF}: Port module event[error]: module 0, Cable error, Bus stuck", BDF),
    "nfs_silent": ("nfs: server filer1.example.org not responding, still trying", "filer1.example.org"),
    "lustre_evicted": (
        "LustreError: 167-0: scratch-OST0006-osc-ffff8803f4bb9000: This client was evicted by scratch-OST0006;",
        "scratch-OST0006",
    ),
    "lustre_lost": (
        "Lustre: scratch-MDT0000-mdc-ffff88: Connection to scratch-MDT0000 (at 172.16.0.1@o2ib) was lost; in progress",
        "scratch-MDT0000",
    ),
    "nfs_locks_lost": ("NFS: __nfs4_reclaim_open_state: Lock reclaim failed!", "node"),
    "nfs_lease": ("NFS: state manager: lease expired failed on NFSv4 server filer1 with error 10021", "filer1"),
    "nfs_same_client": ("NFS: Server 192.168.11.134 reports our clientid is in use", "192.168.11.134"),
    "lustre_bug": ("LustreError: 4711:0:(osc_cache.c:3134:osc_cache_writeback_range()) LBUG", "node"),
    "gpfs_broken": ("GPFS Deadman Switch timer [0] has expired; IOs in progress.", "node"),
    "beegfs_silent": (
        "beegfs: Messaging (RPC): Retrying communication with node: beegfs-storage storage01 [ID: 1]",
        "storage storage01",
    ),
    "ceph_silent": ("ceph: mds0 hung", "mds0"),
    "ceph_evicted": ("ceph: mds0 rejected session", "mds0"),
    "ceph_monitors": ("libceph: mon0 (2)192.168.1.81:3300 session lost, hunting for new mon", "node"),
    "cifs_silent": (
        "CIFS: VFS: \\\\filer2.example.org has not responded in 180 seconds. Reconnecting...",
        "filer2.example.org",
    ),
    "ext4_read_only": ("EXT4-fs (sda2): Remounting filesystem read-only", "sda2"),
    "btrfs_error": ("BTRFS error (device sdb1): bdev /dev/sdb1 errs: wr 1, rd 0, flush 0, corrupt 0, gen 0", "sdb1"),
    "zfs_suspended": (
        "WARNING: Pool 'tank' has encountered an uncorrectable I/O failure and has been suspended.",
        "tank",
    ),
    "nvme_media": ("nvme0n1: Read(0x2) @ LBA 1052672, 8 blocks, Unrecovered Read Error (sct 0x2 / sc 0x81)", "nvme0n1"),
    "disk_offline": ("sd 2:0:0:0: rejecting I/O to offline device", "2:0:0:0"),
    "disk_path": ("device-mapper: multipath: 253:3: Failing path 8:16.", "8:16"),
}
CLEARS = {
    "throttled": "CPU12: Core temperature/speed normal (total events = 1)",
    "pcie_recovery_failed": "pcieport 0000:3a:00.0: AER: device recovery successful",
    "pcie_link_down": "pcieport 0000:3a:00.0: pciehp: Slot(12): Link Up",
    "nic_firmware": f"mlx5_core {BDF}: mlx5_health_try_recover:333:(pid 1): health recovery succeeded",
    "nic_cable": f"mlx5_core {BDF}: Port module event: module 0, Cable plugged",
    "nfs_silent": "nfs: server filer1.example.org OK",
    "beegfs_silent": "beegfs: NodeConn (acquire stream): Connected: beegfs-storage storage01 [ID: 1] (protocol: TCP)",
    "ceph_silent": "ceph: mds0 caps renewed",
    "ceph_monitors": "libceph: mon1 (2)192.168.1.82:3300 session established",
    "disk_path": "device-mapper: multipath: 253:3: Reinstating path 8:16.",
    "lustre_lost": "Lustre: scratch-MDT0000-mdc-ffff88: Connection restored to scratch-MDT0000 (at 172.16.0.1@o2ib)",
}
# What a healthy machine says every day, at boot and after.
HARMLESS = (
    "XFS (nvme1n1p1): Mounting V5 Filesystem",
    "XFS (nvme1n1p1): Ending clean mount",
    "EXT4-fs (sda2): mounted filesystem with ordered data mode. Quota mode: none.",
    "blk_update_request: I/O error, dev loop0, sector 0 op 0x0:(READ)",
    "Buffer I/O error on dev loop3, logical block 4, async page read",
    "SQUASHFS error: zlib decompression failed, data probably corrupt",
    "blk_update_request: critical target error, dev sr0, sector 0",
    "EDAC MC0: Giving out device to module skx_edac controller Skylake Socket#0 IMC#0: DEV 0000:3a:0a.0 (INTERRUPT)",
    "mce: [Hardware Error]: Machine check events logged",
    "{1}[Hardware Error]: event severity: corrected",
    "rcu: Hierarchical RCU implementation.",
    "clocksource: Switched to clocksource tsc",
    f"mlx5_core {BDF}: firmware version: 28.39.1002",
    f"mlx5_core {BDF}: Port module event: module 0, Cable plugged",
    f"mlx5_core {BDF}: 504.112 Gb/s available PCIe bandwidth (32.0 GT/s PCIe x16 link)",
    "nvme nvme3: 16/0/0 default/read/poll queues",
    "pcieport 0000:3a:00.0: AER: enabled with IRQ 34",
    "Memory cgroup out of memory: Killed process 4711 (python3) total-vm:1kB, anon-rss:1kB",
    "watchdog: hard lockup detector is enabled",
    "Lustre: Lustre: Build Version: 2.15.3",
    "nfs: Deprecated parameter 'intr'",
)
_DATA = Path(__file__).parent / "data"
# The same troubles in the words of other kernels (4.18 to 6.8), and more of what healthy machines say.
VARIANTS = [line.split("|", 1) for line in (_DATA / "kernel_variants.txt").read_text().splitlines()]
HEALTHY = tuple((_DATA / "kernel_healthy.txt").read_text().splitlines())
# Where the kernel repeats a text of a user's: options and paths of a mount in his own namespace, a group's name.
REPEATED = (
    "overlayfs: failed to resolve '{}': -2",
    'overlayfs: unrecognized mount option "{}" or missing value',
    "tmpfs: Unknown parameter '{}'",
    "fuse: Unknown parameter '{}'",
    "cgroup: fork rejected by pids controller in /{}",
)
