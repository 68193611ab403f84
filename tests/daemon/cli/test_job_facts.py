"""A job's array, its end and the evidence of what hung are told in one line each, hostile text included."""

from __future__ import annotations

import pytest

from daemon.cli.job_facts import print_evidence, print_facts


@pytest.mark.parametrize(
    ("row", "words"),
    [
        ({"job_id": 42, "array_job_id": 40, "array_task_id": 2}, ["42", "40_2"]),
        ({"job_id": 42, "het_job_id": 41, "het_offset": 0}, ["41+0"]),
        ({"job_id": 42, "exit_status": 768}, ["3"]),
        ({"job_id": 42, "exit_status": 9}, ["signal 9"]),
        ({"job_id": 42, "nodelist": "n[1-2]", "exit_status": "x"}, ["n[1-2]"]),
    ],
)
def test_one_line_an_attempt(capsys: pytest.CaptureFixture[str], row: dict[str, object], words: list[str]) -> None:
    print_facts([row])
    line = capsys.readouterr().out.splitlines()[-1]
    assert all(word in line for word in words)


def test_nothing_told_is_nothing_said(capsys: pytest.CaptureFixture[str]) -> None:
    print_facts([])
    print_evidence([{"node": "n1", "notes": ["order:x"]}, {"node": "n2"}])
    assert capsys.readouterr().out == ""


def test_evidence_stays_on_its_lines(capsys: pytest.CaptureFixture[str]) -> None:
    notes = ["unkillable", "1 processes of job 42 left, 1 in state D", "pid 7 x\x1b[31m\nfail state D: nvidia_close"]
    print_evidence([{"node": "n1", "notes": notes}])
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 4 and "could not kill it on n1" in lines[1]
    assert "\x1b" not in lines[3] and "nvidia_close" in lines[3]
