"""A controller over a Slurm in memory with one drained node, whose agent does what tests tell it to."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import msgspec

from api.remedy.port import RemedyView
from api.remedy.remedies import Remedies
from api.remedy.settings import Reboot, RemedySettings, ResetGpu
from checks.judge.policy import Policy, merge, read_pack
from checks.wire import Finding, Order, Outcome, PollRequest, Remedied
from slurm.reason import parse
from tests.api.controller.fake_slurm import POLICY_TEXT, Bench, bench

GPU = "0000:5d:00.0"
ON = RemedySettings(mode="on", reset_gpu=ResetGpu(mode="on"), reboot=Reboot(mode="on"))
REMEDIES = """
[codes.gpu_reset_required]
remedy = ["reset-gpu", "reboot"]
[codes.gpu_reboot_required]
remedy = ["reboot"]
"""


def policy() -> Policy:
    """The small policy of the controller's tests, with remedies."""
    return merge([("test", read_pack(POLICY_TEXT + REMEDIES, "test"))])


class Mending:
    """One bench whose node n1 broke; ``said``: what its agent has told of orders."""

    def __init__(self, made: Bench, settings: RemedySettings) -> None:
        self.bench, self.slurm, self.core = made, made.slurm, made.core
        self.core.policy = policy()
        self.said: list[Remedied] = []
        self.anew(settings)

    def anew(self, settings: RemedySettings) -> None:
        """The server has just started: nothing is known but what stands in the database."""
        self.remedies = Remedies(self.core, self.bench.database, settings)
        self.bench.control.remedy = self.remedies
        for node in self.slurm.table:
            for order in self.orders(node):
                self.core.orders.done([order.id])

    def fault(self, code: str = "gpu_reset_required", target: str = GPU) -> Finding:
        """A finding of now."""
        return self.bench.lost(target, code)

    async def broken(self, node: str = "n1", code: str = "gpu_reset_required", target: str = GPU) -> None:
        """A node that we have drained for a fault that is still there, with an agent that may reset."""
        self.bench.report(node, self.fault(code, target))
        await self.tick()
        await self.tick()
        assert self.slurm.table[node].drained, self.slurm.table[node]

    def heard(self, node: str = "n1", *may: str, poll: bool = True) -> None:
        """The node's agent polls."""
        request = PollRequest(
            cluster="sim", node=node, incarnation="a", remedies=may or ("reset-gpu",), remedied=tuple(self.said)
        )
        self.remedies.heard(request)
        if poll:
            self.core.orders._open["sim", node] = 1

    def tells(self, order: Order, outcome: Outcome, text: str = "") -> None:
        """What the agent says became of an order."""
        self.said.append(Remedied(order=order.id, outcome=outcome, text=text))
        self.heard()

    async def tick(self) -> None:
        """One round of the controller, with the agent's poll before it."""
        self.heard()
        await self.bench.tick()

    def orders(self, node: str = "n1") -> list[Order]:
        """What waits for the node's agent."""
        return list(self.core.orders._waiting.get(("sim", node), {}).values())

    def reset_order(self, node: str = "n1") -> Order:
        """The one order to reset."""
        (order,) = [o for o in self.orders(node) if o.kind == "reset-gpu"]
        return order

    def history(self, node: str | None = None) -> list[RemedyView]:
        """Every remedy, the oldest first."""
        return self.remedies.listing(node).items[::-1]

    def states(self) -> list[tuple[str, str]]:
        """Action and state of each, the oldest first."""
        return [(r.action, r.state) for r in self.history()]

    def reboots(self) -> list[str]:
        """The nodes that Slurm was asked to reboot."""
        return [node for verb, node, _ in self.slurm.writes if verb == "reboot"]

    def why(self, node: str = "n1") -> str:
        """Why nothing is being done to the node."""
        return next((w.why for w in self.remedies.listing().waiting if w.node == node), "")

    def booted(self, node: str = "n1", *findings: Finding, boot: str = "boot-b") -> None:
        """The node came up anew: as Slurm leaves it, and its agent reports."""
        state = self.slurm.table[node]
        assert state.reason is not None
        reason = replace(state.reason, text=state.reason.text + " : reboot issued", user="slurm")
        flags = state.flags - {"REBOOT_REQUESTED", "REBOOT_ISSUED"}
        self.slurm.table[node] = replace(state, flags=flags, reason=reason, boot_time=self.bench.now())
        self.bench.offset += timedelta(seconds=2)
        self.bench.report(node, *(findings or (self.bench.fine(),)), boot_id=boot, incarnation=boot)

    def later(self, seconds: float) -> None:
        """Let time pass."""
        self.bench.offset += timedelta(seconds=seconds)

    def token(self, node: str = "n1") -> str:
        """The token of the node's present reason."""
        reason = self.slurm.table[node].reason
        ours = parse(reason.text) if reason else None
        assert ours is not None
        return ours.token


def on(**changes: object) -> RemedySettings:
    """Everything on, with some settings otherwise."""
    return msgspec.structs.replace(ON, **changes)


@contextmanager
def mending(folder: Path, settings: RemedySettings | None = None, *, count: int = 4) -> Iterator[Mending]:
    """A bench that is closed afterwards; None: the settings that nobody has touched."""
    with bench(folder, count=count) as made:
        yield Mending(made, settings or RemedySettings())


Play = Callable[[Mending], Awaitable[None]]


def play(folder: Path, body: Play, **settings: object) -> None:
    """One scene with everything on."""

    async def scene() -> None:
        with mending(folder, on(**settings)) as mend:
            await body(mend)

    asyncio.run(scene())


async def begun(mend: Mending) -> None:
    """A reset has been ordered."""
    await mend.broken()
    await mend.tick()
    assert mend.states() == [("reset-gpu", "running")]
