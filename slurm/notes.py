"""A text that belongs to others is only ever added to, under our tag, and only what stands under our tag is taken away.

``ticket 12, see rack sheet [nodevet finding: gpu_lost GPU 3]``: the words before and behind are somebody else's and
stay byte for byte. Slurm has no compare-and-set: it is read, written within 50 ms and read back; who writes between
our read and our write is seen only if his words are what is read back. So it is written where an administrator opted
in, and nothing depends on it.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

from slurm.backend import Backend, Field
from slurm.errors import SlurmError
from slurm.names import MAX_NOTE, checked_node, storable
from slurm.ownership import Result
from slurm.reason import one_line

TEXT_LIMIT = 200
_TAG = re.compile(r"[a-z][a-z0-9_-]{0,31}")


@dataclass(frozen=True, slots=True)
class Noted:
    """What became of a note, and the whole text before and after as it was read."""

    result: Result
    detail: str = ""
    before: str = ""
    after: str = ""


def annotate(backend: Backend, name: str, field: Field, tag: str, text: str) -> Noted:
    """Put one line under our tag into a node's comment or extra; an empty text takes only our line away.

    WRITTEN, ALREADY_OURS (stands there), KEPT (others' words could not be written back as they are, or leave no
    room), LOST_RACE (something else was read back), FAILED (Slurm did not answer or refused).
    """
    checked_node(name)

    def read() -> str:
        state = backend.node(name)
        return (state.comment if field == "comment" else state.extra) or ""

    return _put(f"{field} of node {name}", read, lambda whole: backend.set_note(name, field, whole), tag, text)


def annotate_job(backend: Backend, job_id: int, tag: str, text: str) -> Noted:
    """Put one line under our tag into a job's AdminComment, which no user can write; an empty text takes it away."""
    what = f"admin comment of job {job_id}"
    return _put(what, lambda: backend.job_note(job_id), lambda whole: backend.set_job_note(job_id, whole), tag, text)


def noted(whole: str, tag: str) -> str | None:
    """What stands under our tag in a text, None when nothing does."""
    found = _ours(tag).search(whole)
    return found.group("text") if found else None


def with_note(whole: str, tag: str, text: str) -> str:
    """The text with our line put in the place of our former one, else at the end; with an empty line it is gone."""
    line = one_line(text.replace("[", "(").replace("]", ")"), TEXT_LIMIT)
    ours = f"[nodevet {tag}: {line}]" if line else ""
    found = _ours(tag).search(whole)
    if found is None:
        return f"{whole} {ours}" if whole and ours else whole or ours
    # The blank before it is ours as well, unless our line came first and somebody wrote behind it.
    head, tail = whole[: found.start()], _ours(tag).sub("", whole[found.end() :])
    if ours:
        return f"{head}{' ' if head else ''}{ours}{tail}"
    return head + tail if head else tail.removeprefix(" ")


def _ours(tag: str) -> re.Pattern[str]:
    if _TAG.fullmatch(tag) is None:
        raise ValueError(f"tag {tag!r} is not lower case letters, digits, '_' and '-', at most 32")
    return re.compile(rf" ?\[nodevet {re.escape(tag)}: (?P<text>[^\[\]]*)\]")


def _put(what: str, read: Callable[[], str], write: Callable[[str], None], tag: str, text: str) -> Noted:
    try:
        before = read()
        wanted = with_note(before, tag, text)
        if wanted == before:
            return Noted(Result.ALREADY_OURS, before=before, after=before)
        if not storable(before):
            return Noted(Result.KEPT, f"{what} cannot be written back as it is: {before[:100]!r}", before)
        if not storable(wanted):
            size = len(wanted.encode("utf-8", "surrogateescape"))
            return Noted(Result.KEPT, f"{what} would be {size} bytes, at most {MAX_NOTE}", before)
        write(wanted)
        after = read()
    except SlurmError as error:
        return Noted(Result.FAILED, str(error))
    if after != wanted:
        return Noted(Result.LOST_RACE, f"{what}: {after[:100]!r} was read back, not ours", before, after)
    return Noted(Result.WRITTEN, before=before, after=after)
