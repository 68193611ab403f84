"""NFS and Lustre servers are judged by what their clients count, by growth and from the second look on."""

from __future__ import annotations

from pathlib import Path

import pytest

from checks.runner import run_check
from tests.checks.fs.judged import KNOWN, Clock, Tree, bad, codes
from tests.fakes import Plant

MOUNTSTATS = (Path(__file__).parent / "data" / "mountstats.txt").read_text()


# ---- NFS


def stats(*, sends: int = 5000, receives: int = 5000, reads: int = 4000, read_sent: int = 4000) -> str:
    text = MOUNTSTATS.replace("@SENDS@", str(sends)).replace("@RECEIVES@", str(receives))
    return text.replace("@READS@", str(reads)).replace("@READ_SENT@", str(read_sent))


@pytest.mark.parametrize(
    ("after", "expected"),
    [
        (stats(sends=6000, receives=6000, reads=5000, read_sent=5000), []),
        (stats(), []),
        (stats(sends=5003), ["nfs_server_silent"]),
        (stats(sends=6000, receives=5990, reads=5000, read_sent=5100), ["nfs_retransmissions"]),
        (stats(sends=6000, receives=5990, reads=5000, read_sent=5040), []),
        (stats(sends=5060, receives=5055, reads=4050, read_sent=4090), []),
        (stats(sends=4, receives=1, reads=2, read_sent=2), []),
        ("", []),
    ],
)
def test_an_nfs_server_is_judged_by_what_grew(plant: Plant, after: str, expected: list[str]) -> None:
    host = plant({"/proc/1/mountstats": stats(sends=5000, receives=5000, read_sent=4000)})
    clock = Clock(host)
    assert codes(host, "nfs_client") == []
    host.path("/proc/1/mountstats").write_text(after)
    clock.now += 120
    found = bad(host, "nfs_client")
    assert [f.code for f in found] == expected
    assert {(f.target, f.status, f.blame) for f in found} <= {("filer1.example.org", "warn", "shared")}


def test_connections_of_one_mount_count_together(plant: Plant) -> None:
    """With nconnect one of two may rest while the other works."""

    def two(first: tuple[int, int], second: tuple[int, int]) -> str:
        lines = "".join(f"\txprt:\ttcp 0 1 1 0 3 {sent} {got} 0 5600 0 2 100 200\n" for sent, got in (first, second))
        return f"device filer1:/x mounted on /x with fstype nfs4 statvers=1.1\n{lines}"

    host = plant({"/proc/1/mountstats": two((5000, 5000), (700, 700))})
    clock = Clock(host)
    assert codes(host, "nfs_client") == []
    for second, expected in (((900, 900), []), ((950, 900), ["nfs_server_silent"])):
        host.path("/proc/1/mountstats").write_text(two((5010, 5000), second))
        clock.now += 120
        assert codes(host, "nfs_client") == expected


def test_two_mounts_of_one_server_say_it_once(plant: Plant) -> None:
    host = plant({"/proc/1/mountstats": stats()})
    clock = Clock(host)
    codes(host, "nfs_client")
    host.path("/proc/1/mountstats").write_text(stats(sends=5010))
    clock.now += 120
    (found,) = bad(host, "nfs_client")
    assert found.evidence["sent"] == 10


@pytest.mark.parametrize(
    "text", ["device", "device a mounted on b with fstype nfs4\nxprt:", "xprt: tcp 1\n", "\x00\xff"]
)
def test_statistics_that_are_none_prove_nothing(plant: Plant, text: str) -> None:
    assert codes(plant({"/proc/1/mountstats": text}), "nfs_client") == []


# ---- Lustre


def lustre(root: str = "/proc/fs/lustre", health: str = "healthy", **states: str) -> Tree:
    tree: Tree = {"/sys/fs/lustre/health_check": f"{health}\n"}
    for server, state in states.items():
        kind, name = ("mdc", "mds_server_uuid") if "MDT" in server else ("osc", "ost_server_uuid")
        home = f"{root}/{kind}/fs-{server}-{kind}-ffff8f2b"
        tree[f"{home}/{name}"] = f"fs-{server}_UUID\t{state}\n"
        tree[f"{home}/state"] = (
            "current_state: FULL\nstate_history:\n - [ 1764580000, CONNECTING ]\n - [ 1764580001, FULL ]\n"
        )
    return tree


