"""Layers lie over each other, every value knows its file, and a wrong key names the nearest."""

from __future__ import annotations

from pathlib import Path

import pytest

from checks import CODES
from checks.catalog import load
from checks.judge.policy import PolicyError, XidRule, load_policy, merge, per_policy, read_pack, shipped, usable
from checks.judge.rules import expression

BASE = 'version = "1"\n[defaults."fail.node"]\nprolog = "refuse"\nconfirm = 1\n[codes.gpu_lost]\nlease = true\n'


def test_a_later_layer_overrides_single_values() -> None:
    site = 'version = "site"\n[codes.gpu_lost]\nprolog = "drain"\n[xid."79"]\nstatus = "warn"\n'
    base = BASE + '[xid."79"]\nstatus = "fail"\nname = "LOST"\n'
    policy = merge([("base", read_pack(base, "base")), ("site", read_pack(site, "site"))])
    rule = policy.rule("gpu_lost", "fail", "node")
    assert (rule.prolog, rule.lease, rule.confirm) == ("drain", True, 1)
    assert policy.xid["79"] == XidRule(status="warn", name="LOST")
    assert policy.version == "1+site"
    assert policy.origin["codes.gpu_lost.lease"] == "base"
    assert policy.origin["codes.gpu_lost.prolog"] == "site"
    assert policy.origin["xid.79.status"] == "site"


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        (BASE + 'resum = "verify"\n', "resume"),
        ('version = "1"\n[code.gpu_lost]\nlease = true\n', "codes"),
        (BASE + 'prolog = "reject"\n', "in codes.gpu_lost: Invalid enum"),
        (BASE + "confirm = 'often'\n", "codes.gpu_lost"),
        ("[codes.gpu_lost]\nlease = true\n", "version"),
        ("version = ", "site.toml"),
        ('version = "1"\ncodes = 3\n', "site.toml"),
    ],
)
def test_a_wrong_key_names_file_and_nearest(text: str, hint: str) -> None:
    with pytest.raises(PolicyError, match=hint) as caught:
        read_pack(text, "site.toml")
    assert "site.toml" in str(caught.value)


def test_site_files_lie_over_the_shipped_ones_in_order(tmp_path: Path) -> None:
    (tmp_path / "20-late.toml").write_text('version = "b"\n[codes.gpu_lost]\nresume = "person"\n')
    (tmp_path / "10-early.toml").write_text('version = "a"\n[codes.gpu_lost]\nresume = "burn-in"\nshadow = true\n')
    (tmp_path / "notes.txt").write_text("no policy")
    rule = load_policy(tmp_path).rule("gpu_lost", "fail", "node")
    assert (rule.resume, rule.shadow, rule.device_lost) == ("person", True, True)


@pytest.mark.parametrize("content", [b"\xff\xfe", b"version = "])
def test_an_unusable_site_file_is_named(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "site.toml").write_bytes(content)
    with pytest.raises(PolicyError, match=r"site\.toml"):
        load_policy(tmp_path)


@pytest.mark.parametrize(
    ("part", "key", "low", "high", "expected"),
    [
        ("dcgm", "52", 'name = "X"\nstatus = "fail"', 'status = "warn"', {"name": "X", "status": "warn"}),
        ("sxid", "11004", 'kind = "always"\nhold = 1.0', "hold = 2.0", {"kind": "always", "hold": 2.0}),
        ("nvlink5", "rlw", "xid = 145\nbits = 0x10", "bits = 0x20", {"xid": 145, "bits": 0x20}),
        ("counter", "c", 'path = "counters/c"\nlimit = 1', "limit = 2", {"path": "counters/c", "limit": 2}),
    ],
)
def test_every_table_is_layered(part: str, key: str, low: str, high: str, expected: dict[str, object]) -> None:
    packs = [(n, read_pack(f'version = "{n}"\n[{part}."{key}"]\n{t}\n', n)) for n, t in (("low", low), ("high", high))]
    policy = merge(packs)
    entry = getattr(policy, part)[key]
    assert {name: getattr(entry, name) for name in expected} == expected
    assert {policy.origin[f"{part}.{key}.{name}"] for name in expected} == {"low", "high"}


def test_what_an_entry_says_of_itself_is_no_value() -> None:
    text = 'version = "1"\norigin = "us"\n[codes.gpu_lost]\nlease = true\nreason = "seen here"\n'
    policy = merge([("site", read_pack(text, "site"))])
    assert set(policy.origin) == {"codes.gpu_lost.lease"} and policy.codes["gpu_lost"].reason == "seen here"


def test_an_expression_is_compiled_once() -> None:
    assert expression("a(b)?") is expression("a(b)?")


def test_a_missing_site_folder_leaves_the_shipped_policy(tmp_path: Path) -> None:
    assert load_policy(tmp_path / "none") == shipped()


def test_a_changed_file_is_read_anew_and_a_broken_one_changes_nothing(tmp_path: Path) -> None:
    """What a check reads follows the site's files; a slip of the pen sharpens nothing that the site has softened."""
    made: list[str] = []

    @per_policy
    def judged(directory: str) -> str | None:
        made.append(directory)
        return usable(directory).xid["79"].judge

    site, file = str(tmp_path), tmp_path / "site.toml"
    before = judged(site)
    assert (judged(site), len(made)) == (before, 1) and before == shipped().xid["79"].judge
    file.write_text('version = "1"\n[xid."79"]\njudge = "gpu_count"\n')
    assert (judged(site), judged(site), len(made)) == ("gpu_count", "gpu_count", 2)
    file.write_text("version = ")
    assert judged(site) == "gpu_count"
    file.write_text('version = "2"\n[xid."79"]\njudge = "gpu_health_"\n')
    assert judged(site) == "gpu_health_"
    file.unlink()
    assert judged(site) == before


def test_leases_are_for_faults_of_the_node_alone() -> None:
    """DESIGN 2: a permit may be leased for a closed list of hardware codes."""
    load()
    leased = {name for name, rule in shipped().codes.items() if rule.lease}
    assert leased
    assert {(CODES[name].status, CODES[name].blame) for name in leased} == {("fail", "node")}


def test_what_asks_for_a_replacement_waits_for_a_person() -> None:
    """E106: the next green pass must not put a part that is to be replaced back to work."""
    for code in ("gpu_remap_failed", "gpu_sram_threshold", "gpu_xid_replace", "gpu_lost", "disk_broken"):
        assert shipped().rule(code, "fail", "node").resume == "person"


def test_every_xid_names_a_code_of_its_kind() -> None:
    """Rule 8: a program's error blames the job, whatever else the table says."""
    load()
    for number, entry in shipped().xid.items():
        code = CODES[str(entry.code)]
        assert code.name.startswith("gpu_xid_"), number
        assert (entry.blame == "job") == (code.blame == "job"), number


@pytest.mark.parametrize("number", ["13", "31", "43", "45", "68", "69", "8", "11", "32"])
def test_program_errors_are_the_jobs(number: str) -> None:
    """E26, E39."""
    assert shipped().xid[number].code == "gpu_xid_job"
