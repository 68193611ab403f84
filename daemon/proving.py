"""Policy files are proved against what the checks of this installation declare."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import daemon.agent.codes
import daemon.lanes.codes  # noqa: F401 - both declare codes of our own trouble
from checks import CODES
from checks.catalog import load
from checks.judge.examine import Known, Problem, examine
from checks.judge.policy import load_packs, merge, read_pack

GIVEN_BY = {"kernel": "kernel_events", "sxid": "kernel_events", "xid": "kernel_xid", "dcgm": "dcgm_diag"}
"""The check that reads a table, so that the codes which the table may give are known."""


@dataclass(frozen=True, slots=True)
class Proved:
    """One file with everything that is wrong with it; ``version`` is empty where it cannot be read."""

    file: str
    version: str
    problems: tuple[Problem, ...]

    @property
    def usable(self) -> bool:
        """Whether the agent can take it."""
        return not any(p.level == "error" for p in self.problems)


def declared() -> Known:
    """What the checks of this installation declare."""
    checks = load()
    return Known(
        codes={name: (code.status, code.blame) for name, code in CODES.items()},
        tables={table: frozenset(c.name for c in checks[name].codes) for table, name in GIVEN_BY.items()},
        checks=frozenset(checks),
    )


def prove(files: Sequence[Path]) -> list[Proved]:
    """Each file laid over the shipped packs and those before it; raises OSError or UnicodeDecodeError."""
    known, below, found = declared(), list(load_packs(None)), []
    for path in files:
        text = path.read_text(encoding="utf-8")
        problems = examine(text, known, merge(below))
        made = Proved(str(path), "", problems)
        if made.usable:
            pack = read_pack(text, str(path))
            below.append((str(path), pack))
            made = Proved(str(path), pack.version, problems)
        found.append(made)
    return found
