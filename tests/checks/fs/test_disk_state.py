"""Disks are judged by the kernel's own words and by what grew, pools, arrays and groups by their own tables."""

from __future__ import annotations

import json

import pytest

from checks import CHECKS, Finding, Host
from checks.catalog import load
from checks.runner import run_check
from tests.fakes import Plant

KNOWN = load()
Tree = dict[str, str | bytes]


def found(host: Host, name: str, **options: object) -> list[Finding]:
    return list(run_check(KNOWN[name], host, options).findings)


def told(host: Host, name: str, **options: object) -> list[tuple[str, str]]:
    return [(f.target, f.code) for f in found(host, name, **options) if f.status != "ok"]


def sd(name: str = "sda", state: str = "running", errors: int = 7, removable: int = 0) -> Tree:
    home = f"/sys/block/{name}"
    return {
        f"{home}/removable": f"{removable}\n",
        f"{home}/device/state": f"{state}\n",
        f"{home}/device/ioerr_cnt": f"{errors:#x}\n",
        f"{home}/device/vendor": "ATA     \n",
    }


@pytest.mark.parametrize(
    ("tree", "expected"),
    [
        (sd(), []),
        (sd(errors=90_000), []),
        (sd(state="offline"), [("sda", "disk_offline")]),
        (sd("sdaa", state="transport-offline"), [("sdaa", "disk_offline")]),
        (sd(state="offline", removable=1), []),
        (sd() | {"/sys/block/sda/device/ioerr_cnt": "rubbish"}, []),
    ],
)
def test_judges_the_state_of_a_disk(plant: Plant, tree: Tree, expected: list[tuple[str, str]]) -> None:
    assert told(plant(tree), "disk_state") == expected


def test_failed_commands_count_by_the_hour_and_never_by_their_life(plant: Plant) -> None:
    host, clock = plant(sd(errors=9000)), [1000.0]
    host.clock = lambda: clock[0]
    counter = host.path("/sys/block/sda/device/ioerr_cnt")
    for errors, expected in ((9000, []), (9050, []), (9051, ["more"]), (3, []), (54, ["again"])):
        counter.write_text(f"{errors:#x}\n")
        clock[0] += 300
        assert len(told(host, "disk_state")) == len(expected), errors
    clock[0] += 3600
    assert told(host, "disk_state") == []


def mapped(uuid: str, states: tuple[str, ...] = (), suspended: int = 0) -> Tree:
    home = "/sys/block/dm-3"
    slaves = {f"{home}/slaves/sd{chr(98 + i)}/device/state": f"{state}\n" for i, state in enumerate(states)}
    return {
        f"{home}/dm/uuid": f"{uuid}\n",
        f"{home}/dm/name": "vol\n",
        f"{home}/dm/suspended": f"{suspended}\n",
        **slaves,
    }


@pytest.mark.parametrize(
    ("tree", "paths", "expected"),
    [
        (mapped("mpath-36", ("running", "running")), 0, []),
        (mapped("mpath-36", ("running", "offline")), 0, ["disk_paths_lost"]),
        (mapped("mpath-36", ("running", "running")), 4, ["disk_paths_lost"]),
        (mapped("LVM-abc", ("offline",)), 4, []),
    ],
)
def test_judges_the_paths_to_an_array(plant: Plant, tree: Tree, paths: int, expected: list[str]) -> None:
    result = [f for f in found(plant(tree), "disk_state", paths=paths) if f.status != "ok"]
    assert [f.code for f in result] == expected
    assert {f.blame for f in result} <= {"fabric"}


def test_a_lost_path_to_an_array_is_told_once_and_not_as_a_disk(plant: Plant) -> None:
    """Rule 1: a switch of the storage network is no fault of this node's disks."""
    host = plant(mapped("mpath-36", ("running", "offline")) | sd("sdb") | sd("sdc", state="offline"))
    assert told(host, "disk_state") == [("dm-3", "disk_paths_lost")]


