"""The matrix's tables by value: whose reason it is, what is played where, what is told, and how the command ends."""

from __future__ import annotations

import json
from datetime import date
from pathlib import Path

import msgspec
import pytest
from click.testing import CliRunner

from daemon.cli.output import NotAllowed, Refused, Unreachable
from deploy.simcluster.matrix import command, fates, releases, show
from deploy.simcluster.matrix.parts import PARTS, chosen, older
from deploy.simcluster.matrix.rows import Fate, Outcome, Result, Row, joined, owner

OUT = Outcome(drained=True, owner="ours", job="PENDING", also="the script never ran")
ROW = Row(
    part="wide guard",
    scenario="batch",
    release="22.05",
    node="n1",
    state="IDLE+DRAIN",
    reason="nodevet: gpu_lost",
    observed=OUT,
    expected=OUT,
    seconds=0.7,
    passed=True,
)
FATE = Fate("batch", "nohold_on_prolog_fail; cred_expire=5", "22.05", fates.STARTS, fates.STARTS, True, to_start=6.1)
PLAYED = Result(True, ["22.05"], [ROW], [FATE], {"22.05": 201.0})


@pytest.mark.parametrize(
    ("reason", "state", "expected"),
    [
        ("", "IDLE", "none"),
        ("nodevet: gpu_lost GPU 3 [slurm@2026-12-01T10:00:00]", "IDLE+DRAIN", "ours"),
        ("nodevet/person: cable ordered [0bf7164d]", "IDLE+DRAIN", "person"),
        ("Prolog error [slurm@2026-12-01T10:00:00]", "IDLE+DRAIN", "slurm"),
        ("Not responding", "DOWN+NOT_RESPONDING", "slurm"),
        ("gres/gpu count reported lower than configured (6 < 8)", "IDLE+DRAIN+INVALID_REG", "slurm"),
        ("ADMIN: nodevet: fan 3 is noisy (alice)", "IDLE+DRAIN", "other"),
        ("nodevet: left over by 24.11 after a resume", "IDLE", "none"),
    ],
)
def test_names_whose_reason_it_is(reason: str, state: str, expected: str) -> None:
    assert owner(reason, state) == expected


def test_every_row_has_a_name_of_its_own() -> None:
    named = [(part.name, s.name, act.settings) for part in PARTS for act in part.acts for s in act.scenarios]
    assert len(set(named)) == len(named) >= 49
    kinds = [(case.job, case.named) for case in fates.CASES]
    assert len(set(kinds)) == len(kinds) >= 10


def test_releases_are_compared_as_numbers() -> None:
    assert older("22.05", "23.02") and older("9.11", "22.05")
    assert not older("24.11", "24.11") and not older("22.05", "")


def test_a_word_chooses_scenarios_by_name_or_by_settings() -> None:
    def names(*only: str) -> list[str]:
        return [s.name for part in chosen(only, "26.05") for act in part.acts for s in act.scenarios]

    assert names("salloc") == ["salloc", "salloc on two nodes, fault on the second"]
    assert names("DeferBatch") == [
        "two nodes, Slurm waits as well",
        "two nodes, Slurm waits as well, fault on the second",
    ]
    assert names("no such word") == []


def test_a_fate_names_the_settings_that_make_it_and_how_long_the_lab_waits() -> None:
    named = {case.named for case in fates.CASES}
    assert all(name.endswith("cred_expire=5") for name in named)
    assert "nohold_on_prolog_fail,requeue_delay=1; cred_expire=5" in named
    assert "slurm's default; cred_expire=5" in named
    assert not any("bf_interval" in name for name in named)


def test_the_gates_row_is_a_fate_too() -> None:
    row = msgspec.structs.replace(ROW, scenario="two nodes, fault on the second")
    assert [(f.fate, f.passed) for f in fates.with_gate([ROW, row], "22.05")] == [
        ("requeued before its script began", True)
    ]
    ran = msgspec.structs.replace(row, observed=msgspec.structs.replace(OUT, also="the script ran once"), passed=False)
    assert [(f.fate, f.passed) for f in fates.with_gate([ran], "22.05")] == [("not held", False)]


def test_what_differs_is_told_beside_what_was_expected() -> None:
    bad = msgspec.structs.replace(
        ROW, observed=Outcome(False, "none", "COMPLETED"), passed=False, trouble="n1 was not drained"
    )
    assert show.cells(ROW)[-1] == "as expected"
    assert show.cells(bad)[-1] == (
        "EXPECTED drained, reason of ours, job PENDING, the script never ran. n1 was not drained"
    )


def test_the_page_has_a_column_for_each_release_and_marks_what_failed() -> None:
    bad = msgspec.structs.replace(ROW, release="24.11", observed=Outcome(False, "none", "COMPLETED"), passed=False)
    other = Result(
        False, ["24.11"], [bad], [msgspec.structs.replace(FATE, release="24.11", to_start=7.0)], {"24.11": 9.0}
    )
    text = show.page(joined([PLAYED, other], {}), date(2026, 12, 1))
    assert "Played 2026-12-01: 22.05 in 201 s, 24.11 in 9 s." in text
    assert "simulated" in text.split("\n\n")[1]
    assert (
        "| batch | yes, ours | PENDING | the script never ran | IDLE+DRAIN 0.7 "
        "| **IDLE+DRAIN not drained, reason of none, job COMPLETED** |"
    ) in text
    assert f"| batch | nohold_on_prolog_fail; cred_expire=5 | {fates.STARTS} | 6.1 | 7.0 |" in text


