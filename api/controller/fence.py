"""One server at a time changes what Slurm holds: every change is announced under the epoch of a lease in the database.

A server that was paused, or whose lease another took, finds its epoch gone when it announces a change; one that is
paused after that finds its own time over right before it writes. What remains is the moment between that last look
and Slurm's taking the write.
"""

from __future__ import annotations

import os
import secrets
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta

from sqlalchemy import ColumnElement, Connection, insert, select, update
from sqlalchemy.exc import IntegrityError

from api.controller.tables import controller_lease
from api.store.database import Database

RENEW_SECONDS = 5.0
EXPIRES_SECONDS = 15.0
# A change that has passed its last look may take this long until Slurm has it.
MARGIN_SECONDS = 2.0


class Fenced(Exception):
    """Another server leads, or this one was away for so long that another may."""


class Fence:
    """This server's side of the lease; safe to use from several threads.

    ``alone``: nobody else can be at this database (one process on SQLite, held by a file lock), so what a dead
    process left behind is taken at once. ``boot``: seconds that go on while this process is stopped.
    """

    def __init__(
        self,
        database: Database,
        cluster: str,
        *,
        clock: Callable[[], datetime],
        alone: bool,
        boot: Callable[[], float] = lambda: time.clock_gettime(time.CLOCK_BOOTTIME),
    ) -> None:
        self.holder = f"{socket.gethostname()[:64]}:{os.getpid()}:{secrets.token_hex(4)}"
        self.epoch: int | None = None
        self._db, self._cluster = database, cluster
        self._clock, self._boot, self._alone = clock, boot, alone
        self._lock = threading.Lock()
        self._over = False
        self._renewed = self._ends = float("-inf")

    def lead(self) -> bool:
        """Take the lease where it is free, renew it where that is due; whether this server leads."""
        with self._lock:
            asked = self._boot()
            if self._over:
                return False
            if self.epoch is not None and asked - self._renewed < RENEW_SECONDS:
                return True
            if not (self._renew() or self._take()):
                self.epoch, self._ends = None, float("-inf")
                return False
            # Counted from before the question: whoever looks at the row counts from later.
            self._renewed, self._ends = asked, asked + EXPIRES_SECONDS - MARGIN_SECONDS
            return True

    def held(self) -> int:
        """The epoch of this server; Fenced where another leads."""
        epoch = self.epoch
        if epoch is None and self.lead():
            epoch = self.epoch
        if epoch is None:
            raise Fenced("another server leads: nothing is written to slurm from here")
        return epoch

    @contextmanager
    def announcing(self, epoch: int | None = None) -> Iterator[Connection]:
        """The transaction in which a change is written down before it is made, under ``epoch`` or the present one."""
        under = self.held() if epoch is None else epoch
        with self._db.begin() as connection:
            # A write, not a look: nobody can take the lease before this transaction has ended.
            mine = update(controller_lease).where(*self._mine(under)).values(used_at=self._clock())
            if connection.execute(mine).rowcount != 1:
                self._lost(under)
                raise Fenced(f"epoch {under} is over: another server leads")
            yield connection

    def still(self, epoch: int) -> None:
        """Raise Fenced unless a change that was announced under ``epoch`` may still be made; asks nobody."""
        if self.epoch != epoch:
            raise Fenced(f"epoch {epoch} is over: another server leads")
        if (late := self._boot() - self._ends) >= 0:
            raise Fenced(f"epoch {epoch} was not renewed in time: {late:.1f} s too late for a change")

    def release(self) -> None:
        """Let another server lead at once, at an orderly end; this one does not lead again."""
        with self._lock:
            epoch, self.epoch, self._over = self.epoch, None, True
        if epoch is not None:
            with self._db.begin() as connection:
                connection.execute(update(controller_lease).where(*self._mine(epoch)).values(expires_at=self._clock()))

    def _mine(self, epoch: int) -> tuple[ColumnElement[bool], ...]:
        table = controller_lease.c
        return (table.cluster == self._cluster, table.holder == self.holder, table.epoch == epoch)

    def _lost(self, epoch: int) -> None:
        with self._lock:
            if self.epoch == epoch:
                self.epoch, self._ends = None, float("-inf")

    def _until(self) -> datetime:
        return self._clock() + timedelta(seconds=EXPIRES_SECONDS)

    def _renew(self) -> bool:
        """Also after its end: as long as the row is ours nobody else has written in between."""
        if self.epoch is None:
            return False
        with self._db.begin() as connection:
            renewed = update(controller_lease).where(*self._mine(self.epoch)).values(expires_at=self._until())
            return connection.execute(renewed).rowcount == 1

    def _take(self) -> bool:
        try:
            epoch = self._next()
        except IntegrityError:
            # Two servers started on an empty database at once.
            return False
        if epoch is None:
            return False
        self.epoch, self._alone = epoch, False
        return True

    def _next(self) -> int | None:
        """The epoch that is ours now, None where the lease is not free."""
        table, now = controller_lease.c, self._clock()
        values = {"holder": self.holder, "expires_at": self._until(), "taken_at": now, "used_at": now}
        with self._db.begin() as connection:
            mine = select(table.epoch, table.expires_at).where(table.cluster == self._cluster)
            row = connection.execute(mine).first()
            if row is None:
                connection.execute(insert(controller_lease).values(cluster=self._cluster, epoch=1, **values))
                return 1
            if row.expires_at > now and not self._alone:
                return None
            free = update(controller_lease).where(table.cluster == self._cluster, table.epoch == row.epoch)
            taken = connection.execute(free.values(epoch=row.epoch + 1, **values)).rowcount == 1
        return int(row.epoch) + 1 if taken else None
