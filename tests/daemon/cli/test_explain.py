"""The catalogue is listed whole, and each code with what the policy in force makes of it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from checks.catalog import load
from checks.judge.context import Context
from checks.judge.decide import decide
from checks.judge.policy import load_policy
from checks.judge.verdict import judged
from checks.wire import Finding
from tests.daemon.cli.command import document, nodevet, write_config


def test_every_check_is_listed_with_its_codes(tmp_path: Path) -> None:
    done = nodevet("explain", "--list", "--json", config=write_config(tmp_path / "nodevet.toml"))
    assert done.returncode == 0
    found = {c["id"]: c for c in json.loads(done.stdout)}
    assert set(found) == set(load())
    count = found["gpu_count"]
    assert (count["subject"], count["cost"], count["lane"]) == ("gpu", "passive", load()["gpu_count"].lane)
    codes = {c["code"]: c for c in count["codes"]}
    assert codes["gpu_count_low"]["action"] == {"prolog": "refuse", "interval": "drain"}
    assert {c["code"] for c in found["clock"]["codes"]} >= {"clock_off"}
    assert all(c["action"]["interval"] == "admit" for c in found["clock"]["codes"])


def test_what_a_list_says_of_a_code_is_what_decide_does(tmp_path: Path) -> None:
    """One decide(): every code of every check, at a prolog and between jobs, by a policy with layers of a site."""
    (tmp_path / "policy.d").mkdir()
    (tmp_path / "policy.d/site.toml").write_text(
        'version = "s"\n[codes.gpu_lost]\nshadow = true\n[codes.gpu_hot]\nstatus = "fail"\n[codes.clock_off]\n'
        'interval = "drain"\nprolog = "refuse"\n[codes.gpu_failing]\nblame = "config"\n'
    )
    config = write_config(tmp_path / "nodevet.toml", f'policy_dir = "{tmp_path}/policy.d"\n')
    policy = load_policy(tmp_path / "policy.d")
    listed = document(nodevet("explain", "--list", "--json", config=config))
    told = {c["code"]: c for check in listed for c in check["codes"]}
    assert (told["gpu_lost"]["shadow"], told["gpu_lost"]["action"]["interval"]) == (True, "admit")
    for name, code in told.items():
        finding = Finding(target="x", code=name, seen=9, **code["declared"])
        [seen] = judged([finding], policy)
        assert (seen.status, seen.blame) == (code["status"], code["blame"]), name
        for occasion in ("prolog", "interval"):
            wanted = decide([finding], policy, Context(occasion=occasion)).wanted
            assert wanted == code["action"][occasion], (name, occasion)


def test_every_check_tells_all_of_itself(tmp_path: Path) -> None:
    for found in document(nodevet("explain", "--list", "--json", config=write_config(tmp_path / "nodevet.toml"))):
        declared = load()[found["id"]]
        for name in ("scope", "cost", "lane", "interval", "timeout", "required", "per_job", "title", "explain"):
            assert found[name] == getattr(declared, name), (found["id"], name)
        assert set(found["parameters"]) == set(found["parameter_types"]) == set(declared.options)
        assert [c["code"] for c in found["codes"]] == [c.name for c in declared.codes]
        assert found["subject"] and found["codes"] is not None
        assert [c["explain"] for c in found["codes"]] == [c.explain for c in declared.codes]


def test_the_table_has_a_line_a_check(tmp_path: Path) -> None:
    done = nodevet("explain", "--list", config=write_config(tmp_path / "nodevet.toml"))
    assert done.returncode == 0
    lines = done.stdout.splitlines()
    assert lines[0].split()[0] == "CHECK"
    assert {line.split()[0] for line in lines[1:]} == set(load())


@pytest.mark.parametrize("argv", [("explain",), ("explain", "gpu_count", "--list")])
def test_one_of_both_is_asked_for(argv: tuple[str, ...]) -> None:
    done = nodevet(*argv)
    assert done.returncode == 64 and "name a code or a check, or give --list" in done.stderr


@pytest.mark.parametrize("name", ["79", "xid.79", "Xid 79", "xid79"])
def test_who_asks_for_an_xid_is_sent_to_its_table(name: str) -> None:
    done = nodevet("explain", name)
    assert done.returncode == 1 and "nodevet policy show xid.79" in done.stderr


def test_a_check_says_which_of_its_codes_act(tmp_path: Path) -> None:
    (tmp_path / "policy.d").mkdir()
    (tmp_path / "policy.d/site.toml").write_text('version = "s"\n[codes.ib_port_absent]\nshadow = true\n')
    config = write_config(tmp_path / "nodevet.toml", f'policy_dir = "{tmp_path}/policy.d"\n')
    lines = nodevet("explain", "ib_port", config=config).stdout.splitlines()
    told = {line.split()[1].rstrip(":"): line for line in lines if line.startswith("code ")}
    assert told["ib_port_down"].endswith("at a job: refuse, between jobs: drain")
    assert told["ib_port_absent"].endswith("shown only (in shadow)")
    assert told["ib_port_slow"].endswith("shown only")


def test_a_family_of_accelerators_is_answered_with_its_members() -> None:
    done = nodevet("hardware", "H100")
    assert done.returncode == 1 and "h100-sxm" in done.stderr and "h100-pcie" in done.stderr


def test_an_xid_that_no_table_names_is_sent_to_the_default(tmp_path: Path) -> None:
    done = nodevet("policy", "show", "xid.9999", config=write_config(tmp_path / "nodevet.toml"))
    assert done.returncode == 1 and "xid.default says what follows" in done.stderr
