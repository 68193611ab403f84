"""`python -m tests.fuzz` mutates inputs for as long as it is told and keeps those that reach new lines."""

from __future__ import annotations

import argparse
import contextlib
import random
import sys
import time
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

from tests.fuzz.mutate import mutated
from tests.fuzz.parsers import PARSERS, Parser

OURS = ("/checks/", "/slurm/", "/daemon/")
SLOW = 2.0
KEPT = 2000
Line = tuple[str, int, int]


class Reached:
    """Which steps from line to line of our own code one input takes."""

    def __init__(self) -> None:
        self.steps: set[Line] = set()
        self._last: dict[int, int] = {}

    def __call__(self, frame: FrameType, event: str, arg: Any) -> Any:
        name = frame.f_code.co_filename
        if not any(part in name for part in OURS):
            return None
        if event == "line":
            self.steps.add((name, self._last.get(id(frame), 0), frame.f_lineno))
        self._last[id(frame)] = frame.f_lineno
        return self


@contextmanager
def watching() -> Iterator[Reached]:
    reached = Reached()
    sys.settrace(reached)
    try:
        yield reached
    finally:
        sys.settrace(None)


def fuzz(parser: Parser, seconds: float, dice: random.Random, crashes: Path) -> tuple[int, int, int]:
    """How many inputs were tried, how many of them are worth keeping, how many ended badly."""
    corpus, known = list(parser.seeds), set[Line]()
    tried = bad = 0
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        data = mutated(dice.choice(corpus), dice) if tried >= len(parser.seeds) else parser.seeds[tried]
        if dice.random() < 0.1:
            other = dice.choice(corpus)
            data = data[: len(data) // 2] + other[len(other) // 2 :]
        tried += 1
        begun = time.monotonic()
        trouble = ""
        with watching() as reached:
            try:
                parser.run(data)
            except parser.declared:
                pass
            except BaseException:
                trouble = traceback.format_exc()
        if not trouble and time.monotonic() - begun > SLOW and (taken := _alone(parser, data)) > SLOW:
            trouble = f"{taken:.1f} s\n"
        if trouble:
            bad += 1
            crashes.mkdir(parents=True, exist_ok=True)
            (crashes / f"{parser.name.replace(' ', '-')}-{bad}").write_bytes(data)
            sys.stdout.write(f"{parser.name}: {data!r}\n{trouble}\n")
            if bad >= 5:
                break
        if reached.steps - known and len(corpus) < KEPT:
            known |= reached.steps
            corpus.append(data)
    return tried, len(corpus), bad


def _alone(parser: Parser, data: bytes) -> float:
    """How long an input takes while nobody watches the lines, in seconds of this process."""
    begun = time.process_time()
    with contextlib.suppress(*parser.declared):
        parser.run(data)
    return time.process_time() - begun


def main() -> int:
    """Give every parser, or those named, its share of the time; 1 if any input ended one badly."""
    asked = argparse.ArgumentParser(description=__doc__)
    asked.add_argument("parsers", nargs="*", help="names of parsers, all by default")
    asked.add_argument("--minutes", type=float, default=60.0)
    asked.add_argument("--seed", type=int, default=None, help="the same seed tries the same inputs")
    asked.add_argument("--crashes", type=Path, default=Path("fuzz-crashes"))
    given = asked.parse_args()
    chosen = [p for p in PARSERS if not given.parsers or p.name in given.parsers]
    seed = time.time_ns() if given.seed is None else given.seed
    sys.stdout.write(f"seed {seed}, {len(chosen)} parsers\n")
    worst = 0
    for parser in chosen:
        share = given.minutes * 60 / len(chosen)
        tried, kept, bad = fuzz(parser, share, random.Random(f"{seed} {parser.name}"), given.crashes)
        worst = max(worst, bad)
        sys.stdout.write(f"{parser.name}: {tried:,} inputs, {kept} kept, {bad} bad\n")
        sys.stdout.flush()
    return min(worst, 1)


if __name__ == "__main__":
    sys.exit(main())