@pytest.mark.parametrize("root", ["/proc/fs/lustre", "/sys/fs/lustre", "/sys/kernel/debug/lustre"])
@pytest.mark.parametrize("state", ["DISCONN", "CONNECTING", "EVICTED", "REPLAY_WAIT"])
def test_a_server_that_stays_away_is_told_from_the_second_look_on(plant: Plant, root: str, state: str) -> None:
    host = plant(lustre(root, MDT0000="FULL", OST0000="FULL", OST0001=state))
    clock = Clock(host)
    assert codes(host, "lustre") == []
    clock.now += 120
    (found,) = bad(host, "lustre")
    assert (found.code, found.status, found.blame) == ("lustre_disconnected", "warn", "shared")
    assert (found.evidence["first"], found.evidence["count"], found.evidence["servers"]) == ("fs-OST0001", 1, 3)


@pytest.mark.parametrize("state", ["IDLE", "FULL", "DISCONN\tDEACTIVATED", "CLOSED", "NEW"])
def test_an_idle_or_deactivated_server_is_no_trouble(plant: Plant, state: str) -> None:
    host = plant(lustre(MDT0000="FULL", OST0000=state))
    clock = Clock(host)
    assert codes(host, "lustre") == []
    clock.now += 600
    assert codes(host, "lustre") == []


def test_a_connection_that_came_back_is_forgotten(plant: Plant) -> None:
    host = plant(lustre(OST0000="DISCONN"))
    clock = Clock(host)
    codes(host, "lustre")
    uuid = host.path("/proc/fs/lustre/osc/fs-OST0000-osc-ffff8f2b/ost_server_uuid")
    for state in ("FULL", "DISCONN"):
        uuid.write_text(f"fs-OST0000_UUID\t{state}\n")
        clock.now += 120
        assert codes(host, "lustre") == []


@pytest.mark.parametrize(
    ("health", "expected"),
    [
        ("healthy", []),
        ("LBUG", ["lustre_bug"]),
        ("NOT HEALTHY", ["lustre_unhealthy"]),
        ("device x\nNOT HEALTHY", ["lustre_unhealthy"]),
    ],
)
def test_the_clients_own_word_is_told(plant: Plant, health: str, expected: list[str]) -> None:
    found = bad(plant(lustre(health=health)), "lustre")
    assert [f.code for f in found] == expected
    assert {f.status for f in found} <= {"warn"}


def test_an_eviction_is_told_once_and_an_old_one_never(plant: Plant) -> None:
    """E116: two of six nodes thrown out in a maintenance window; E104: what stood there before is history."""
    host = plant(lustre(OST0000="FULL"))
    clock = Clock(host)
    history = host.path("/proc/fs/lustre/osc/fs-OST0000-osc-ffff8f2b/state")
    old = " - [ 1764500000, EVICTED ]\n - [ 1764500001, FULL ]\n"
    history.write_text(f"current_state: FULL\nstate_history:\n{old}")
    assert codes(host, "lustre") == []
    history.write_text(
        f"current_state: FULL\nstate_history:\n{old} - [ 1764580050, EVICTED ]\n - [ 1764580051, FULL ]\n"
    )
    clock.now += 120
    (found,) = bad(host, "lustre")
    assert (found.code, found.blame, found.evidence["first"]) == ("lustre_evictions", "shared", "fs-OST0000")
    clock.now += 120
    assert codes(host, "lustre") == []


@pytest.mark.parametrize("text", ["", "\n", "-1\n", "\x00"])
def test_a_health_file_that_says_nothing_is_our_trouble(plant: Plant, text: str) -> None:
    """Like E23: a file that was cut short when it was kept."""
    (found,) = run_check(KNOWN["lustre"], plant({"/sys/fs/lustre/health_check": text})).findings
    assert (found.status, found.blame) == ("unknown", "self")


def test_both_folders_of_a_release_in_between_are_read(plant: Plant) -> None:
    """Like E116: the data servers still stand in /proc and the one for names, which threw us out, already in /sys."""
    host = plant({
        "/proc/fs/lustre/osc/scratch-OST0000-osc-ff/ost_server_uuid": "scratch-OST0000_UUID\tFULL\n",
        "/sys/fs/lustre/mdc/scratch-MDT0000-mdc-ff/mds_server_uuid": "scratch-MDT0000_UUID\tEVICTED\n",
    })  # fmt: skip
    clock = Clock(host)
    assert codes(host, "lustre") == []
    clock.now += 300
    assert codes(host, "lustre") == ["lustre_disconnected"]
