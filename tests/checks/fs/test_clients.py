"""Clients of shared file systems are judged by their own tables, and a server's silence is never the node's fault."""

from __future__ import annotations

import pytest

from checks.runner import run_check
from tests.checks.fs.judged import INFO, KNOWN, Clock, Tree, bad, codes
from tests.fakes import Plant


@pytest.mark.parametrize("name", ["nfs_client", "lustre", "gpfs", "gpfs_health", "beegfs", "weka", "ceph"])
def test_a_node_without_such_a_client_is_not_asked(plant: Plant, name: str) -> None:
    """Like E22: what most nodes do not have is no fault."""
    (found,) = run_check(KNOWN[name], plant({INFO: "22 1 8:2 / / rw - ext4 /dev/sda2 rw\n"})).findings
    assert found.status == "skipped"


# ---- GPFS

GPFS = "22 1 8:2 / / rw - ext4 /dev/sda2 rw\n40 22 0:45 / /gpfs rw - gpfs gpfs0 rw\n"


def process(pid: int, name: str, uid: int = 0) -> Tree:
    return {
        f"/proc/{pid}/comm": f"{name}\n",
        f"/proc/{pid}/status": f"Name:\t{name}\nUid:\t{uid}\t{uid}\t{uid}\t{uid}\n",
    }


@pytest.mark.parametrize(
    ("tree", "options", "expected"),
    [
        ({INFO: GPFS} | process(4711, "mmfsd"), {}, []),
        ({INFO: GPFS} | process(4711, "slurmd"), {}, ["gpfs_daemon_dead"]),
        ({INFO: GPFS} | process(4711, "mmfsd", uid=1000), {}, ["gpfs_daemon_dead"]),
        ({INFO: GPFS.splitlines(keepends=True)[0]} | process(1, "init"), {"expected": True}, ["gpfs_daemon_dead"]),
    ],
)
def test_gpfs_needs_its_daemon(plant: Plant, tree: Tree, options: dict[str, object], expected: list[str]) -> None:
    """E16: without it every access gives a stale handle; a user's process of that name proves nothing."""
    assert codes(plant(tree), "gpfs", **options) == expected


def test_a_tree_that_was_kept_without_processes_says_nothing_of_a_daemon(plant: Plant) -> None:
    (found,) = run_check(KNOWN["gpfs"], plant({INFO: GPFS})).findings
    assert found.status == "skipped"


def test_a_daemon_that_dies_or_comes_back_under_another_number_is_seen(plant: Plant) -> None:
    host = plant({INFO: GPFS} | process(4711, "mmfsd"))
    assert codes(host, "gpfs") == []
    host.path("/proc/4711/comm").write_text("bash\n")
    assert codes(host, "gpfs") == ["gpfs_daemon_dead"]
    for path, text in process(5000, "mmfsd").items():
        host.path(path).parent.mkdir(exist_ok=True)
        host.path(path).write_text(str(text))
    assert codes(host, "gpfs") == []


HEALTH = "/nodevet-commands/.usr.lpp.mmfs.bin.mmhealth_node_show_-Y"
HEADER = (
    "mmhealth:Event:HEADER:version:reserved:reserved:node:component:entityname:entitytype:event:arguments:\n"
    "mmhealth:State:HEADER:version:reserved:reserved:node:component:entityname:entitytype:status:laststatuschange:\n"
)


def state(component: str, status: str) -> str:
    return f"mmhealth:State:0:1:::n1:{component}:n1:NODE:{status}:2026-01-10 10%3A32%3A17.613885 EST:\n"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (HEADER + state("NODE", "HEALTHY") + state("GPFS", "HEALTHY") + state("NETWORK", "TIPS"), []),
        (HEADER + state("NODE", "FAILED") + state("GPFS", "FAILED"), ["gpfs_unhealthy"]),
        (HEADER + state("NODE", "DEGRADED") + state("NETWORK", "DEGRADED"), ["gpfs_unhealthy"]),
        (HEADER, ["gpfs_unasked"]),
        ("mmhealth: command failed\n", ["gpfs_unasked"]),
    ],
)
def test_gpfs_own_health_is_told_where_the_site_wants_it(plant: Plant, text: str, expected: list[str]) -> None:
    host = plant({HEALTH: text})
    assert codes(host, "gpfs_health", enabled=True) == expected
    assert codes(host, "gpfs_health") == []


def test_events_of_gpfs_are_named(plant: Plant) -> None:
    event = "mmhealth:Event:0:1:::n1:GPFS:n1:NODE:gpfs_down::2026-01-10 10%3A32%3A17 EST::no:\n"
    (found,) = bad(plant({HEALTH: HEADER + state("GPFS", "FAILED") + event}), "gpfs_health", enabled=True)
    assert (found.message, found.status) == ("component GPFS is FAILED: gpfs_down", "warn")


# ---- BeeGFS


