"""The process that holds pyslurm answers one question after another on its standard input, until that is closed.

Run as a file, ``python -I worker.py``: it imports nothing of nodevet, so that a Python that has only pyslurm can run
it, and so that libslurm, which ends its process on a bad slurm.conf, ends nothing else. A message is its length in
four bytes, big end first, and one JSON document.
"""

from __future__ import annotations

import json
import os
import struct
import sys
from typing import IO, Any

HEAD = struct.Struct(">I")
MAX_QUESTION = 1024 * 1024
FIELDS = (
    "name",
    "state",
    "reason",
    "reason_user",
    "reason_time",
    "boot_time",
    "slurmd_start_time",
    "partitions",
    "configured_gres",
    "active_features",
    "available_features",
    "total_cpus",
    "allocated_cpus",
    "real_memory",
    "slurm_version",
    "comment",
    "extra",
    "next_state",
)


def main() -> int:
    """Answer until the other side closes; whatever libslurm prints goes to standard error."""
    questions, answers = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.dup2(2, 1)
    try:
        import pyslurm
    except ImportError as error:
        send(answers, {"error": "ImportError", "message": str(error)})
        return 1
    send(answers, {"ready": True})
    while (question := receive(questions)) is not None:
        send(answers, answer(pyslurm, question))
    return 0


def answer(pyslurm: Any, question: dict[str, Any]) -> dict[str, Any]:
    """Answer one question; what goes wrong is told by the name and the words of its error."""
    try:
        return {"nodes": DO[question["do"]](pyslurm, question)}
    except Exception as error:
        return {"error": type(error).__name__, "message": str(error)[:2000]}


def load(pyslurm: Any, question: dict[str, Any]) -> list[dict[str, Any]]:
    """Load one node, or all in one call."""
    if "name" in question:
        return [told(pyslurm.Node.load(question["name"]))]
    return [told(node) for node in pyslurm.Nodes.load().values()]


def modify(pyslurm: Any, question: dict[str, Any]) -> list[dict[str, Any]]:
    """Change one node's state, reason or both."""
    changes = {key: question[key] for key in ("state", "reason") if key in question}
    pyslurm.Node(question["name"]).modify(pyslurm.Node(**changes))
    return []


DO = {"load": load, "modify": modify}


def told(node: Any) -> dict[str, Any]:
    """Write a node down; what this pyslurm does not have is null."""
    return {field: getattr(node, field, None) for field in FIELDS}


def receive(questions: IO[bytes]) -> dict[str, Any] | None:
    """Read one question; None when the other side has closed or sends nonsense."""
    head = questions.read(HEAD.size)
    if len(head) < HEAD.size or (length := HEAD.unpack(head)[0]) > MAX_QUESTION:
        return None
    body = questions.read(length)
    return dict(json.loads(body)) if len(body) == length else None


def send(answers: IO[bytes], message: dict[str, Any]) -> None:
    """Write one answer."""
    body = json.dumps(message, default=str).encode()
    answers.write(HEAD.pack(len(body)) + body)
    answers.flush()


if __name__ == "__main__":
    sys.exit(main())
