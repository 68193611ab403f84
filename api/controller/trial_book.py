"""Every trial of a node as a job is one row, written before Slurm is asked for the step that it names."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Literal

from sqlalchemy import RowMapping, insert, select, update

from api.controller.fence import Fence
from api.controller.service_tables import trials
from api.store.database import Database

# reserve, submit, enter, run, look, free: the way of a node that proves well. drain, tidy: the way back out of it.
Step = Literal["reserve", "submit", "enter", "run", "look", "free", "drain", "tidy", "over"]


@dataclass(frozen=True, slots=True)
class Trial:
    """One trial; ``bad`` tells a node that failed from one that could not be tried."""

    id: int
    node: str
    drain_id: int
    reservation: str
    step: Step
    job_id: int | None
    order_id: str | None
    why: str
    bad: str
    created_at: datetime
    step_at: datetime


class TrialBook:
    """The table of trials, one short transaction a call."""

    def __init__(self, database: Database, cluster: str, fence: Fence) -> None:
        self._db, self._cluster, self._fence = database, cluster, fence

    def open(self) -> list[Trial]:
        """Trials that are not over, the oldest first."""
        query = select(trials).where(trials.c.cluster == self._cluster, trials.c.ended_at.is_(None))
        with self._db.read() as connection:
            return [_trial(row) for row in connection.execute(query.order_by(trials.c.id)).mappings()]

    def begin(self, node: str, drain_id: int, reservation: str, now: datetime) -> Trial:
        """Write down that a node is to be tried."""
        values = {"node": node, "drain_id": drain_id, "reservation": reservation, "step": "reserve"}
        with self._fence.announcing() as connection:
            done = connection.execute(
                insert(trials).values(cluster=self._cluster, created_at=now, step_at=now, why="", bad="", **values)
            )
            key = done.inserted_primary_key
            assert key is not None
            row = connection.execute(select(trials).where(trials.c.id == key[0])).mappings().one()
            return _trial(row)

    def step(self, trial: Trial, step: Step, now: datetime, **values: object) -> Trial:
        """Write down the step that comes next."""
        with self._fence.announcing() as connection:
            ends = {"ended_at": now} if step == "over" else {}
            connection.execute(
                update(trials).where(trials.c.id == trial.id).values(step=step, step_at=now, **ends, **values)
            )
            return _trial(connection.execute(select(trials).where(trials.c.id == trial.id)).mappings().one())


def _trial(row: RowMapping) -> Trial:
    return Trial(**{name: row[name] for name in Trial.__dataclass_fields__})
