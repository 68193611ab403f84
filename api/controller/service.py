"""Each node's state is derived anew in every round, and every move of it is stored and audited with its evidence."""

from __future__ import annotations

import asyncio
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

import msgspec
from sqlalchemy import select

from api.controller import repair, swaps
from api.controller.core import Core
from api.controller.drain_record import DrainRecord
from api.controller.looks import Looks
from api.controller.service_book import Move, ServiceBook, Stands, told
from api.controller.service_state import Seen, Standing, standing, way
from api.controller.service_words import strikes_of, way_back
from api.controller.suspicion import suspicion
from api.ports import DrainRow
from api.service_port import STATES, LookView, MoveView, PartView, ServiceState, ServiceView, SwapView
from api.store import parts
from api.store.database import Database
from api.store.tables import node_status
from checks.wire import Finding, Scalar, clean
from slurm.hostlist import fold
from slurm.state import NodeState

MOVES_SHOWN = 10
WHY_LIMIT = 300


@dataclass(frozen=True, slots=True)
class _Round:
    """What one round goes by."""

    now: datetime
    opened: Mapping[str, DrainRecord]
    watched: Mapping[str, datetime]
    failing: Mapping[str, tuple[Finding, ...]]
    boots: Mapping[str, str]
    ended: frozenset[str]

    def early(self, name: str, state: NodeState | None) -> bool:
        """Whether a write of ours came after the bulk read, which then tells of the time before it."""
        if state is None:
            return False
        record = self.opened.get(name)
        if record is not None:
            return record.state in ("intent", "draining", "drained", "verifying") and not state.out_of_service
        return name in self.ended and (state.out_of_service or state.hands_off is not None)


