"""A thread tells the outside of incidents; it waits for nobody's answer but its own, and nobody waits for it."""

from __future__ import annotations

import logging
import random
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta, timezone

from sqlalchemy import delete, insert, update
from sqlalchemy.exc import IntegrityError, SQLAlchemyError

from api.alerts.feed import Alert, Feed
from api.alerts.poster import NotSent, Poster
from api.alerts.settings import AlertSettings
from api.alerts.shapes import alertmanager, delivery, webhook
from api.alerts.tables import alerts_told
from api.store.database import Database

log = logging.getLogger(__name__)
AT_ONCE = 500
EVENTS_AT_ONCE = 200
LONGEST_PAUSE = 300.0
CLAIM = timedelta(seconds=60)
ENDED_FOR = 900.0
# What Alertmanager hears no more ends by itself after so many times without a word.
MISSES = 4
KEEP_TOLD = timedelta(days=200)
Loud = Callable[[str], None]


class Wait:
    """How long to leave an address alone that does not answer: longer each time, with jitter, never without end."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock, self._failures, self._until = clock, 0, float("-inf")

    @property
    def over(self) -> bool:
        """Whether it may be tried."""
        return self._clock() >= self._until

    def failed(self) -> None:
        """It did not answer."""
        pause = min(LONGEST_PAUSE, 2.0 ** min(self._failures, 10))
        self._failures += 1
        self._until = self._clock() + pause * random.uniform(0.5, 1.0)

    def went_well(self) -> None:
        """It answered."""
        self._failures, self._until = 0, float("-inf")


class Sender:
    """Both addresses, each with its own state; ``loud`` hears what cannot be sent, and an empty text when it can."""

    def __init__(
        self, settings: AlertSettings, database: Database, cluster: str, loud: Loud = lambda _: None,
        clock: Callable[[], datetime] = lambda: datetime.now(timezone.utc),
    ) -> None:  # fmt: skip
        self._settings, self._db, self._loud, self._clock = settings, database, loud, clock
        self._feed = Feed(database, cluster)
        self._manager = Poster(settings.alertmanager, "/api/v2/alerts") if settings.alertmanager.url else None
        self._hook = Poster(settings.webhook) if settings.webhook.url else None
        self._waits = {"alertmanager": Wait(), "webhook": Wait()}
        self._troubles: dict[str, str] = {}
        self._said: frozenset[tuple[int, int, bool]] = frozenset()
        self._said_at = float("-inf")
        self.sent = 0

    def round(self) -> None:
        """Tell what is to be told now; never raises for an address that does not answer."""
        for name, work in (("alertmanager", self._to_manager), ("webhook", self._to_hook)):
            if not self._waits[name].over:
                continue
            try:
                work()
            except NotSent as error:
                self._waits[name].failed()
                self._trouble(name, str(error))
            else:
                self._waits[name].went_well()
                self._trouble(name, "")

    def _to_manager(self) -> None:
        """All that lasts when something changed, and otherwise now and then."""
        if self._manager is None:
            return
        now = self._clock()
        alerts = self._feed.lasting(now, ENDED_FOR)
        seen = frozenset((a.incident, a.times, a.ended is None) for a in alerts)
        if seen == self._said and time.monotonic() - self._said_at < self._settings.resend:
            return
        lasts = MISSES * self._settings.resend
        for first in range(0, len(alerts), AT_ONCE):
            some = alerts[first : first + AT_ONCE]
            self._manager.post(alertmanager(some, now, lasts, self._settings.page))
            self.sent += len(some)
        self._said, self._said_at = seen, time.monotonic()

    def _to_hook(self) -> None:
        """Each event once, in order; one that is refused for good is not tried again."""
        if self._hook is None:
            return
        for alert, phase in self._feed.untold()[:EVENTS_AT_ONCE]:
            if not self._claim(alert, phase):
                continue
            try:
                self._hook.post(webhook(alert, phase, self._settings.page), delivery(alert, phase))
            except NotSent as error:
                at = alert.ended or alert.began
                old = (self._clock() - at).total_seconds() > self._settings.give_up
                if error.again and not old:
                    self._release(alert, phase)
                    raise
                log.error("alert given up delivery=%s why=%s", delivery(alert, phase), error)
                self._told(alert, phase)
                raise
            self._told(alert, phase)
            self.sent += 1

    # -- what is remembered

    def _claim(self, alert: Alert, phase: str) -> bool:
        """Whether this server tells it: another one may just be at it, one that died is not waited for."""
        now = self._clock()
        row = {"incident_id": alert.incident, "times_opened": alert.times, "phase": phase}
        try:
            with self._db.begin() as connection:
                connection.execute(insert(alerts_told).values(claimed_at=now, told=False, **row))
            return True
        except IntegrityError:
            mine = [alerts_told.c[name] == value for name, value in row.items()]
            stale = (alerts_told.c.told.is_(False), alerts_told.c.claimed_at < now - CLAIM)
            with self._db.begin() as connection:
                return connection.execute(update(alerts_told).where(*mine, *stale).values(claimed_at=now)).rowcount == 1

    def _release(self, alert: Alert, phase: str) -> None:
        mine = (alerts_told.c.incident_id == alert.incident, alerts_told.c.times_opened == alert.times)
        with self._db.begin() as connection:
            connection.execute(
                delete(alerts_told).where(*mine, alerts_told.c.phase == phase, alerts_told.c.told.is_(False))
            )

    def _told(self, alert: Alert, phase: str) -> None:
        mine = (alerts_told.c.incident_id == alert.incident, alerts_told.c.times_opened == alert.times)
        with self._db.begin() as connection:
            connection.execute(update(alerts_told).where(*mine, alerts_told.c.phase == phase).values(told=True))

    def forget(self) -> None:
        """Let marks of incidents that are long gone go."""
        with self._db.begin() as connection:
            connection.execute(delete(alerts_told).where(alerts_told.c.claimed_at < self._clock() - KEEP_TOLD))

    def _trouble(self, name: str, text: str) -> None:
        before = "; ".join(self._troubles.values())
        if text:
            self._troubles[name] = f"{name}: {text}"
        else:
            self._troubles.pop(name, None)
        now = "; ".join(self._troubles.values())
        if now != before:
            log.log(logging.ERROR if now else logging.WARNING, "alerts %s", f"not sent: {now}" if now else "sent again")
            self._loud(now)


@contextmanager
def alerting(settings: AlertSettings, database: Database, cluster: str, loud: Loud) -> Iterator[Sender | None]:
    """Tell the outside as long as this lasts; nothing is started where no address is given."""
    if not settings.on:
        yield None
        return
    sender, ending = Sender(settings, database, cluster, loud), threading.Event()
    thread = threading.Thread(target=_run, args=(sender, ending, settings.every), name="alerts", daemon=True)
    thread.start()
    try:
        yield sender
    finally:
        ending.set()
        thread.join(timeout=2.0)


def _run(sender: Sender, ending: threading.Event, every: float) -> None:
    forgot = float("-inf")
    while not ending.wait(every * random.uniform(0.9, 1.1)):
        try:
            sender.round()
            if time.monotonic() - forgot > 86400.0:
                forgot = time.monotonic()
                sender.forget()
        except SQLAlchemyError as error:
            log.error("alerts: database: %s", error)
        except Exception:
            log.exception("alerts: a round failed")
