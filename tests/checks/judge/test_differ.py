"""Two policies differ where something else follows, whatever the table."""

from __future__ import annotations

import pytest

from checks.judge.differ import differences, outcomes
from checks.judge.policy import TABLES, Policy, merge, read_pack, shipped
from daemon.proving import declared

CODES = declared().codes


def site(text: str) -> Policy:
    from checks.judge.policy import load_packs

    return merge((*load_packs(None), ("site", read_pack(f'version = "site"\n{text}', "site"))))


def changed(text: str) -> set[tuple[str, str, str, object, object]]:
    return {(d.table, d.key, d.value, d.a, d.b) for d in differences(shipped(), site(text), CODES)}


def test_the_same_policy_differs_in_nothing() -> None:
    assert changed("") == set()
    assert changed('[codes.gpu_lost]\nresume = "person"\nreason = "said again"\n') == set()


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('[codes.gpu_lost]\nprolog = "drain"\n', ("codes", "gpu_lost", "prolog", "refuse", "drain")),
        ("[codes.gpu_lost]\nshadow = true\n", ("codes", "gpu_lost", "interval", "drain", "admit")),
        ('[codes.gpu_lost]\nstatus = "warn"\n', ("codes", "gpu_lost", "interval", "drain", "admit")),
        ('[codes.gpu_hot]\nstatus = "fail"\n', ("codes", "gpu_hot", "interval", "admit", "drain")),
        ('[defaults."fail.node"]\ninterval = "admit"\n', ("codes", "mount_absent", "interval", "drain", "admit")),
        ('[xid."13"]\ncode = "gpu_xid_reset"\n', ("xid", "13", "code", "gpu_xid_job", "gpu_xid_reset")),
        ('[kernel.disk_io]\nstatus = "fail"\n', ("kernel", "disk_io", "interval", "admit", "drain")),
        ("[kernel.disk_io]\nat_least = 9\n", ("kernel", "disk_io", "at_least", 3, 9)),
        ("[counter.symbol_error]\nlimit = 7\n", ("counter", "symbol_error", "limit", 120, 7)),
        ('[counter.symbol_error]\nstatus = "fail"\nblame = "node"\n',
         ("counter", "symbol_error", "interval", "admit", "drain")),
        ('[sxid.nonfatal]\nstatus = "fail"\n', ("sxid", "nonfatal", "interval", "admit", "drain")),
        ('[nvlink5.rlw_ctrl]\nstep = "reset"\n', ("nvlink5", "rlw_ctrl", "step", "ignore", "reset")),
        ("[nvlink.replay]\nlimit = 5\n", ("nvlink", "replay", "limit", 100, 5)),
        ('[dcgm.30]\ncode = "dcgm_diag_hardware"\n', ("dcgm", "30", "interval", "admit", "drain")),
        ('[codes.dcgm_diag_failed]\ninterval = "drain"\n', ("dcgm", "30", "interval", "admit", "drain")),
        ('[dcgm.999]\ncode = "dcgm_diag_warn"\n', ("dcgm", "999", "code", None, "dcgm_diag_warn")),
    ],
)  # fmt: skip
def test_what_follows_otherwise_is_told(text: str, expected: tuple[str, str, str, object, object]) -> None:
    assert expected in changed(text)


def test_an_action_that_no_fault_of_the_node_stands_behind_is_none() -> None:
    """Rule 1: only fail + node can lead to a drain, whatever a rule says."""
    assert ("codes", "clock_off", "interval", "admit", "drain") not in changed(
        '[codes.clock_off]\ninterval = "drain"\n'
    )


def test_every_code_and_every_entry_is_compared() -> None:
    found = outcomes(shipped(), CODES)
    assert {key for table, key in found if table == "codes"} >= set(CODES)
    for part in set(TABLES) - {"codes", "defaults"}:
        assert {key for table, key in found if table == part} == set(getattr(shipped(), part))
