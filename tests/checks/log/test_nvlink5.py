"""Errors of an NVLink5 port are judged by the driver's word, and by unit, status and sub-code of the table."""

from __future__ import annotations

from pathlib import Path

import pytest

from checks.judge.policy import shipped
from checks.log.kernel_xid import kernel_xid
from checks.log.nvlink5 import grave, step
from checks.log.xid import parse_xid
from tests.checks.log.gpu_log import Log
from tests.fakes import Plant

REST = " 0x00000000 0x00000000)"


@pytest.mark.parametrize(
    ("number", "text", "wanted", "fault"),
    [
        (149, "NETIR Fatal XC0 i0 Link -1 (0x000fe406 0x00000000" + REST, "reset", True),
        (149, "NETIR_LINK_EVT  Fatal   XC0 i0 Link 01 (0x021425c6 0x00000000" + REST, "reset", True),
        (149, "NETIR_LINK_EVT Fatal XC0 i0 Link 00 (0x025001c6 0x00000000" + REST, "reset", True),
        (149, "NETIR_LINK_EVT Fatal XC0 i0 Link 00 (0x026001c6 0x00000000" + REST, "quiet", False),
        (149, "NETIR_LINK_EVT Fatal XC0 i0 Link 00 (0x028001c6 0x00000000" + REST, "quiet", False),
        (149, "NETIR_LINK_EVT Fatal XC 1 i 2 Link 01 [0x0000000a]", "reset", True),
        (149, "NETIR_LINK_DOWN Nonfatal XC1 i2 Link 17 (0xdeadbeef)", "reset", False),
        (149, "NETIR_BER_EVENT Nonfatal XC0 i0 Link 17 (0x00000000 0x00000002)", "ignore", False),
        (149, "NETIR_MFDE_EVENT XC0 i0 Link 17 (0x00000000 0x00000005)", "reset", True),
        (149, "NETIR_MFDE_EVENT XC0 i0 Link 17 (0x00000000 0x00000003)", "ignore", False),
        (145, "RLW_SRC_TRACK Nonfatal XC0 i0 Link 08 (0x00000004 0x80000000", "ignore", False),
        (145, "RLW_SRC_TRACK Fatal XC0 i0 Link 08 (0x00000004 0x80000000", "ignore", True),
        (145, "RLW_SRC_TRACK Nonfatal XC0 i0 Link 08 (0x00000004 0x00000010)", "reset", False),
        (145, "RLW_SRC_TRACK XC0 i0 Link 08 (0x00000004 0x00000010)", "reset", True),
        (145, "RLW_SRC_TRACK XC0 i0 Link 08 (0x00000004 0x00000004)", "state", False),
        (145, "RLW_REMAP Fatal XC0 i0 Link 08 (0x00000004 0x00000101)", "state", True),
        (145, "RLW_REMAP XC0 i0 Link 08 (0x00000004 0x00000141)", "reset", True),
        (146, "TLW_RX_PIPE1 NON_FATAL XC0 i0 Link 03 (0x00000010 0x00000004 0x00000030 0x00000040)", "reset", False),
        (146, "TLW_RX/TLW_RX_PIPE1 XC0 i0 Link 03 (0x00000010 0x00000004)", "reset", True),
        (147, "TREX_ERR Nonfatal XC 00 i 00 Link 02 (0x00000005)", "", False),
        (148, "NVLPW_CTRL Fatal XC0 i0 Link 05", "", True),
        (150, "MSE Degraded Fatal XC0 i0 Link -1 (0x00000000 0xFFFFFFFF)", "reset", True),
        (150, "MSE_WATCHDOG XC0 i0 Link -1 (0x00000000 0x00000000)", "reset", True),
        (144, "SAW_MVB Nonfatal XC0 i0 Link 05 (0x00000001 0x00000008)", "ignore", False),
        (145, "NEW_UNIT Fatal XC0 i0 Link 05 (0x00000001 0x00000008)", "", True),
        (145, "driver-specific detail", "", False),
    ],
)
def test_word_and_table_together(number: int, text: str, wanted: str, fault: bool) -> None:
    """E28, E29, E30: nonfatal is never a fault, fatal is one unless the sub-code says otherwise, no word: the table."""
    for who in ("", "pid=876767, name=ray::WorkerDict, "):
        xid = parse_xid(f"NVRM: Xid (PCI:0000:5d:00): {number}, {who}{text}")
        assert xid is not None
        found = step(xid, shipped().nvlink5.values())
        assert (found, bool(grave(xid, found))) == (wanted, fault)


def test_the_evidence_says_which_part_reported(plant: Plant, tmp_path: Path) -> None:
    log = Log(plant, tmp_path / "kmsg")
    log.xid(145, "RLW_REMAP Fatal XC0 i0 Link 08 (0x00100004 0x00000040)", pid=5)
    (found,) = log.found()
    told = {name: found.evidence[name] for name in ("unit", "link", "subcode", "status", "step")}
    assert told == {"unit": "RLW_REMAP", "link": 8, "subcode": 1, "status": 0x40, "step": "reset"}


def test_a_site_lays_its_own_over_an_entry_and_adds_one(plant: Plant, tmp_path: Path) -> None:
    """E39."""
    site = tmp_path / "policy.d"
    site.mkdir()
    (site / "a.toml").write_text(
        'version = "s"\n[nvlink5.link_down_peer]\nsubcodes = [0x25]\n'
        '[nvlink5.mine]\nxid = 145\nunits = ["NEW_UNIT"]\nstep = "quiet"\n'
    )
    log = Log(plant, tmp_path / "kmsg")

    def judged(number: int, text: str) -> list[str]:
        log.xid(number, text)
        found = [f.code for f in kernel_xid(log.host, policy_dir=str(site))]
        log.write("NVRM: loading NVIDIA UNIX Open Kernel Module")
        return found

    assert judged(149, "NETIR_LINK_EVT Fatal XC0 i0 Link 00 (0x025001c6 0x00000000)") == ["gpu_xid_warn"]
    assert judged(149, "NETIR_LINK_EVT Fatal XC0 i0 Link 00 (0x026001c6 0x00000000)") == ["gpu_xid_nvlink"]
    assert judged(145, "NEW_UNIT Fatal XC0 i0 Link 05 (0x00000001 0x00000008)") == ["gpu_xid_warn"]


def test_every_entry_of_the_table_can_be_used() -> None:
    for name, rule in shipped().nvlink5.items():
        assert rule.xid in range(144, 151) and rule.units and rule.step, name
        assert sum(given is not None for given in (rule.bits, rule.values, rule.subcodes)) <= 1, name
