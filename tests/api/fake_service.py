"""A place where nodes stand that does not move."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta, timezone

from api.ports import DrainRow
from api.service_port import LookView, MoveView, PartView, ServiceState, ServiceView, StrikeView, SwapView
from slurm.hostlist import expand

T0 = datetime(2026, 12, 1, 9, 0, tzinfo=timezone.utc)


class FakeService:
    """Node n1 is on probation, and nothing moves."""

    def __init__(self) -> None:
        self.repairs: list[tuple[str, str, str, str]] = []
        self.known: dict[str, ServiceState] = {"n1": "probation"}

    def states(self) -> Mapping[str, ServiceState]:
        return self.known

    def of(self, cluster: str, node: str) -> ServiceView | None:
        if node not in self.known:
            return None
        return ServiceView(
            cluster=cluster, node=node, state=self.known[node], since=T0, why="watched", evidence={},
            way="in service; watched closer until 2026-12-02 09:00 UTC", probation_until=T0 + timedelta(days=1),
            strikes=(StrikeView(what="gpu_lost", drains=1, score=0.5, limit=2.2),),
            moves=tuple(self.moves(cluster, node, None, 10)),
        )  # fmt: skip

    def watched(self) -> list[ServiceView]:
        return [found for n in sorted(self.known) if (found := self.of("c", n))]

    def moves(self, cluster: str, node: str | None, before: int | None, limit: int) -> list[MoveView]:
        return [
            MoveView(
                id=1, cluster=cluster, node=node or "n1", old="verifying", new="probation", why="watched",
                evidence={"slurm_state": "IDLE"}, at=T0,
            )
        ]  # fmt: skip

    def looks(self) -> list[LookView]:
        return [
            LookView(cluster="c", node="n1", state="clean", why="said to be ready by ann", actor="ann",
                     wanted_at=T0, done_at=T0),
            LookView(cluster="c", node="n2", state="bad", why="said to be ready by ann", actor="ann",
                     wanted_at=T0, done_at=T0, detail="gpu_lost GPU 3: gone"),
        ]  # fmt: skip

    def parts(self, cluster: str, node: str) -> list[PartView]:
        return [
            PartView(cluster=cluster, node=node, kind="gpu", slot="0000:19:00.0", uuid="GPU-b", serial="2",
                     model="H100", since=T0, until=None),
        ]  # fmt: skip

    def swaps(self, seconds: float) -> list[SwapView]:
        [new] = self.parts("c", "n1")
        return [
            SwapView(cluster="c", node="n1", at=T0, old=None, new=new, drain="gpu_lost", drained_at=T0,
                     verified="verified", came_from="was in n7 until then"),
        ]  # fmt: skip

    async def repair(self, nodes: str, ticket: str, reason: str, actor: str) -> list[DrainRow]:
        self.repairs.append((nodes, ticket, reason, actor))
        return [DrainRow(cluster="c", node=n, outcome="done") for n in expand(nodes)]
