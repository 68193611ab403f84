"""What executables say is understood, or unknown: nothing between."""

from __future__ import annotations

import json

import pytest

from checks.site.answer import MOST_FINDINGS, Garbled, understood
from checks.wire import Blame, Finding


def _one(status: int, text: str, blame: Blame = "config") -> Finding:
    (found,) = understood("raid", status, text.encode(), blame)
    return found


@pytest.mark.parametrize(
    ("status", "word", "code", "blame"),
    [(0, "ok", "ok", None), (1, "warn", "site_warn", "config"), (2, "fail", "site_fail", "config"),
     (3, "unknown", "site_unknown", "self")],
)  # fmt: skip
def test_a_nagios_plugin(status: int, word: str, code: str, blame: Blame | None) -> None:
    found = _one(status, "RAID - array md0 degraded | disks=3;4\nmore\n")
    assert (found.target, found.status, found.code, found.blame) == ("raid", word, code, blame)
    assert "array md0 degraded" in found.message and "disks=3" not in found.message


def test_only_the_site_can_blame_the_node() -> None:
    assert _one(2, "broken").blame == "config"
    assert _one(2, "broken", "node").blame == "node"
    assert _one(2, '{"status": "fail", "message": "broken"}').blame == "config"
    assert _one(2, '{"status": "fail", "message": "broken", "blame": "node"}').blame == "node"


def test_a_document_of_several_findings() -> None:
    said = [
        {"target": "md0", "status": "fail", "code": "raid_degraded", "message": "3 of 4", "evidence": {"disks": 3}},
        {"target": "md1", "status": "warn", "code": "site_raid_slow", "blame": "node"},
        {"target": "md2", "status": "ok"},
        {"target": "md3", "status": "skipped", "message": "no such array"},
        {"target": "md4", "status": "unknown", "message": "?"},
        {"target": "md0", "status": "fail", "code": "raid_degraded", "message": "again"},
    ]
    found = understood("raid", 0, json.dumps({"findings": said}).encode(), "config")
    assert [(f.target, f.status, f.code, f.blame) for f in found] == [
        ("raid:md0", "fail", "site_raid_degraded", "config"),
        ("raid:md1", "warn", "site_raid_slow", "node"),
        ("raid:md2", "ok", "ok", None),
        ("raid:md3", "skipped", "not_applicable", "config"),
        ("raid:md4", "unknown", "site_unknown", "self"),
    ]
    assert found[0].evidence == {"disks": 3} and found[0].message.endswith("3 of 4")
    assert understood("raid", 0, b'{"findings": []}', "config") == []


@pytest.mark.parametrize(
    ("status", "text"),
    [
        (0, ""),
        (0, " \n\x00\x1b \n"),
        (0, "| disks=3"),
        (2, ""),
        (4, "what"),
        (126, "cannot execute"),
        (-9, "all is well"),
        (-11, '{"status": "ok"}'),
        (0, "{"),
        (0, '{"state": "FAIL"}'),
        (0, '{"status": "FAIL"}'),
        (0, '{"status": "ok"} trailing'),
        (0, '[{"status": "ok"}, 3]'),
        (0, '{"findings": {"status": "ok"}, "findings": 3}'),
        (0, '{"findings": null}'),
        (0, "[" * 100_000),
        (0, '{"status": "ok", "evidence": {"a": {"b": 1}}}'),
        (2, '{"status": "ok"}'),
        (1, '{"status": "fail"}'),
        (0, '{"status": "fail", "blame": "self"}'),
        (0, '{"status": "unknown", "blame": "node"}'),
        (0, '{"status": "fail", "blame": "everybody"}'),
        (0, '{"status": "fail", "code": "Not A Code"}'),
        (0, '{"status": "fail", "code": "site_check_broken"}'),
        (0, json.dumps([{"status": "ok", "target": str(n)} for n in range(MOST_FINDINGS + 1)])),
        (0, json.dumps({"status": "ok", "evidence": {str(n): n for n in range(33)}})),
    ],
)
def test_what_cannot_be_understood_is_never_a_pass(status: int, text: str) -> None:
    """E52, E53."""
    with pytest.raises(Garbled):
        understood("raid", status, text.encode(), "config")


def test_none_speaks_with_a_code_of_ours() -> None:
    """gpu_lost would be refused under a lease; an executable's word is its own."""
    assert _one(0, '{"status": "fail", "code": "gpu_lost", "blame": "node"}').code == "site_gpu_lost"


def test_hostile_text_stays_on_its_line() -> None:
    raw = b"DISK \xff\xfe `reboot` $(id)\x1b[2J \xe2\x80\xae" + b"x" * 60_000 + b"\nsecond"
    (found,) = understood("raid", 2, raw, "config")
    assert found.message.isprintable() and len(found.message) <= 512 and "second" not in found.message
    said = {
        "status": "warn",
        "target": "a\nb" * 400,
        "message": "m\r\n" * 900,
        "evidence": {"k\n" * 200: "v\x00" * 900},
    }
    found = _one(0, json.dumps(said))
    assert found.target.isprintable() and len(found.target) <= 128 and found.message.isprintable()
    assert all(k.isprintable() and len(k) <= 64 and str(v).isprintable() for k, v in found.evidence.items())
