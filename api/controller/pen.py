"""Every change of what Slurm holds is made with a pen: announced, audited and fenced by the same few lines."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, TypeVar

from api.store.ledger import write_audit
from slurm.ownership import Outcome
from slurm.state import NodeState

if TYPE_CHECKING:
    from api.controller.core import Core

T = TypeVar("T")


class Pen:
    """The right to change Slurm under the epoch in which it was taken, for one intent and the change that follows."""

    def __init__(self, core: Core, epoch: int) -> None:
        self._core = core
        self.epoch = epoch

    async def change(self, node: str, act: Callable[..., Outcome], *args: object, **options: object) -> Outcome:
        """Change a node by a function of `slurm.ownership`, which reads, announces here, looks again and writes."""
        core = self._core
        announce = partial(self._stood, node)
        work = partial(act, core.view.backend, node, *args, store=announce, fence=self.still, **options)
        return await core.view.call(_named(work, act))

    async def tell(self, node: str, what: str, act: Callable[..., T], *args: object) -> T:
        """Make a change that nobody owns, such as a requeue; ``what`` is announced in the audit first."""

        def told() -> T:
            self._announce(node, "write announced", what)
            self.still()
            return act(*args)

        return await self._core.view.call(_named(told, act))

    def still(self) -> None:
        """Raise Fenced unless this server may still write."""
        self._core.fence.still(self.epoch)

    def _stood(self, node: str, state: NodeState) -> None:
        """Keep what stood in Slurm right before a write of ours."""
        self._announce(node, "read before write", f"{state} {state.reason.text if state.reason else ''}")

    def _announce(self, node: str, action: str, detail: str) -> None:
        with self._core.fence.announcing(self.epoch) as connection:
            write_audit(connection, self._core.clock(), "controller", action, node, detail)


def _named(work: Callable[..., T], act: Callable[..., object]) -> Callable[..., T]:
    """What a time-out is told by."""

    def call() -> T:
        return work()

    call.__name__ = getattr(act, "__name__", "call")
    return call
