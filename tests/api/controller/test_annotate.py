"""What is written beside somebody else's words is written by opt-in, under our tag, once, and taken away when over."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path

import pytest

from api.controller.annotate import wanted
from checks.wire import Decision, JobAttempt
from slurm.errors import PermissionDenied
from tests.api.controller.fake_slurm import Bench, bench


def notes(b: Bench) -> list[tuple[str, str, str]]:
    return [w for w in b.slurm.writes if w[0] in ("comment", "extra")]


def foreign(b: Bench, node: str = "n1", comment: str = "rack 7, ticket 12") -> None:
    b.slurm.set(node, "drain", "cable (bob)", user="bob")
    b.slurm.table[node] = replace(b.slurm.table[node], comment=comment)
    b.report(node, b.lost())


def test_our_finding_stands_beside_a_foreign_reason_and_goes_with_it(tmp_path: Path) -> None:
    with bench(tmp_path, annotate=("comment",)) as b:
        foreign(b)
        asyncio.run(b.tick())
        assert notes(b) == [("comment", "n1", "rack 7, ticket 12 [nodevet finding: gpu_lost GPU 3]")]
        assert b.slurm.table["n1"].reason is not None and b.slurm.table["n1"].reason.text == "cable (bob)"
        asyncio.run(b.tick())
        asyncio.run(b.tick())
        assert len(notes(b)) == 1
        b.report("n1", b.fine())
        asyncio.run(b.tick())
        assert notes(b)[1:] == [("comment", "n1", "rack 7, ticket 12")]
        assert [a.action for a in b.store.audit_log() if "annot" in a.action] == ["annotation removed", "annotated"]


def test_what_only_the_kernel_remembers_is_no_finding_beside_a_reason(tmp_path: Path) -> None:
    """A code that the policy calls a failure, said as a warning by its check, is of a fault that is over."""
    with bench(tmp_path) as b:
        foreign(b)
        state = b.slurm.table["n1"]
        for status, expected in (("fail", "gpu_lost GPU 3"), ("warn", "")):
            found = (b.lost(status=status),)
            b.core.store.all_failing = lambda _, found=found: {"n1": found}  # type: ignore[method-assign, misc]
            asyncio.run(b.core.view.refresh())
            assert wanted(state, {"n1": found}) == expected
            assert bool(b.control.drains()[0].beside) is bool(expected)


def test_it_goes_when_the_node_is_given_back(tmp_path: Path) -> None:
    with bench(tmp_path, annotate=("extra",), automation=False) as b:
        foreign(b)
        asyncio.run(b.tick())
        assert b.slurm.table["n1"].extra == "[nodevet finding: gpu_lost GPU 3]"
        b.slurm.resume("n1")
        asyncio.run(b.tick())
        assert b.slurm.table["n1"].extra == "" and b.slurm.table["n1"].comment == "rack 7, ticket 12"


def test_without_the_setting_nothing_is_written(tmp_path: Path) -> None:
    with bench(tmp_path) as b:
        foreign(b)
        asyncio.run(b.tick())
        assert notes(b) == [] and b.slurm.notes == {}


def test_a_drain_of_ours_needs_no_note_and_a_paused_node_gets_none(tmp_path: Path) -> None:
    with bench(tmp_path, annotate=("comment",)) as b:
        b.report("n2", b.lost())
        asyncio.run(b.control.pause("n1", 3600.0, "driver", "ann"))
        foreign(b)
        asyncio.run(b.tick())
        assert b.slurm.table["n2"].out_of_service and notes(b) == []


def test_a_rack_of_findings_costs_a_few_writes_a_round(tmp_path: Path) -> None:
    with bench(tmp_path, count=12, annotate=("comment",)) as b:
        for n in range(1, 11):
            foreign(b, f"n{n}")
        for round_ in (4, 8, 10, 10):
            asyncio.run(b.tick())
            assert len(notes(b)) == round_


def test_who_may_not_write_tries_again_later_only(tmp_path: Path) -> None:
    with bench(tmp_path, annotate=("comment",)) as b:
        foreign(b)
        tries = []

        def denied(name: str, field: str, text: str) -> None:
            tries.append(name)
            raise PermissionDenied("access denied")

        b.slurm.set_note = denied  # type: ignore[method-assign]
        for _ in range(3):
            asyncio.run(b.tick())
        assert tries == ["n1"]


@pytest.mark.parametrize("wish", [True, False])
def test_why_a_job_was_refused_stands_beside_the_job(tmp_path: Path, wish: bool) -> None:
    with bench(tmp_path, annotate_jobs=wish) as b:
        refused = Decision(
            verdict="faulty", wanted="refuse", allowed="refuse", codes=("gpu_lost",), reason="gpu_lost GPU 3"
        )
        b.slurm.notes[42] = "by site"
        job = JobAttempt(job_id=42, restart_count=0)
        b.report("n1", b.lost(), occasion="prolog", decision=refused, job=job)
        asyncio.run(b.tick())
        asyncio.run(b.tick())
        expected = "by site [nodevet refused: attempt 42.0 on n1: gpu_lost GPU 3]" if wish else "by site"
        assert b.slurm.notes[42] == expected
