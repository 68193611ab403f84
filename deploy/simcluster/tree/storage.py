"""What a simulated node tells of its disks, its arrays and the clients of its shared file systems."""

from __future__ import annotations

import json
from collections.abc import Mapping

from deploy.simcluster.tree.board import Identity
from deploy.simcluster.tree.commands import recording

DISKS = 8
MODEL, FIRMWARE = "Simulated NVMe 3.84TB", "SIM1.0"
SERVERS = ("MDT0000", "OST0000", "OST0001", "OST0002", "OST0003")
CLIENT = "ffff8f2b6f3a9000"
_HISTORY = "current_state: {state}\nstate_history:\n - [ 1764580000, CONNECTING ]\n - [ 1764580001, FULL ]\n{more}"


def files(identity: Identity) -> dict[str, str | bytes]:
    """Return the files of a node whose storage is well."""
    tree: dict[str, str | bytes] = {
        "proc/mdstat": mdstat(),
        "proc/swaps": "Filename\t\t\t\tType\t\tSize\t\tUsed\t\tPriority\n",
        "proc/1/mountstats": mountstats(),
        "sys/fs/lustre/health_check": "healthy\n",
        "etc/passwd": "root:x:0:0:root:/root:/bin/bash\nnodevet:x:64123:64123::/:/usr/sbin/nologin\n",
    }
    for server in SERVERS:
        tree |= connection(server)
    for disk in range(DISKS):
        tree |= nvme(disk, identity) | smart_log(disk)
    return tree


def nvme(disk: int, identity: Identity, state: str = "live") -> dict[str, str | bytes]:
    """Return what sysfs has of one controller."""
    home = f"sys/class/nvme/nvme{disk}"
    values = {"state": state, "transport": "pcie", "model": MODEL, "firmware_rev": FIRMWARE}
    values["serial"] = f"SIM-{identity.name}-{disk}"
    return {f"{home}/{name}": f"{value}\n" for name, value in values.items()}


def smart_log(disk: int, **more: int) -> dict[str, str | bytes]:
    """Return what nvme-cli says of one disk; ``more`` replaces healthy figures."""
    log: Mapping[str, int] = {
        "critical_warning": 0, "temperature": 311, "avail_spare": 100, "spare_thresh": 10, "percent_used": 3,
        "media_errors": 0, "num_err_log_entries": 12, **more,
    }  # fmt: skip
    return {recording("nvme", "smart-log", "--output-format=json", f"/dev/nvme{disk}"): json.dumps(log) + "\n"}


def mdstat(*, failed: bool = False) -> str:
    """Return the kernel's table of arrays: a mirror of two disks."""
    member, counts = ("sdb2[1](F)", "[2/1] [U_]") if failed else ("sdb2[1]", "[2/2] [UU]")
    array = f"md0 : active raid1 {member} sda2[0]\n      937202752 blocks super 1.2 {counts}\n"
    return f"Personalities : [raid1]\n{array}\nunused devices: <none>\n"


def connection(server: str, state: str = "FULL", more: str = "") -> dict[str, str | bytes]:
    """Return what the Lustre client has of one server; ``more`` are lines of its past states."""
    kind, name = ("mdc", "mds_server_uuid") if server.startswith("MDT") else ("osc", "ost_server_uuid")
    home = f"sys/fs/lustre/{kind}/scratch-{server}-{kind}-{CLIENT}"
    return {
        f"{home}/{name}": f"scratch-{server}_UUID\t{state}\n",
        f"{home}/state": _HISTORY.format(state=state, more=more),
    }


def mountstats(*, sent: int = 5000, received: int = 5000) -> str:
    """Return the NFS client's counters of the one server of /home."""
    return (
        "device storage:/home mounted on /home with fstype nfs4 statvers=1.1\n"
        "\topts:\trw,vers=4.2,hard,proto=tcp,timeo=600,retrans=2\n\tage:\t345678\n"
        f"\txprt:\ttcp 0 1 2 0 3 {sent} {received} 0 5600 0 2 100 200\n\tper-op statistics\n"
        f"\t        READ: {received} {received} 0 20000 4000000 3 900 950 0\n"
    )
