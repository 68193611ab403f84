"""What is handed to Slurm is one name, one line or one number, or it is refused before Slurm sees it."""

from __future__ import annotations

import re
from collections.abc import Sequence

from slurm.errors import BadRequest
from slurm.reason import one_line

MAX_REASON = 1000
MAX_NOTE = 1000  # bytes
MAX_NODES = 50_000

_NODE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,252}")
_WORD = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,63}")


def checked_node(name: str) -> str:
    """Return the name, or raise BadRequest: a list, a range or ``ALL`` would reach more than one node."""
    if _NODE.fullmatch(name) is None or name.upper() in {"ALL", "LOCALHOST", "DEFAULT"}:
        raise BadRequest(f"{name[:64]!r} is not the name of one node")
    return name


def checked_nodes(names: Sequence[str]) -> Sequence[str]:
    """Return the names, each of one node, or raise BadRequest; none at all would mean any to Slurm."""
    if not 0 < len(names) <= MAX_NODES:
        raise BadRequest(f"{len(names)} nodes, expected 1 to {MAX_NODES}")
    for name in names:
        checked_node(name)
    return names


def checked_reason(reason: str) -> str:
    """Return the reason, or raise BadRequest: Slurm must store it exactly as it is, or it cannot be recognised."""
    if not reason or reason != one_line(reason, MAX_REASON) or reason[0] in "\"'":
        raise BadRequest(f"reason {reason[:64]!r} is empty, quoted, too long or not one printable line")
    return reason


def checked_note(text: str) -> str:
    """Return the text, which may be empty, or raise BadRequest where Slurm would not store it as it is."""
    if not storable(text):
        raise BadRequest(f"note {text[:64]!r} is quoted, too long or not one printable line")
    return text


def storable(text: str) -> bool:
    """Whether a comment comes back from every release exactly as it was written."""
    plain = text.isprintable() and text == text.strip() and text[:1] not in ('"', "'") and text != "(null)"
    return plain and len(text.encode("utf-8", "surrogateescape")) <= MAX_NOTE and " " * 8 not in text


def checked_job(job_id: int) -> int:
    """Return the job id, or raise BadRequest."""
    if not 0 < job_id < 2**32:
        raise BadRequest(f"{job_id} is not a job id")
    return job_id


def checked_word(word: str, what: str) -> str:
    """Return a name of something else than a node, or raise BadRequest."""
    if _WORD.fullmatch(word) is None:
        raise BadRequest(f"{word[:64]!r} is not the name of one {what}")
    return word