def test_a_volume_that_stays_suspended_is_told(plant: Plant) -> None:
    """A snapshot being made is over in a moment."""
    host, clock = plant(mapped("LVM-abc", suspended=1)), [1000.0]
    host.clock = lambda: clock[0]
    assert told(host, "disk_state") == []
    clock[0] += 300
    assert told(host, "disk_state") == [("dm-3", "disk_suspended")]
    host.path("/sys/block/dm-3/dm/suspended").write_text("0\n")
    assert told(host, "disk_state") == []


@pytest.mark.parametrize(
    ("states", "pools", "expected"),
    [
        ({"tank": "ONLINE"}, (), []),
        ({"tank": "DEGRADED", "fast": "ONLINE"}, (), [("tank", "zfs_degraded")]),
        ({"tank": "SUSPENDED"}, (), [("tank", "zfs_broken")]),
        ({"tank": "FAULTED"}, ("tank",), [("tank", "zfs_broken")]),
        ({"tank": "ONLINE"}, ("tank", "fast"), [("fast", "zfs_pool_absent")]),
        ({"tank": "DREAMING"}, (), [("node", "check_error")]),
        ({}, (), [("node", "not_applicable")]),
    ],
)
def test_judges_pools(
    plant: Plant, states: dict[str, str], pools: tuple[str, ...], expected: list[tuple[str, str]]
) -> None:
    tree: Tree = {f"/proc/spl/kstat/zfs/{pool}/state": f"{state}\n" for pool, state in states.items()}
    assert told(plant(tree), "zfs", pools=pools) == expected


LVS = "/nodevet-commands/lvs_--readonly_--reportformat_json_-o_vg_name,lv_name,lv_attr,lv_health_status"


def lvs(*rows: tuple[str, str, str, str]) -> str:
    names = ("vg_name", "lv_name", "lv_attr", "lv_health_status")
    return json.dumps({"report": [{"lv": [dict(zip(names, row, strict=True)) for row in rows]}]})


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (lvs(("vg0", "scratch", "rwi-aor---", ""), ("os", "root", "-wi-ao----", "")), []),
        (lvs(("vg0", "scratch", "rwi-aor-p-", "partial")), [("vg0", "lvm_unhealthy")]),
        (lvs(("vg0", "scratch", "rwi-aor-r-", "refresh needed")), [("vg0", "lvm_unhealthy")]),
        (lvs(("os", "root", "-wi-a---p-", "partial")), [("vg0", "lvm_group_absent")]),
        (lvs(), [("vg0", "lvm_group_absent")]),
        ("{", [("node", "lvm_unasked")]),
        ('{"report": 3}', [("node", "lvm_unasked")]),
        (None, [("vg0", "not_applicable")]),
    ],
)
def test_judges_volume_groups(plant: Plant, text: str | None, expected: list[tuple[str, str]]) -> None:
    host = plant({} if text is None else {LVS: text})
    assert told(host, "lvm", groups=("vg0",)) == expected
    assert told(host, "lvm") == [("node", "not_applicable")]


def nvme(name: str, firmware: str, model: str = "SAMSUNG MZWLR3T8") -> Tree:
    home = f"/sys/class/nvme/{name}"
    return {f"{home}/model": f"{model}   \n", f"{home}/firmware_rev": f"{firmware}  \n", f"{home}/transport": "pcie\n"}


THREE = nvme("nvme0", "A1") | nvme("nvme1", "A1") | nvme("nvme2", "B7")


@pytest.mark.parametrize(
    ("tree", "named", "expected"),
    [
        (THREE, (), [("nvme2", "nvme_firmware_mixed")]),
        (nvme("nvme0", "A1") | nvme("nvme1", "B7"), (), []),
        (nvme("nvme0", "A1") | nvme("nvme1", "B7", "BOOT DISK"), (), []),
        (THREE, ("SAMSUNG*=A1",), [("nvme2", "nvme_firmware_wrong")]),
        (THREE, ("SAMSUNG*=A1", "SAMSUNG*=B?"), []),
        ({}, (), [("node", "not_applicable")]),
    ],
)
def test_judges_firmware(plant: Plant, tree: Tree, named: tuple[str, ...], expected: list[tuple[str, str]]) -> None:
    result = [f for f in found(plant(tree), "disk_firmware", firmware=named) if f.status != "ok"]
    assert [(f.target, f.code) for f in result] == expected
    assert {f.blame for f in result} <= {"config"}


