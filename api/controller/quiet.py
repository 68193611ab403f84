"""Nodes that people paused and checks that they silenced, each until a stated time; all of it ends by itself."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta, timezone

from sqlalchemy import ColumnElement, RowMapping, insert, select, update

from api.controller.tables import pauses, silences
from api.ports import PauseView, SilenceView
from api.store.database import Database
from checks.wire import Quiet, clean

BY_TIME = "its time"
EVERYTHING = "*"
# An agent is told a time for every pause; a repair has none, so it is told a day that stays ahead and moves weekly.
WEEK = timedelta(days=7)
NO_END = timedelta(days=36_500)


class QuietBook:
    """What is in force, as read last; written through. Reads are of one snapshot that is replaced as a whole."""

    def __init__(self, database: Database, cluster: str) -> None:
        self._db, self._cluster = database, cluster
        self._pauses: dict[str, PauseView] = {}
        self._silences: tuple[SilenceView, ...] = ()
        self.loaded = False

    def load(self, now: datetime) -> tuple[str, ...]:
        """Read what is in force, and end what is over; the nodes whose pause has just ended by its time come back."""
        ended = self._expire(now)
        with self._db.read() as connection:
            rows = connection.execute(
                select(pauses)
                .where(pauses.c.cluster == self._cluster, pauses.c.ended_at.is_(None))
                .order_by(pauses.c.id)
            ).mappings()
            paused = {row["node"]: _pause(row) for row in rows}
            rows = connection.execute(
                select(silences)
                .where(silences.c.cluster == self._cluster, silences.c.ended_at.is_(None), silences.c.until > now)
                .order_by(silences.c.id)
            ).mappings()
            self._silences = tuple(_silence(row) for row in rows)
        self._pauses = paused
        self.loaded = True
        return tuple(n for n in ended if n not in paused)

    def _expire(self, now: datetime) -> list[str]:
        over = (pauses.c.cluster == self._cluster, pauses.c.ended_at.is_(None), pauses.c.until <= now)
        with self._db.read() as connection:
            if connection.execute(select(pauses.c.id).where(*over).limit(1)).first() is None:
                return []
        with self._db.begin() as connection:
            ended = [row.node for row in connection.execute(select(pauses.c.node).where(*over))]
            connection.execute(update(pauses).where(*over).values(ended_at=now, ended_by=BY_TIME))
        return ended

    # Pauses

    def pauses(self, now: datetime) -> list[PauseView]:
        """Every pause in force, by node."""
        return [p for _, p in sorted(self._pauses.items()) if p.until > now]

    def paused(self, node: str, now: datetime) -> PauseView | None:
        """The node's pause, while it lasts."""
        pause = self._pauses.get(node)
        return pause if pause is not None and pause.until > now else None

    def pause(
        self, nodes: Sequence[str], until: datetime, reason: str, actor: str, now: datetime, *, ticket: str = ""
    ) -> None:
        """Pause these; a pause that a node has already is replaced."""
        rows = [
            {
                "cluster": self._cluster,
                "node": node,
                "until": until,
                "reason": reason,
                "actor": actor,
                "created_at": now,
                "ticket": ticket,
            }
            for node in nodes
        ]
        with self._db.begin() as connection:
            for node in nodes:
                connection.execute(update(pauses).where(*self._open(node)).values(ended_at=now, ended_by=actor))
            if rows:
                connection.execute(insert(pauses), rows)
        self.load(now)

    def unpause(self, nodes: Sequence[str], actor: str, now: datetime) -> set[str]:
        """End these pauses; the nodes that had one."""
        had = {n for n in nodes if n in self._pauses}
        with self._db.begin() as connection:
            for node in had:
                connection.execute(update(pauses).where(*self._open(node)).values(ended_at=now, ended_by=actor))
        self.load(now)
        return had

    def _open(self, node: str) -> tuple[ColumnElement[bool], ...]:
        return (pauses.c.cluster == self._cluster, pauses.c.node == node, pauses.c.ended_at.is_(None))

    # Silences

    def silences(self, now: datetime) -> list[SilenceView]:
        """Every silence in force, the oldest first."""
        return [s for s in self._silences if s.until > now]

    def silenced(self, node: str, partitions: Iterable[str], now: datetime) -> frozenset[str]:
        """The checks whose findings lead to nothing on this node; ``*`` where that is all of them."""
        groups = set(partitions)
        return frozenset(
            s.check or EVERYTHING
            for s in self._silences
            if s.until > now and s.node in ("", node) and (not s.partition or s.partition in groups)
        )

    def silence(
        self, check: str, nodes: Sequence[str], partition: str, until: datetime, reason: str, actor: str, now: datetime
    ) -> list[SilenceView]:
        """Silence a check, on these nodes or (none named) everywhere, in one partition or in all."""
        common = {"check_name": check, "partition_name": partition, "until": until, "reason": reason, "actor": actor}
        rows = [{"cluster": self._cluster, "node": n, "created_at": now, **common} for n in (nodes or [""])]
        before = {s.id for s in self._silences}
        with self._db.begin() as connection:
            connection.execute(insert(silences), rows)
        self.load(now)
        return [s for s in self._silences if s.id not in before]

    def unsilence(self, number: int, actor: str, now: datetime) -> bool:
        """End a silence; whether there was one."""
        mine = (silences.c.cluster == self._cluster, silences.c.id == number, silences.c.ended_at.is_(None))
        with self._db.begin() as connection:
            done = connection.execute(update(silences).where(*mine).values(ended_at=now, ended_by=actor)).rowcount
        self.load(now)
        return done > 0

    # What an agent is told

    def told(self, node: str, partitions: Iterable[str], now: datetime) -> Quiet | None:
        """For the reply to a poll; None before the first read, which takes nothing back."""
        if not self.loaded:
            return None
        pause = self.paused(node, now)
        silenced = tuple(sorted(self.silenced(node, partitions, now)))
        if pause is None:
            return Quiet(silenced=silenced)
        until = _horizon(now) if pause.ticket else pause.until
        reason = f"in repair, ticket {pause.ticket}: {pause.reason}" if pause.ticket else pause.reason
        seconds = (until - now).total_seconds()
        return Quiet(paused=seconds, until=until, reason=reason, actor=pause.actor, silenced=silenced)


def _horizon(now: datetime) -> datetime:
    """One to two weeks ahead, and the same for a whole week, so that nothing changes from poll to poll."""
    return now - (now - datetime(1970, 1, 1, tzinfo=timezone.utc)) % WEEK + 2 * WEEK


def why_paused(pause: PauseView) -> str:
    """One line for people."""
    if pause.ticket:
        said = f"in repair, ticket {pause.ticket}, {pause.actor}: {pause.reason}"
        return clean(f"{said}; nodevet ready {pause.node} ends it", 300)
    return clean(f"paused by {pause.actor} until {pause.until:%Y-%m-%d %H:%M} UTC: {pause.reason}", 300)


def _pause(row: RowMapping) -> PauseView:
    return PauseView(**{name: row[name] for name in PauseView.__struct_fields__})


def _silence(row: RowMapping) -> SilenceView:
    names = {"check": "check_name", "partition": "partition_name"}
    return SilenceView(**{name: row[names.get(name, name)] for name in SilenceView.__struct_fields__})
