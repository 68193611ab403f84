"""What people said beside draining: risks accepted, contests cleared, the guard opened, each with a name and an end."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from sqlalchemy import RowMapping, insert, select, update

from api.controller.tables import words
from api.ports import OverrideView, RiskView
from api.store.database import Database
from checks.wire import Finding, clean

EVERY = ""


class WordBook:
    """Risks and overrides in force as read last, written through; the snapshot is replaced as a whole."""

    def __init__(self, database: Database, cluster: str) -> None:
        self._db, self._cluster = database, cluster
        self._risks: tuple[RiskView, ...] = ()
        self._overrides: tuple[OverrideView, ...] = ()
        self._contests: dict[str, frozenset[str]] = {}
        self._loaded = False

    def load(self, now: datetime) -> list[RiskView]:
        """Read what is in force; what has just ended by its time comes back."""
        over = (words.c.cluster == self._cluster, words.c.kind == "risk", words.c.ended_at.is_(None))
        with self._db.read() as connection:
            rows = list(connection.execute(select(words).where(*over).order_by(words.c.id)).mappings())
        found = [_risk(row) for row in rows]
        ended = [r for r in found if r.until <= now]
        if ended:
            with self._db.begin() as connection:
                numbers = [r.id for r in ended]
                connection.execute(
                    update(words).where(words.c.id.in_(numbers)).values(ended_at=now, ended_by="its time")
                )
        self._risks = tuple(r for r in found if r.until > now)
        self._overrides = self._read_overrides(now)
        self._contests = self._read_contests()
        self._loaded = True
        return ended

    def _read_overrides(self, now: datetime) -> tuple[OverrideView, ...]:
        mine = (words.c.cluster == self._cluster, words.c.kind == "override", words.c.ended_at.is_(None))
        query = select(words).where(*mine, words.c.until > now).order_by(words.c.id.desc())
        with self._db.read() as connection:
            return tuple(_override(row) for row in connection.execute(query).mappings())

    def _read_contests(self) -> dict[str, frozenset[str]]:
        mine = (words.c.cluster == self._cluster, words.c.kind == "contest", words.c.ended_at.is_(None))
        found: dict[str, frozenset[str]] = {}
        with self._db.read() as connection:
            for row in connection.execute(select(words.c.node, words.c.code).where(*mine)):
                found[row.node] = found.get(row.node, frozenset()) | {row.code}
        return found

    def risks(self, now: datetime) -> list[RiskView]:
        """Every risk in force, the oldest first."""
        return [r for r in self._risks if r.until > now]

    def accepted(self, node: str, now: datetime) -> dict[str, RiskView]:
        """The risks in force on a node by code."""
        if not self._loaded:
            # A prolog may ask before the first round of a server that has just started.
            self.load(now)
        return {r.code: r for r in self._risks if r.node == node and r.until > now}

    def accept(self, node: str, codes: Sequence[str], until: datetime, reason: str, actor: str, now: datetime) -> None:
        """Write down that a person wants the node used in spite of these codes; an older word is replaced."""
        mine = (words.c.cluster == self._cluster, words.c.node == node, words.c.kind == "risk")
        common = {"cluster": self._cluster, "node": node, "kind": "risk", "reason": reason, "actor": actor}
        with self._db.begin() as connection:
            connection.execute(
                update(words).where(*mine, words.c.ended_at.is_(None)).values(ended_at=now, ended_by=actor)
            )
            connection.execute(
                insert(words), [{"code": code, "until": until, "created_at": now, **common} for code in codes]
            )
        self.load(now)

    def withdraw(self, node: str, actor: str, now: datetime) -> bool:
        """End every accepted risk of a node; whether there was one."""
        mine = (words.c.cluster == self._cluster, words.c.node == node, words.c.kind == "risk")
        with self._db.begin() as connection:
            result = connection.execute(
                update(words).where(*mine, words.c.ended_at.is_(None)).values(ended_at=now, ended_by=actor)
            )
        self.load(now)
        return result.rowcount > 0

    def overrides(self, now: datetime) -> list[OverrideView]:
        """Every override of the guard in force, the newest first."""
        return [o for o in self._overrides if o.until > now]

    def override(self, code: str, until: datetime, reason: str, actor: str, now: datetime) -> OverrideView:
        """Write down that a person opened the guard; an older word is replaced."""
        self.end_override(actor, now)
        row = {"cluster": self._cluster, "node": "", "kind": "override", "code": code, "reason": reason}
        with self._db.begin() as connection:
            connection.execute(insert(words).values(until=until, actor=actor, created_at=now, **row))
        self.load(now)
        return self._overrides[0]

    def end_override(self, actor: str, now: datetime) -> bool:
        """Close the guard again; whether it was open."""
        mine = (words.c.cluster == self._cluster, words.c.kind == "override", words.c.ended_at.is_(None))
        with self._db.begin() as connection:
            done = connection.execute(update(words).where(*mine).values(ended_at=now, ended_by=actor)).rowcount
        self.load(now)
        return done > 0

    def contest(self, node: str, codes: Sequence[str], why: str, now: datetime) -> None:
        """Write down that nothing is drained for these codes until a person clears it."""
        common = {"cluster": self._cluster, "node": node, "kind": "contest", "reason": why, "actor": "controller"}
        with self._db.begin() as connection:
            connection.execute(insert(words), [{"code": c, "until": now, "created_at": now, **common} for c in codes])
        self.load(now)

    def contested(self, node: str, now: datetime) -> frozenset[str]:
        """The codes that a contest is open about on a node."""
        if not self._loaded:
            self.load(now)
        return self._contests.get(node, frozenset())

    def clear(self, node: str, code: str, reason: str, actor: str, now: datetime) -> None:
        """Write down that foreign resumes up to now do not count any more; the empty code clears all."""
        row = {"cluster": self._cluster, "node": node, "kind": "clear", "code": code, "reason": reason, "actor": actor}
        mine = (words.c.cluster == self._cluster, words.c.node == node, words.c.kind == "contest")
        ended = update(words).where(*mine, words.c.ended_at.is_(None)).values(ended_at=now, ended_by=actor)
        with self._db.begin() as connection:
            connection.execute(ended if code == EVERY else ended.where(words.c.code == code))
            connection.execute(insert(words).values(until=now, created_at=now, ended_at=now, ended_by=actor, **row))
        self.load(now)

    def cleared(self, node: str, codes: Sequence[str]) -> datetime | None:
        """When a person last cleared the contest about any of these codes on a node."""
        mine = (words.c.cluster == self._cluster, words.c.node == node, words.c.kind == "clear")
        query = select(words.c.created_at).where(*mine, words.c.code.in_([EVERY, *codes]))
        with self._db.read() as connection:
            return connection.execute(query.order_by(words.c.id.desc()).limit(1)).scalar_one_or_none()


def why_accepted(risk: RiskView) -> str:
    """One line for people."""
    return clean(f"risk accepted by {risk.actor} until {risk.until:%Y-%m-%d %H:%M} UTC: {risk.reason}", 300)


def without_accepted(book: WordBook, node: str, findings: Sequence[Finding], now: datetime) -> tuple[Finding, ...]:
    """The findings that no person has accepted the risk of."""
    accepted = book.accepted(node, now)
    return tuple(f for f in findings if f.code not in accepted)


def _risk(row: RowMapping) -> RiskView:
    return RiskView(**{name: row[name] for name in RiskView.__struct_fields__})


def _override(row: RowMapping) -> OverrideView:
    return OverrideView(**{name: row[name] for name in OverrideView.__struct_fields__})
