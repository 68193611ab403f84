"""Policies are shown with their origins, proved by line and compared, with the agreed exit codes."""

from __future__ import annotations

from pathlib import Path

import pytest

from checks.judge.policy import TABLES
from tests.daemon.cli.command import document, nodevet, write_config


@pytest.fixture
def config(tmp_path: Path) -> Path:
    (tmp_path / "policy.d").mkdir()
    (tmp_path / "policy.d/site.toml").write_text(
        'version = "site 1"\norigin = "our runbook"\n[codes.gpu_lost]\nprolog = "drain"\nreason = "seen in May"\n'
    )
    return write_config(tmp_path / "nodevet.toml", f'policy_dir = "{tmp_path}/policy.d"\n')


def test_each_value_tells_file_version_source_and_reason(config: Path, tmp_path: Path) -> None:
    shown = document(nodevet("policy", "show", "--json", config=config))
    site = f"{tmp_path}/policy.d/site.toml"
    assert shown["rules"]["codes.gpu_lost.prolog"] == {
        "value": "drain", "origin": site, "version": "site 1", "source": "our runbook", "reason": "seen in May",
    }  # fmt: skip
    lease = shown["rules"]["codes.gpu_lost.lease"]
    assert lease["origin"] == "gpu.toml" and lease["version"] and lease["source"] and lease["reason"]
    assert {p["file"] for p in shown["packs"]} >= {
        "base.toml",
        "dcgm.toml",
        "xid.toml",
        "sxid.toml",
        "nvlink5.toml",
        site,
    }
    parts = {key.partition(".")[0] for key in shown["rules"]}
    assert parts == set(TABLES)
    assert all(rule["version"] and rule["reason"] for rule in shown["rules"].values())


@pytest.mark.parametrize(
    ("argv", "expected"),
    [
        (("gpu_lost",), "codes.gpu_lost.prolog"),
        (("gpu_lost", "--origin"), "seen in May"),
        (("xid.79",), "xid.79.judge"),
        (("dcgm",), "dcgm.52.code"),
        ((), "tables, shown by their name: xid ("),
    ],
)
def test_rules_and_tables_are_shown_by_name(config: Path, argv: tuple[str, ...], expected: str) -> None:
    done = nodevet("policy", "show", *argv, config=config)
    assert done.returncode == 0 and expected in done.stdout


def test_an_entry_that_is_not_there_names_the_nearest(config: Path) -> None:
    done = nodevet("policy", "show", "dcgm.severity-7", config=config)
    assert done.returncode == 1 and "did you mean 'severity-" in done.stderr


def test_problems_are_named_by_line(config: Path, tmp_path: Path) -> None:
    bad, odd = tmp_path / "bad.toml", tmp_path / "odd.toml"
    bad.write_text('version = "1"\n\n[codes.gpu_lots]\nlease = true\n')
    odd.write_text('version = "2"\n[codes.gpu_hot]\nprolog = "refuse"\n')
    done = nodevet("policy", "validate", str(odd), str(bad), config=config)
    assert done.returncode == 1 and f"{bad}:3: error: no check gives the code 'gpu_lots'" in done.stderr
    assert f"{odd}:3: warning:" in done.stdout and f"{odd}: ok, version 2" in done.stdout
    assert nodevet("policy", "validate", str(odd), config=config).returncode == 0
    assert nodevet("policy", "validate", "--strict", str(odd), config=config).returncode == 1
    told = document(nodevet("policy", "validate", "--json", str(odd), config=config))
    assert [(p["line"], p["level"]) for p in told["files"][0]["problems"]] == [(3, "warning")]


def test_two_policies_are_compared_by_what_follows(config: Path, tmp_path: Path) -> None:
    done = nodevet("policy", "diff", "shipped", config=config)
    assert done.returncode == 0 and "codes.gpu_lost" in done.stdout and "refuse" in done.stdout
    found = document(nodevet("policy", "diff", "shipped", f"{tmp_path}/policy.d", "--json", config=config))
    assert found["differences"] == [
        {"table": "codes", "key": "gpu_lost", "value": "prolog", "a": "refuse", "b": "drain"}
    ]
    same = nodevet("policy", "diff", "in-force", f"{tmp_path}/policy.d/site.toml", "--exit-code", config=config)
    assert (same.returncode, same.stdout) == (0, "the same follows from both\n")
    assert nodevet("policy", "diff", "shipped", "in-force", "--exit-code", config=config).returncode == 1
    gone = nodevet("policy", "diff", "shipped", "/no/such", config=config)
    assert gone.returncode == 1 and "expected a file, a folder, shipped or in-force" in gone.stderr
