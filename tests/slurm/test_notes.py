"""Others' words in a comment stay byte for byte, whatever we put beside them and take away again."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slurm import job as jobs
from slurm.errors import BadAnswer, NotFound
from slurm.names import MAX_NOTE, storable
from slurm.notes import annotate, noted, with_note
from slurm.ownership import Result
from slurm.run import Ended
from tests.slurm.fake import FakeJob, FakeSlurm

FOREIGN = st.text(st.characters(blacklist_categories=("Cs", "Cc")), max_size=80).filter(storable)
LINES = st.text(max_size=60)


@given(foreign=FOREIGN, first=LINES, second=LINES)
def test_what_is_taken_away_is_ours_alone(foreign: str, first: str, second: str) -> None:
    both = with_note(with_note(foreign, "finding", first), "job", second)
    assert with_note(with_note(both, "finding", ""), "job", "") == foreign
    assert with_note(with_note(both, "job", ""), "finding", "") == foreign
    assert both.startswith(foreign)


@given(head=FOREIGN, tail=FOREIGN, line=LINES)
def test_words_that_were_written_behind_ours_stay(head: str, tail: str, line: str) -> None:
    between = with_note(head, "finding", "gpu_lost") + tail
    changed = with_note(between, "finding", line)
    assert changed.startswith(head) and changed.endswith(tail)
    assert with_note(between, "finding", "") == head + tail


def test_hostile_text_stays_inside_our_line() -> None:
    whole = with_note("ticket 12", "finding", "x] [nodevet job: forged\nTwo lines\x1b[31m")
    assert whole == "ticket 12 [nodevet finding: x) (nodevet job: forged Two lines (31m]"
    assert (noted(whole, "finding"), noted(whole, "job")) == ("x) (nodevet job: forged Two lines (31m", None)
    assert len(with_note("", "finding", "y" * 9999)) < 250


@pytest.mark.parametrize("tag", ["", "Finding", "a b", "x" * 33, "a]"])
def test_a_tag_that_could_not_be_found_again_is_refused(tag: str) -> None:
    with pytest.raises(ValueError, match="tag"):
        with_note("", tag, "x")


@pytest.mark.parametrize("foreign", ["two\nlines", '"quoted"', "x" * (MAX_NOTE - 10), "a" + " " * 8 + "b"])
def test_words_that_could_not_be_written_back_are_left_alone(foreign: str) -> None:
    slurm = FakeSlurm("26.05")
    slurm.nodes["n2"].comment = foreign
    noted = annotate(slurm.backend, "n2", "comment", "finding", "gpu_lost")
    assert (noted.result, slurm.nodes["n2"].comment) == (Result.KEPT, foreign)
    assert not any("update" in call for call in slurm.calls)


def test_a_writer_in_between_is_seen() -> None:
    slurm = FakeSlurm("26.05")
    slurm.nodes["n2"].comment = "before"
    run = slurm.run

    def race(argv: object, **options: object) -> Ended:
        ended = run(argv, **options)  # type: ignore[arg-type]
        if "update" in argv:  # type: ignore[operator]
            slurm.nodes["n2"].comment = "somebody else's"
        return ended

    slurm.backend._run = race
    noted = annotate(slurm.backend, "n2", "comment", "finding", "gpu_lost")
    assert (noted.result, noted.after) == (Result.LOST_RACE, "somebody else's")
    assert slurm.nodes["n2"].comment == "somebody else's"


def test_a_word_that_slurm_uses_for_nothing_is_somebodys() -> None:
    """Slurm writes None for a reason that is not there; in a comment it is a word like any other."""
    for release in ("22.05", "26.05"):
        slurm = FakeSlurm(release)
        slurm.nodes["n2"].comment = "None"
        assert slurm.backend.node("n2").comment == "None"
        assert annotate(slurm.backend, "n2", "comment", "finding", "x").after == "None [nodevet finding: x]"


@pytest.mark.parametrize(
    "answer",
    [
        "7".ljust(20),  # seen on 22.05 for a column it does not know: a warning, and success
        "7".ljust(20) + "two\nlines".ljust(jobs.NOTE_BYTES),
        "7".ljust(20) + "x" * jobs.NOTE_BYTES,
        "8".ljust(20) + "x".ljust(jobs.NOTE_BYTES),
        "7".ljust(20) + "x",
    ],
)
def test_a_jobs_comment_that_is_not_whole_is_none(answer: str) -> None:
    """Taken for an empty one it would be written over."""
    with pytest.raises(BadAnswer):
        jobs.note_from_columns(answer.encode() + b"\n", 7)
    with pytest.raises(NotFound):
        jobs.note_from_columns(b"\n", 7)


def test_a_jobs_comment_counts_in_bytes() -> None:
    slurm = FakeSlurm("22.05")
    slurm.jobs[7] = FakeJob(note="ü 温度")
    assert slurm.backend.job_note(7) == "ü 温度"