def test_the_page_in_docs_has_every_row_and_every_fate() -> None:
    text = (Path(__file__).resolve().parents[2] / "docs/matrix.md").read_text()
    rows = [(s.name, act.settings) for part in PARTS for act in part.acts for s in act.scenarios]
    named = [f"{name} ({settings})" if settings else name for name, settings in rows]
    assert [name for name in named if f"| {name} |" not in text] == []
    assert [case for case in fates.CASES if f"| {case.job} | {case.named} |" not in text] == []


def test_one_release_that_fails_or_cannot_be_played_fails_the_whole() -> None:
    assert joined([PLAYED, PLAYED], {}).passed
    assert not joined([PLAYED, msgspec.structs.replace(PLAYED, passed=False)], {}).passed
    assert not joined([PLAYED], {"26.05": "no network"}).passed
    assert not joined([], {}).passed


def test_without_a_release_the_one_that_is_installed_is_played(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(releases, "installed", lambda: "25.05")
    assert releases.wanted(None) == ["25.05"]
    assert releases.wanted("24.11") == ["24.11"]
    assert releases.wanted("all") == ["22.05", "24.11", "25.05", "26.05"]


def script(tmp_path: Path, text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "release.sh"
    path.write_text(text)
    monkeypatch.setattr(releases, "SCRIPT", path)
    monkeypatch.setattr("os.geteuid", lambda: 0)


def test_another_release_is_played_by_the_script_with_the_words_as_they_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    document = tmp_path / "document"
    document.write_bytes(msgspec.json.encode(replace_release("24.11")))
    text = f'for word; do printf "%s\\n" "$word"; done >"{tmp_path}/words"; cat "{document}"; exit 123\n'
    script(tmp_path, text, monkeypatch)
    assert releases.elsewhere("24.11", ["--only", "$(id) x"]).releases == ["24.11"]
    assert (tmp_path / "words").read_text().splitlines() == ["trixie", "--json", "--only", "$(id) x"]


def test_a_suite_that_has_moved_on_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    document = tmp_path / "document"
    document.write_bytes(msgspec.json.encode(replace_release("26.11")))
    script(tmp_path, f'cat "{document}"\n', monkeypatch)
    with pytest.raises(Refused, match=r"Debian forky has slurm 26\.11 now, not 26\.05"):
        releases.elsewhere("26.05", [])


def replace_release(release: str) -> Result:
    return msgspec.structs.replace(PLAYED, releases=[release])


@pytest.mark.parametrize(("code", "kind"), [(69, Unreachable), (77, NotAllowed), (1, Refused), (137, Refused)])
def test_where_it_cannot_be_played_the_exit_code_says_why(
    code: int, kind: type[Exception], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    script(tmp_path, f"exit {code}\n", monkeypatch)
    with pytest.raises(kind, match="could not be played in a Debian trixie"):
        releases.elsewhere("24.11", [])


def test_only_root_and_only_a_known_release_and_only_a_checkout(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    script(tmp_path, "", monkeypatch)
    with pytest.raises(Refused, match=r"no known Debian has slurm 19\.05"):
        releases.elsewhere("19.05", [])
    monkeypatch.setattr("os.geteuid", lambda: 1000)
    with pytest.raises(NotAllowed, match="only root can make"):
        releases.elsewhere("24.11", [])
    monkeypatch.setattr("os.geteuid", lambda: 0)
    monkeypatch.setattr(releases, "SCRIPT", tmp_path / "gone")
    with pytest.raises(Unreachable, match="only be played from a checkout"):
        releases.elsewhere("24.11", [])


def test_the_command_prints_one_document_of_every_release_and_ends_as_the_worst(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def one(release: str, _: tuple[str, ...]) -> Result:
        if release == "26.05":
            raise Unreachable("no network")
        return replace_release(release)

    monkeypatch.setattr(command, "_one", one)
    monkeypatch.setattr(releases, "installed", lambda: "22.05")
    done = CliRunner().invoke(command.matrix, ["--release", "all", "--json"])
    assert done.exit_code == 69
    document = json.loads(done.stdout)
    assert (document["passed"], document["releases"], document["simulated"]) == (False, ["22.05", "24.11"], True)
    assert document["impossible"] == {"26.05": "no network"}
    assert CliRunner().invoke(command.matrix, ["--release", "24.11"]).exit_code == 0


def test_a_row_that_came_out_otherwise_ends_with_1(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(command, "_one", lambda *_: msgspec.structs.replace(PLAYED, passed=False))
    done = CliRunner().invoke(command.matrix, ["--release", "24.11"])
    assert (done.exit_code, "ended otherwise" in done.stderr) == (1, True)