def test_media_errors_count_from_the_first_look_on(plant: Plant) -> None:
    log = {"critical_warning": 0, "percent_used": 3, "avail_spare": 100, "spare_thresh": 10, "media_errors": 40}
    path = "/nodevet-commands/nvme_smart-log_--output-format=json_.dev.nvme0"
    host = plant(nvme("nvme0", "A1") | {path: json.dumps(log)})
    assert told(host, "nvme_wear") == []
    host.path(path).write_text(json.dumps(log | {"media_errors": 42}))
    result = [f for f in found(host, "nvme_wear") if f.status != "ok"]
    assert [(f.code, f.evidence["errors"], f.evidence["total"]) for f in result] == [("nvme_media_errors", 2, 42)]


def test_an_array_that_the_site_promises_must_be_there(plant: Plant) -> None:
    text = "Personalities : [raid1]\nmd0 : active raid1 sdb1[1] sda1[0]\n      1 blocks [2/2] [UU]\n"
    assert told(plant({"/proc/mdstat": text}), "raid", arrays=("md0", "/dev/md1")) == [("/dev/md1", "raid_absent")]


def test_without_raid_in_the_kernel_a_promised_array_is_absent(plant: Plant) -> None:
    assert told(plant(), "raid", arrays=("md0",)) == [("md0", "raid_absent")]


@pytest.mark.parametrize("doing", ["resync", "check", "reshape"])
def test_work_on_a_whole_array_is_no_fault(plant: Plant, doing: str) -> None:
    text = (
        "md0 : active raid6 sdc1[2] sdb1[1] sda1[0]\n      1 blocks level 6 [3/3] [UUU]\n"
        f"      [=>...]  {doing} =  9.0% (1/9) finish=9.9min speed=1K/sec\n"
    )
    assert told(plant({"/proc/mdstat": text}), "raid") == []


VROC = "md127 : inactive nvme1n1[1](S) nvme0n1[0](S)\n      10402 blocks super external:imsm\n"


@pytest.mark.parametrize(
    ("text", "expected"), [(VROC, []), (VROC.replace("external:imsm", "1.2"), [("md127", "raid_broken")])]
)
def test_a_container_of_firmwares_arrays_is_never_active(
    plant: Plant, text: str, expected: list[tuple[str, str]]
) -> None:
    assert told(plant({"/proc/mdstat": f"Personalities : [raid1]\n{text}"}), "raid") == expected


SWAPS = "Filename\t\t\tType\t\tSize\t\tUsed\t\tPriority\n"


@pytest.mark.parametrize(
    ("areas", "options", "expected"),
    [
        ("", {}, ["not_applicable"]),
        ("", {"forbidden": True}, []),
        ("/dev/sda3 partition 8388604 0 -2\n", {"forbidden": True}, ["swap_unwanted"]),
        ("/dev/zram0 partition 8388604 0 100\n", {"forbidden": True}, []),
        ("/dev/sda3 partition 8388604 0 -2\n", {"min_gib": 8.0}, []),
        ("/dev/sda3 partition 4194300 0 -2\n", {"min_gib": 8.0}, ["swap_low"]),
        ("", {"min_gib": 8.0}, ["swap_low"]),
    ],
)
def test_judges_swap(plant: Plant, areas: str, options: dict[str, object], expected: list[str]) -> None:
    assert [code for _, code in told(plant({"/proc/swaps": SWAPS + areas}), "swap", **options)] == expected


def test_a_list_of_swap_that_cannot_be_read_is_our_trouble(plant: Plant) -> None:
    (one,) = run_check(CHECKS["swap"], plant(), {"forbidden": True}).findings
    assert (one.status, one.blame) == ("unknown", "self")
