"""A drain and its way back as a story whose every step is counted and may be the controller's last."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

from sqlalchemy import Connection

from api.controller.control import Controller
from tests.api.controller.fake_slurm import Bench, policy

OURS = ("drain", "resume", "drain resumed outside", "drain taken over", "drain reopened", "drain written again")


class Crash(BaseException):
    """The server is gone in this moment; nothing in it may catch that."""


class Steps:
    """Counts transactions and Slurm writes while the controller works, and has something happen after one of them."""

    def __init__(self, b: Bench) -> None:
        self.b, self.working, self.count, self.writes = b, False, 0, 0
        self.after: Callable[[int], None] = lambda _: None
        self.before: Callable[[int], None] = lambda _: None
        self.write: Callable[[int, Callable[[], None]], None] = lambda _, do: do()
        begin, real_set, real_resume = b.database.begin, b.slurm.set, b.slurm.resume

        @contextmanager
        def counted() -> Iterator[Connection]:
            number = self._next()
            self.before(number)
            with begin() as connection:
                yield connection
            self.after(number)

        def set_(name: str, verb: str, reason: str, *, user: str = "slurm") -> None:
            if name not in b.slurm.table:
                # The proof that a drain would be accepted, which names no node.
                return real_set(name, verb, reason, user=user)
            self._written(lambda: real_set(name, verb, reason, user=user))

        b.database.begin = counted  # type: ignore[method-assign]
        b.slurm.set = set_  # type: ignore[method-assign]
        b.slurm.resume = lambda name: self._written(lambda: real_resume(name))  # type: ignore[method-assign]

    def _next(self) -> int:
        self.count += self.working
        return self.count if self.working else -1

    def _written(self, do: Callable[[], None]) -> None:
        number = self._next()
        self.before(number)
        self.writes += 1
        self.write(self.writes, do)
        self.after(number)

    async def work(self, doing: Any) -> bool:
        """Let the controller do one thing; whether it lived through it, else a new server starts."""
        self.working = True
        try:
            await doing
        except Crash:
            self.working = False
            old = self.b.control
            self.b.control = Controller(
                old.core.settings, self.b.database, self.b.store, self.b.slurm, policy=policy(), guard=old.core.guard
            )
            self.b.core = self.b.control.core
            self.b.core.clock = self.b.now
            return False
        finally:
            self.working = False
        return True


class Story:
    """n2 is drained for a fault, mended, verified and given back; n3 likewise, by a person."""

    def __init__(self, b: Bench) -> None:
        self.b, self.steps = b, Steps(b)
        self.sick = True

    async def round(self) -> None:
        """The agents speak, the controller works, and time passes."""
        b = self.b
        b.report("n2", b.lost() if self.sick else b.fine())
        b.report("n3", b.fine())
        for node in ("n2", "n3"):
            for order in await b.control.orders("sim", node, 0.0):
                findings = (b.lost(),) if self.sick and node == "n2" else (b.fine(),)
                b.report(node, *findings, occasion="manual", notes=(f"order:{order.id}",))
                b.control.done((order.id,))
        await self.steps.work(b.tick())
        b.offset += timedelta(seconds=31)

    async def until(self, reached: Callable[[], bool], what: str) -> None:
        for _ in range(24):
            if reached():
                return
            await self.round()
        raise AssertionError(f"{what}: {self.b.slurm.table} {self.b.core.records.listing('sim')}")

    def phase(self, node: str) -> str:
        record = self.b.core.records.open_drains("sim").get(node)
        return record.state if record else ""

    def out(self, node: str) -> bool:
        return self.b.slurm.table[node].out_of_service

    async def automatic(self) -> None:
        await self.until(lambda: self.out("n2") and self.phase("n2") == "drained", "n2 is not drained")
        self.sick = False
        await self.until(lambda: not self.out("n2") and self.phase("n2") == "", "n2 is not given back")
        for _ in range(3):
            await self.round()

    async def asks(self, command: Callable[[], Any], *content: str) -> None:
        """Repeat a command until it was answered, and well."""
        for _ in range(12):
            rows: list[Any] = []

            async def answered(rows: list[Any] = rows) -> None:
                rows += await command()

            if await self.steps.work(answered()) and rows[0].outcome in content:
                return
            await self.round()
        raise AssertionError(f"the command is not answered: {rows}")

    async def person(self) -> None:
        """A person repeats a command that the server did not live to answer."""
        self.sick = False
        await self.asks(lambda: self.b.control.drain("n3", "swap the fan", "alice"), "done", "unchanged")
        await self.until(lambda: self.out("n3") and self.phase("n3") == "drained", "n3 is not drained")
        for _ in range(3):
            await self.round()
            assert self.out("n3"), "a person's drain is resumed by itself"
        await self.asks(lambda: self.b.control.resume("n3", "alice"), "planned", "unchanged")
        await self.until(lambda: not self.out("n3") and self.phase("n3") == "", "n3 is not given back")
        for _ in range(3):
            await self.round()

    def audited(self, node: str) -> Counter[str]:
        return Counter(a.action for a in self.b.store.audit_log(limit=5000) if a.subject == node and a.action in OURS)


STORIES = {"automatic": "n2", "person": "n3"}
