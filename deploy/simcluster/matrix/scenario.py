"""A scenario is a name, what is done to nodes and jobs, and the end that it must have; acts and parts group them."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from deploy.simcluster.cluster import Options
from deploy.simcluster.matrix.rows import Outcome
from deploy.simcluster.matrix.stage import Stage


@dataclass(slots=True)
class Turn:
    """One scenario being played: its nodes, what it left, since when it counts, and what went wrong first."""

    stage: Stage
    nodes: tuple[str, ...]
    job: int | None = None
    judged: str = ""
    gate_before: dict[str, int] = field(default_factory=dict)
    began: float = field(default_factory=time.monotonic)
    looks: list[Callable[[], str]] = field(default_factory=list)
    seconds: float = 0.0
    trouble: str = ""

    def __post_init__(self) -> None:
        self.judged = self.judged or self.nodes[0]

    @property
    def node(self) -> str:
        """The first node."""
        return self.nodes[0]

    def counts(self) -> None:
        """Count the seconds from here: what came before was waiting for the right moment."""
        self.began = time.monotonic()

    def went_wrong(self, error: object) -> None:
        """Keep the first thing that did not go as it must."""
        self.trouble = self.trouble or f"{error}"[:300]

    def also(self, look: Callable[[], str]) -> None:
        """Have something else looked at in the end."""
        self.looks.append(look)

    def breaks(self, node: str, fault: str, **target: int | float | str) -> None:
        """Break a node between two looks at it, so that a Prolog is the first to see it."""
        self.stage.between_looks(node)
        self.counts()
        self.stage.inject(node, fault, **target)

    def submit(self, *options: str) -> int:
        """A batch job on all of the scenario's nodes; how often its script starts is seen in the end."""
        self.job = job = self.stage.batch(*self.nodes, options=options)
        self.also(lambda: times(self.stage.ran(job)))
        return job


def often(count: int) -> str:
    """A count in words."""
    return "once" if count == 1 else f"{count} times"


def times(count: int) -> str:
    """How often a script ran, in words."""
    return "the script never ran" if count == 0 else f"the script ran {often(count)}"


NEVER, ONCE = times(0), times(1)


@dataclass(frozen=True, slots=True)
class Scenario:
    """``nodes``: how many it needs. ``since``: the first release that knows what it uses."""

    name: str
    expected: Outcome
    play: Callable[[Turn], None]
    nodes: int = 1
    since: str = ""


@contextmanager
def undisturbed(_: Stage, __: Sequence[Turn]) -> Iterator[None]:
    """Everything runs."""
    yield


@dataclass(frozen=True, slots=True)
class Act:
    """Scenarios that are played ``at_once`` at a time, while ``during`` holds; they end when it no longer does.

    ``settings`` names what of slurm.conf or of the cluster's state is different.
    """

    scenarios: tuple[Scenario, ...]
    during: Callable[[Stage, Sequence[Turn]], AbstractContextManager[None]] = undisturbed
    settings: str = ""
    since: str = ""
    at_once: int = 16


@dataclass(frozen=True, slots=True)
class Part:
    """Acts on one cluster, one after the other; every scenario has nodes of its own."""

    name: str
    options: Callable[[Path], Options]
    acts: tuple[Act, ...]