class Service:
    """Implements api.service_port.ServicePort; ``arrive`` runs before anything is judged, ``follow`` after."""

    def __init__(self, core: Core, database: Database) -> None:
        self._core, self._db = core, database
        self.book = ServiceBook(database, core.cluster, core.fence)
        self.wave = Looks(core, database)
        core.wave = self.wave

    # -- the loop

    async def begin(self) -> None:
        """Take over from the process, or the server, before."""
        self.book.forget()
        await asyncio.to_thread(self.wave.resume)

    def stand_by(self) -> None:
        """Another server leads: what it writes is what we show."""
        self.book.forget()
        self.wave.forget()

    async def arrive(self) -> None:
        """Nodes that hands were off until now, or that booted or changed since, are owed a look before all else."""
        for (kind, why), names in (await asyncio.to_thread(self._came)).items():
            await self.wave.want(names, kind, why)
            await asyncio.to_thread(self._core.audit, "look wanted", fold(names), why)
        await self.wave.keep()

    def _came(self) -> dict[tuple[str, str], list[str]]:
        """The nodes that hands have just left or that have booted, by the kind of look that they are owed and why."""
        core, boots = self._core, self._boots()
        opened = core.records.open_drains(core.cluster)
        came: dict[tuple[str, str], list[str]] = defaultdict(list)
        for name, row in self.book.rows().items():
            state = core.view.states.get(name)
            if state is None or state.hands_off or core.paused(name):
                continue
            if row.hands_off and not _tested(opened.get(name)):
                kind = "maintenance" if row.hands_off.startswith("maintenance") else "reboot"
                came[kind, f"{row.hands_off} is over"].append(name)
            elif row.boot_id and boots.get(name, row.boot_id) != row.boot_id and name not in opened:
                came["identity", "booted since"].append(name)
        for name, why in self._swapped(opened).items():
            came["identity", why].append(name)
        return came

    def _swapped(self, opened: Mapping[str, DrainRecord]) -> dict[str, str]:
        """Nodes that serve with other parts than before; a drained one begins its verification anew elsewhere."""
        with self._db.read() as connection:
            rows = parts.unlooked(connection, self._core.cluster)
        if not rows:
            return {}
        with self._db.begin() as connection:
            parts.looked(connection, [r.id for r in rows])
        names = dict.fromkeys(r.node for r in rows)
        said = {n: swaps.told([r for r in rows if r.node == n]) for n in names}
        for name, text in said.items():
            self._core.audit("parts changed", name, text)
        return {n: text for n, text in said.items() if n not in opened}

    async def follow(self) -> None:
        """Derive every node's state from what is known at the end of this round."""
        await asyncio.to_thread(self._follow)

    def _follow(self) -> None:
        core, rows = self._core, self.book.rows()
        this = self._round()
        changed: list[Stands] = []
        moves: list[Move] = []
        for name in sorted(core.view.states.keys() | rows.keys()):
            state = core.view.states.get(name)
            if this.early(name, state):
                continue
            seen = self._seen(this, name, state, rows.get(name))
            row, steps = self._next(this, name, seen, rows.get(name))
            moves += steps
            if row is not None and row != rows.get(name):
                changed.append(row)
        if changed:
            self.book.write(changed, moves, this.now)
            self._audit(moves)
        counts = Counter(row.state for row in self.book.rows().values())
        for each in STATES:
            core.gauge(f'service_nodes{{state="{each}"}}', float(counts[each]))

    def _round(self) -> _Round:
        core = self._core
        now = core.clock()
        watched = {r.node: r.probation_until for r in core.records.on_probation(core.cluster)}
        return _Round(
            now=now,
            opened=core.records.open_drains(core.cluster),
            watched={n: until for n, until in watched.items() if until is not None and until > now},
            failing=core.store.all_failing(core.cluster),
            boots=self._boots(),
            ended=core.records.closed_since(core.cluster, core.view.read_at or now),
        )

    def _boots(self) -> dict[str, str]:
        query = select(node_status.c.node, node_status.c.boot_id).where(node_status.c.cluster == self._core.cluster)
        with self._db.read() as connection:
            return {row.node: row.boot_id for row in connection.execute(query) if row.boot_id}

    def _seen(self, this: _Round, name: str, state: NodeState | None, row: Stands | None) -> Seen:
        core = self._core
        look = self.wave.owed().get(name)
        findings = this.failing.get(name, ())
        return Seen(
            state=state,
            record=this.opened.get(name),
            pause=core.quiet.paused(name, this.now),
            suspect=suspicion(core, name, findings) if findings else "",
            look=look.why if look is not None else "",
            probation_until=this.watched.get(name),
            gone=self._gone(this, row),
        )

    def _gone(self, this: _Round, row: Stands | None) -> str:
        since = row.absent_since if row is not None else None
        if since is None or (this.now - since).total_seconds() < self._core.settings.retire_after:
            return ""
        return f"slurm knows no such node since {since:%Y-%m-%d %H:%M} UTC"

    def _next(self, this: _Round, name: str, seen: Seen, row: Stands | None) -> tuple[Stands | None, list[Move]]:
        """The node's row as it is to be, and the moves that lead there."""
        found, state = standing(seen), seen.state
        hands_off = (state.hands_off or "") if state is not None and not _tested(seen.record) else ""
        boot = this.boots.get(name, row.boot_id if row else "")
        absent = None if state is not None else (row.absent_since if row and row.absent_since else this.now)
        if found is None:
            return (replace(row, absent_since=absent) if row else None), []
        why, evidence = clean(found.why, WHY_LIMIT), _evidence(seen, boot)
        if row is None:
            made = Stands(name, found.state, this.now, why, evidence, hands_off[:64], boot, absent)
            return made, [Move(name, "", found.state, why, evidence)]
        steps = _moves(row, replace(found, why=why), evidence)
        if steps:
            row = replace(row, state=found.state, since=this.now, evidence=evidence)
        # What changes from look to look, such as a count of rounds, is no move.
        return replace(row, why=why, hands_off=hands_off[:64], boot_id=boot, absent_since=absent), steps

    def _audit(self, moves: Sequence[Move]) -> None:
        """One line for all nodes that made the same move for the same reason; the first sight is no move."""
        alike: dict[tuple[str, str, str], list[str]] = defaultdict(list)
        for move in moves:
            if move.old:
                alike[move.old, move.new, move.why].append(move.node)
        for (old, new, why), names in alike.items():
            self._core.audit("service state", fold(names), f"{old} -> {new}{f': {why}' if why else ''}")

    # -- what people ask

    def states(self) -> Mapping[str, ServiceState]:
        """Every node's state as last written."""
        return {name: row.state for name, row in self.book.rows().items()}

    def of(self, cluster: str, node: str) -> ServiceView | None:
        """All that is known of where one node stands."""
        row = self.book.rows().get(node)
        if row is None or cluster != self._core.cluster:
            return None
        return self._view(row, moves=tuple(self.book.moves(cluster, node, None, MOVES_SHOWN)))

    def watched(self) -> list[ServiceView]:
        """Nodes on probation and nodes held for flapping."""
        core, rows = self._core, self.book.rows()
        names = {r.node for r in core.records.on_probation(core.cluster)}
        names |= {n for n, r in core.records.open_drains(core.cluster).items() if r.held}
        return [self._view(rows[n]) for n in sorted(names) if n in rows]

    def _view(self, row: Stands, moves: tuple[MoveView, ...] = ()) -> ServiceView:
        core = self._core
        record = core.records.last(core.cluster, row.node)
        until = record.probation_until if record is not None and not record.open else None
        return ServiceView(
            cluster=core.cluster,
            node=row.node,
            state=row.state,
            since=row.since,
            why=row.why,
            evidence=told(row.evidence),
            way=way_back(core, row.node, row.state, record),
            probation_until=until if until is not None and until > core.clock() else None,
            flapping=record.held if record is not None and record.open else "",
            strikes=strikes_of(core, row.node),
            moves=moves,
        )

    def moves(self, cluster: str, node: str | None, before: int | None, limit: int) -> list[MoveView]:
        """Moves of one node or of all, the newest first."""
        return self.book.moves(cluster, node, before, limit)

    def looks(self) -> list[LookView]:
        """The last look of each node."""
        return self.wave.views()

    def parts(self, cluster: str, node: str) -> list[PartView]:
        """The parts of a node with their history."""
        return swaps.part_views(self._db, cluster, node)

    def swaps(self, seconds: float) -> list[SwapView]:
        """Parts that were swapped or moved within the last ``seconds``, the newest first."""
        return swaps.swap_views(self._core, self._db, self._core.clock() - timedelta(seconds=seconds))

    async def repair(self, nodes: str, ticket: str, reason: str, actor: str) -> list[DrainRow]:
        """Keep hands off nodes that are out of service until a person says that they are ready."""
        return await repair.repair(self._core, nodes, ticket, reason, actor)


def _tested(record: DrainRecord | None) -> bool:
    """Whether the node's reservation is ours, for a burn-in."""
    return record is not None and record.state == "testing"


def _moves(row: Stands, found: Standing, evidence: str) -> list[Move]:
    steps, old = [], row.state
    for new in way(row.state, found.state, found.over):
        why = found.why if new == found.state else f"between two looks, on the way to {found.state}"
        steps.append(Move(row.node, old, new, why, evidence))
        old = new
    return steps


def _evidence(seen: Seen, boot: str) -> str:
    """What the state was derived from, small enough to be kept for every move."""
    state, record = seen.state, seen.record
    reason = state.active_reason if state is not None else None
    known: dict[str, Scalar] = {
        "slurm_state": str(state) if state is not None else None,
        "reason": clean(reason.text, WHY_LIMIT) if reason else None,
        "drain": record.token if record is not None else None,
        "drain_state": record.state if record is not None else None,
        "codes": ",".join(record.codes) if record is not None else None,
        "boot_id": boot or None,
    }
    return msgspec.json.encode({k: v for k, v in known.items() if v is not None}).decode()