def beegfs(meta: str = "Online / Good", storage: str = "Online / Good", nodes: str = "node01 [ID: 1]\n") -> Tree:
    home = "/proc/fs/beegfs/1A2B-65F0-n1"
    return {
        f"{home}/mgmt_nodes": nodes,
        f"{home}/storage_nodes": "storage01 [ID: 1]\n   Connections: <none>\n",
        f"{home}/meta_target_state": f"[Target ID: 2] @ beegfs-meta meta01 [ID: 2]: {meta} \n",
        f"{home}/storage_target_state": f"[Target ID: 101] @ beegfs-storage storage01 [ID: 1]: {storage} \n",
    }


@pytest.mark.parametrize(
    ("tree", "first", "second"),
    [
        (beegfs(), [], []),
        (beegfs(storage="Probably-offline / Good"), [], []),
        (beegfs(storage="Offline / Good"), [], ["beegfs_target_offline"]),
        (beegfs(meta="Offline / Needs-resync"), [], ["beegfs_target_offline"]),
        (beegfs(storage="Online / Bad"), ["beegfs_target_bad"], ["beegfs_target_bad"]),
        (beegfs(nodes=""), ["beegfs_no_management"], ["beegfs_no_management"]),
        ({"/proc/fs/beegfs/1A2B-65F0-n1/config": ""}, [], []),
    ],
)
def test_judges_beegfs_targets(plant: Plant, tree: Tree, first: list[str], second: list[str]) -> None:
    host = plant(tree)
    clock = Clock(host)
    assert codes(host, "beegfs") == first
    clock.now += 300
    found = bad(host, "beegfs")
    assert [f.code for f in found] == second
    assert {(f.status, f.blame) for f in found} <= {("warn", "shared")}


# ---- Weka

WEKA = "22 1 8:2 / / rw - ext4 /dev/sda2 rw\n40 22 0:45 / /weka rw - wekafs default rw\n"
WELL = (
    "IO node version ba1c189f860b10eb\nGW driver_state: DRIVER_ACCEPTING\nActive mounts: 1\n"
    "Container=c2d49client FE 0: Connected frontend pid 166696\nError counters\nNS_num_enospc_errors: 0\n"
)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (WELL, []),
        (WELL.replace("Connected frontend pid 166696", "Disconnected"), ["weka_frontend_lost"]),
        (WELL.replace("DRIVER_ACCEPTING", "DRIVER_DRAINING"), ["weka_driver_stopped"]),
        (WELL + "Container=c2d49client FE 1: Disconnected\n", []),
        ("nothing that is known\n", []),
    ],
)
def test_judges_the_weka_driver(plant: Plant, text: str, expected: list[str]) -> None:
    assert codes(plant({INFO: WEKA, "/proc/wekafs/interface": text}), "weka") == expected


# ---- Ceph


def ceph(*, status: str = "blocklisted: false", mdsc: str = "", osdc: str = "") -> Tree:
    home = "/sys/kernel/debug/ceph/01234567-89ab-cdef-0123-456789abcdef.client4123"
    head = "REQUESTS 0 homeless 0\n"
    return {
        f"{home}/status": f"instance: client.4123 (2)10.0.0.1:0/123\n{status}\n",
        f"{home}/mdsc": mdsc,
        f"{home}/osdc": f"{head}{osdc}LINGER REQUESTS\n18446462\tosd2\t2.a\t2.a\t[2,1]/2\trbd_header\n",
    }


@pytest.mark.parametrize("word", ["blocklisted", "blacklisted"])
def test_a_client_that_ceph_has_cut_off_is_told(plant: Plant, word: str) -> None:
    (found,) = bad(plant(ceph(status=f"{word}: true")), "ceph")
    assert (found.code, found.status) == ("ceph_blocklisted", "warn")
    assert "4123" in found.message


@pytest.mark.parametrize(
    ("tree", "expected"),
    [
        (ceph(), []),
        (ceph(mdsc="17\tmds0\tgetattr\t #10000000000\n"), ["ceph_requests_stuck"]),
        (ceph(osdc="99\tosd3\t1.7fc1f406\t1.6\t[3,1]/3\t100.0\t0x400024\t1\twrite\n"), ["ceph_requests_stuck"]),
        (ceph(mdsc="18\tmds0\tsetfilelock\t #10000000001\n"), []),
    ],
)  # fmt: skip
def test_a_request_that_waits_at_every_look_is_told(plant: Plant, tree: Tree, expected: list[str]) -> None:
    """Rule 8: whoever waits for a lock does so of his own will."""
    host = plant(tree)
    clock = Clock(host)
    assert codes(host, "ceph") == []
    clock.now += 120
    found = bad(host, "ceph")
    assert [f.code for f in found] == expected
    assert {f.blame for f in found} <= {"shared"}


def test_a_tree_whose_processes_have_no_names_is_not_judged(plant: Plant) -> None:
    """Like E16: the list of mounts of the first process was kept, and nothing else of any process."""
    (found,) = run_check(KNOWN["gpfs"], plant({"/proc/1/mountinfo": GPFS})).findings
    assert (found.status, found.code) == ("skipped", "not_applicable")
