"""Whatever stands in a source, no question about disks and file systems ends in an exception or a fault of the node."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from checks.catalog import load
from checks.fs.mounts import mounts
from checks.runner import run_check
from tests.fakes import planter, write_tree

KNOWN = load()
INFO = "/proc/self/mountinfo"
ROOT = "22 1 8:2 / / rw - ext4 /dev/sda2 rw\n"
LINES = (
    ROOT,
    "40 22 0:45 / /gpfs rw - gpfs gpfs0 rw\n",
    "41 22 0:45 / /weka rw - wekafs default rw\n",
    "md0 : active raid1 sdb1[1](F) sda1[0]\n      1 blocks [2/1] [U_]\n",
    "device filer:/x mounted on /h with fstype nfs4 statvers=1.1\n",
    "\txprt:\ttcp 0 1 2 0 3 5000 4000 0 5600 0 2 100 200\n\t        READ: 7 9 0 700 7000 0 7 7 0\n",
    "fs-OST0000_UUID\tDISCONN\n",
    "state_history:\n - [ 1764500000, EVICTED ]\n",
    "[Target ID: 101] @ beegfs-storage storage01 [ID: 1]: Offline / Bad \n",
    "GW driver_state: DRIVER_DRAINING\nContainer=c FE 0: Disconnected\n",
    "blocklisted: true\n17\tmds0\tgetattr\t #1\n",
    "LBUG\n",
    "SUSPENDED\n",
    "/dev/sda3 partition 8388604 0 -2\n",
    '{"critical_warning": 255, "percent_used": 1e99, "avail_spare": null, "spare_thresh": []}',
    '{"smart_status": {"passed": false}, "ata_smart_attributes": {"table": [{"id": 5, "raw": {"value": "x"}}]}}',
    '{"report": [{"lv": [{"vg_name": "vg0", "lv_name": 3, "lv_attr": "", "lv_health_status": "x"}]}]}',
    "mmhealth:State:0:1:::n1:GPFS:n1:NODE:FAILED:x:\n",
    "0x7fffffffffffffff\n",
)
SOURCES = (
    "/proc/mdstat", "/proc/swaps", "/proc/1/mountstats", "/proc/7/comm", "/proc/7/status", "/proc/wekafs/interface",
    "/sys/fs/lustre/health_check", "/proc/fs/lustre/osc/a-osc-f/ost_server_uuid", "/proc/fs/lustre/osc/a-osc-f/state",
    "/proc/fs/beegfs/c/storage_target_state", "/proc/fs/beegfs/c/mgmt_nodes", "/proc/spl/kstat/zfs/tank/state",
    "/sys/kernel/debug/ceph/f.client1/status", "/sys/kernel/debug/ceph/f.client1/mdsc",
    "/sys/block/sda/removable", "/sys/block/sda/device/vendor", "/sys/block/sda/device/state",
    "/sys/block/sda/device/ioerr_cnt", "/sys/block/dm-0/dm/uuid", "/sys/block/dm-0/dm/suspended",
    "/sys/class/nvme/nvme0/model", "/sys/class/nvme/nvme0/firmware_rev",
    "/nodevet-commands/nvme_smart-log_--output-format=json_.dev.nvme0",
    "/nodevet-commands/smartctl_-j_-n_standby_-H_-A_.dev.sda",
    "/nodevet-commands/lvs_--readonly_--reportformat_json_-o_vg_name,lv_name,lv_attr,lv_health_status",
    "/nodevet-commands/.usr.lpp.mmfs.bin.mmhealth_node_show_-Y",
)  # fmt: skip
OPTIONS: dict[str, dict[str, object]] = {
    "raid": {"arrays": ("md0",)}, "swap": {"forbidden": True}, "nfs_client": {}, "lustre": {}, "gpfs": {},
    "gpfs_health": {"enabled": True}, "beegfs": {}, "weka": {}, "ceph": {}, "zfs": {"pools": ("tank",)},
    "disk_state": {"paths": 2}, "disk_firmware": {}, "nvme_wear": {}, "smart": {}, "lvm": {"groups": ("vg0",)},
}  # fmt: skip

texts = st.one_of(
    st.text(max_size=200),
    st.lists(st.sampled_from(LINES), max_size=4).map("".join),
    st.tuples(st.sampled_from(LINES), st.integers(0, 60), st.text(max_size=4)).map(
        lambda t: t[0][: t[1]] + t[2] + t[0]
    ),
)


@pytest.mark.parametrize("name", sorted(OPTIONS))
@settings(max_examples=8, deadline=None, suppress_health_check=list(HealthCheck))
@given(text=texts, mounted=st.sampled_from(["".join(LINES[:3]), ROOT]))
def test_no_text_is_a_fault_of_the_node(name: str, text: str, mounted: str) -> None:
    """E52: what cannot be understood is unknown; what can be is at most a warning."""
    with tempfile.TemporaryDirectory() as folder:
        host = planter(Path(folder))({INFO: mounted})
        host.clock = iter(range(1000, 99_000, 500)).__next__
        clean = text.encode("utf-8", "replace")
        write_tree(host.root, dict.fromkeys(SOURCES, clean))
        for _ in range(2):
            found = run_check(KNOWN[name], host, OPTIONS[name]).findings
            assert found
            assert not [f for f in found if f.status == "fail"]


@settings(max_examples=60, deadline=None)
@given(st.lists(st.one_of(st.text(max_size=80), st.sampled_from(LINES)), max_size=12).map("\n".join))
def test_a_list_of_mounts_is_read_or_refused(text: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        host = planter(Path(folder))()
        write_tree(host.root, {INFO: text.encode("utf-8", "replace")})
        try:
            known = mounts(host)
        except ValueError:
            return
        assert all(where == found.where for where, found in known.items())
