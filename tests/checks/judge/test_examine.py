"""Everything wrong with a policy file is named by its line, and the shipped packs are without fault."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from checks.judge import policy as policy_module
from checks.judge.examine import Known, examine
from checks.judge.lines import lines_of
from checks.judge.policy import TABLES, PolicyError, load_packs, merge, read_pack, shipped
from daemon.proving import declared

PACKS = sorted(Path(policy_module.__file__).with_name("packs").glob("*.toml"))


@pytest.fixture(scope="module")
def known() -> Known:
    return declared()


def told(text: str, known: Known) -> list[tuple[int, str, str]]:
    return [(p.line, p.level, p.text) for p in examine(text, known, shipped())]


def test_a_good_file_is_without_fault(known: Known) -> None:
    text = (
        'version = "site"\norigin = "us"\n[codes.gpu_lost]\nprolog = "drain"\nreason = "we like it so"\n'
        '[xid."13"]\ncode = "gpu_xid_warn"\n[kernel.ours]\nmatch = "ours: (?P<target>[a-z]+) broken"\n'
        'code = "disk_errors"\nmeans = "ours"\n[counter.symbol_error]\nlimit = 10\n[dcgm.30]\ncode = "dcgm_diag_warn"\n'
    )
    assert told(text, known) == []


@pytest.mark.parametrize(
    ("text", "line", "hint"),
    [
        ('version = "1"\n\n[codes.gpu_lots]\nlease = true\n', 3, "did you mean 'gpu_lost'"),
        ('version = "1"\n[codes.gpu_lost]\n# a remark\nresum = "verify"\n', 4, "did you mean 'resume'"),
        ('version = "1"\n[codes.gpu_lost]\nprolog = "reject"\n', 3, "gpu_lost.prolog: Invalid enum value 'reject'"),
        ('version = "1"\n[codes.gpu_lost]\nlease = true\nconfirm = "often"\n', 4, "Expected `int | null`"),
        ('version = "1"\n[codes]\ngpu_lost = { lease = true, confirm = 0 }\n', 3, "confirm 0: expected 1 or more"),
        ('version = "1"\ncodes.gpu_lost.confirm = 0\n', 2, "confirm 0: expected 1 or more"),
        ('version = "1"\n[code.gpu_lost]\nlease = true\n', 2, "did you mean 'codes'"),
        ("[codes.gpu_lost]\nlease = true\n", 1, "no version"),
        ('version = "1"\n[codes.gpu_lost\nlease = true\n', 2, "column"),
        ('version = "1"\n[codes.gpu_lost]\nlease = \n', 3, "Invalid value"),
        ('version = "1"\nx = """\n[codes.gpu_lots]\n"""\n[codes.gpu_lsot]\nlease = true\n', 5, "gpu_lsot"),
        ("version = 1\n", 1, "expected a text"),
        ('version = "1"\ncodes = 3\n', 2, "codes is no table"),
        ('version = "1"\n[codes]\ngpu_lost = 3\n', 3, "no table"),
        ('version = "1"\n[defaults."fail.nobody"]\nprolog = "drain"\n', 2, "expected status.blame"),
        ('version = "1"\n[codes.gpu_lost]\ninterval = "wait"\n', 3, "between jobs nobody waits"),
        ('version = "1"\n[codes.gpu_lost]\nblame = "self"\n', 3, "blame self goes with unknown only"),
        ('version = "1"\n[xid.seventy]\ncode = "gpu_xid_warn"\n', 2, "expected a number"),
        ('version = "1"\n[xid."79"]\ncode = "gpu_xid_wran"\n', 3, "Invalid enum value"),
        ('version = "1"\n[xid."79"]\njudge = "gpu_helth"\n', 3, "did you mean 'gpu_health'"),
        ('version = "1"\n[kernel.x]\nmatch = "a"\ncode = "disk_erors"\n', 4, "did you mean 'disk_errors'"),
        ('version = "1"\n[kernel.x]\nmatch = "a("\n', 3, "no regular expression"),
        ('version = "1"\n[kernel.x]\nmatch = ".*mlx5_core"\n', 3, "a text of any kind"),
        ('version = "1"\n[kernel.x]\nmatch = "(?P<target>.{1,9}) broken"\n', 3, "a text of any kind"),
        ('version = "1"\n[kernel.x]\nmatch = "a"\nat_least = 0\n', 4, "at_least 0: expected 1"),
        ('version = "1"\n[sxid."11004"]\nkind = "fatel"\n', 3, "did you mean 'fatal'"),
        ('version = "1"\n[nvlink.replay]\nunless = "replai"\n', 3, "did you mean 'replay'"),
        ('version = "1"\n[nvlink5.x]\nstep = "restart"\n', 3, "Invalid enum value"),
        ('version = "1"\n[dcgm.severity-9]\nname = "x"\n', 2, "expected a number"),
        ('version = "1"\n[dcgm.52]\ncode = "dcgm_diag_hardwear"\n', 3, "did you mean 'dcgm_diag_hardware'"),
        ('version = "1"\n[dcgm.44]\nstatus = "fail"\n', 3, "our own trouble"),
        ('version = "1"\n[counter.symbol_error]\nlimit = -1\n', 3, "limit -1: expected 0"),
        ('version = "1"\n[counter.x]\npath = "/etc/passwd"\n', 3, "expected counters/NAME"),
    ],
)  # fmt: skip
def test_an_error_is_named_by_its_line(text: str, line: int, hint: str, known: Known) -> None:
    errors = [(at, said) for at, level, said in told(text, known) if level == "error"]
    assert any(at == line and hint in said for at, said in errors), errors


@pytest.mark.parametrize(
    ("text", "line", "hint"),
    [
        ('version = "1"\n[codes.clock_off]\ninterval = "drain"\n', 3, "never reached: it is fail, config"),
        ('version = "1"\n[codes.gpu_hot]\nprolog = "refuse"\n', 3, "never reached: it is warn, node"),
        ('version = "1"\n[defaults."warn.node"]\ninterval = "drain"\n', 3, "never reached"),
        ('version = "1"\n[codes.check_error]\nconfirm = 2\n', 2, "our own trouble"),
        ('version = "1"\n[codes.gpu_remap_pending]\nlease = true\n', 3, "no prolog is refused"),
        ('version = "1"\n[codes.disk_gone]\nrefuse_up_to_nodes = 4\n', 3, "no prolog is refused"),
        ('version = "1"\n[codes.gpu_lost]\nshadow = true\nlease = true\n', 4, "in shadow"),
        ('version = "1"\n[codes.gpu_hot]\nconfirm = 3\n', 3, "nothing follows"),
        ('version = "1"\n[codes.gpu_lost]\ninterval = "admit"\n', 3, "contradiction"),
        ('version = "1"\n[kernel.x]\ncode = "disk_errors"\n', 2, "no match"),
        ('version = "1"\n[kernel.x]\nmatch = "abc"\nwithin = 10.0\n', 4, "one line is enough"),
        ('version = "1"\n[kernel.x]\nmatch = "a (?P<target>b)"\nclear = "a b"\n', 4, "never ends"),
        ('version = "1"\n[kernel.a]\nmatch = "abc"\n[kernel.b]\nmatch = "abc"\n', 5, "that of kernel.a"),
        ('version = "1"\n[kernel.raid_failed]\noff = true\nmeans = "x"\n', 3, "no effect"),
        ('version = "1"\n[counter.x]\nlimit = 3\n', 2, "no path"),
        ('version = "1"\n[nvlink.x]\nlimit = 3\n', 2, "no field"),
        ('version = "1"\n[xid."79"]\nstatus = "fail"\nblame = "job"\n', 3, "takes no node away"),
        ('version = "1"\n[nvlink5.x]\nxid = 79\nstep = "reset"\n', 3, "144 to 150"),
    ],
)
def test_what_never_acts_is_warned_of(text: str, line: int, hint: str, known: Known) -> None:
    found = told(text, known)
    assert all(level == "warning" for _, level, _ in found), found
    assert any(at == line and hint in said for at, _, said in found), found


def test_a_rule_for_a_code_that_a_table_makes_a_fail_is_reached(known: Known) -> None:
    rule = 'version = "1"\n[codes.disk_errors]\ninterval = "drain"\n'
    raised = read_pack('version = "0"\n[kernel.disk_io]\nstatus = "fail"\n', "raised.toml")
    assert "never reached" in told(rule, known)[0][2]
    assert examine(rule, known, merge((*load_packs(None), ("raised.toml", raised)))) == ()


@pytest.mark.parametrize("pack", PACKS, ids=lambda p: p.name)
def test_the_shipped_packs_are_without_fault(pack: Path, known: Known) -> None:
    assert told(pack.read_text(), known) == []


@pytest.mark.parametrize("pack", PACKS, ids=lambda p: p.name)
def test_every_shipped_value_has_version_origin_and_reason(pack: Path) -> None:
    """Data, not code: who set it, where it comes from, and why."""
    read = read_pack(pack.read_text(), pack.name)
    assert read.version
    for part in TABLES:
        for key, entry in getattr(read, part).items():
            assert (entry.origin or read.origin) and (entry.reason or read.reason), f"{part}.{key}"


def test_the_page_about_policy_shows_what_is_true(known: Known) -> None:
    page = (Path(policy_module.__file__).parents[2] / "docs" / "policy.md").read_text()
    example = page.partition("```toml\n")[2].partition("```")[0]
    assert told(example, known) == [] and "[codes." in example
    assert all(f"| `{part}` |" in page for part in TABLES)


def test_lines_are_found_in_every_form() -> None:
    text = (
        "version = 'x'\n"
        '[ xid . "79" ] # remark\n'
        "'code' = 1\n"
        "a.b = 2\n"
        "text = '''\n"
        "no = 1\n"
        "'''\n"
        "after = { x = 1, 'y' = 2 }\n"
    )
    assert lines_of(text) == {
        ("version",): 1, ("xid",): 2, ("xid", "79"): 2, ("xid", "79", "code"): 3, ("xid", "79", "a"): 4,
        ("xid", "79", "a", "b"): 4, ("xid", "79", "text"): 5, ("xid", "79", "after"): 8, ("xid", "79", "after", "x"): 8,
        ("xid", "79", "after", "y"): 8,
    }  # fmt: skip


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(st.sampled_from(
    ['version = "1"', "[codes.gpu_lost]", "[xid.79]", "[kernel.x]", "[dcgm.52]", "[sxid.1]", "[codes]", "gpu_lost = 3",
     "match = '('", "match = 'a'", "code = 7", "code = 'x'", "status = 'fail'", "blame = 'self'", "prolog = 'drain'",
     "confirm = -1", "off = true", "limit = 'x'", "kind = 'y'", "]", "= =", "'''", "units = [1]", "xid = 'a'", ""]
), max_size=8).map("\n".join))  # fmt: skip
def test_examining_agrees_with_reading(text: str) -> None:
    """What the loader refuses has an error, and no file makes the examiner fail."""
    found = examine(text, declared(), shipped())
    try:
        read_pack(text, "site.toml")
    except PolicyError:
        assert any(p.level == "error" for p in found)
