"""What is looked at beside the drains of ours: Slurm's own, what users exclude, what people are told in Slurm."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from functools import partial
from typing import Any

from api.controller import unanswered
from api.controller.annotate import Annotations
from api.controller.avoided import Avoided
from api.controller.core import Core
from api.controller.journal import Journal
from api.controller.kill_failed import KillFailed
from api.store.database import Database


class Lookouts:
    """The parts, and their steps of one round."""

    def __init__(self, core: Core, database: Database) -> None:
        self._unanswered = partial(unanswered.look, core)
        self.journal = Journal(core, database)
        self.killed = KillFailed(core)
        self.avoided = Avoided(core, database)
        self.annotations = Annotations(core, database)
        core.slurms_own = lambda node: (self.killed.told(node, core.clock()), self.killed.way(node))

    @property
    def steps(self) -> tuple[Callable[[], Coroutine[Any, Any, None]], ...]:
        """What is done each round, each by itself."""
        return (self.journal.watch, self.killed.look, self.avoided.look, self.annotations.look, self._unanswered)
