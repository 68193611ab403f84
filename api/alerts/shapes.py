"""How an alert is written for Alertmanager's second API, and for the webhook."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta, timezone

import msgspec

from api.alerts.feed import Alert
from checks.wire import clean

NAME = "NodevetIncident"


def alertmanager(alerts: Sequence[Alert], now: datetime, lasts: float, page: str) -> bytes:
    """POST /api/v2/alerts. An open alert ends by itself after ``lasts`` seconds in which nobody says it again."""
    return msgspec.json.encode([_one(a, now + timedelta(seconds=lasts), page) for a in alerts])


def _one(alert: Alert, until: datetime, page: str) -> dict[str, object]:
    labels = {"alertname": NAME, **{k: v for k, v in _labels(alert).items() if v}}
    made: dict[str, object] = {
        "labels": labels,
        "annotations": {"summary": summary(alert), "description": clean(alert.message, 500)},
        "startsAt": _time(alert.began),
        "endsAt": _time(alert.ended or until),
    }
    if page:
        made["generatorURL"] = f"{page.rstrip('/')}/api/v1/incidents/{alert.incident}"
    return made


def webhook(alert: Alert, phase: str, page: str) -> bytes:
    """One event; ``id`` is the same when the same event is sent again."""
    return msgspec.json.encode(
        {
            "version": 1,
            "id": delivery(alert, phase),
            "event": f"incident.{phase}",
            "incident": alert.incident,
            **_labels(alert),
            "summary": summary(alert),
            "message": clean(alert.message, 500),
            "began_at": _time(alert.began),
            "ended_at": _time(alert.ended) if alert.ended else None,
            "why_ended": clean(alert.why_ended, 300),
            "times_opened": alert.times,
            "page": f"{page.rstrip('/')}/api/v1/incidents/{alert.incident}" if page else "",
        }
    )


def delivery(alert: Alert, phase: str) -> str:
    """What tells the same event that is sent twice."""
    return f"{alert.cluster}-{alert.incident}-{alert.times}-{phase}"


def summary(alert: Alert) -> str:
    """One line for people."""
    where = alert.node or alert.cluster
    target = f" {alert.target}" if alert.target not in ("", "node", "controller") else ""
    return clean(f"{where}: {alert.code}{target}", 200)


def _labels(alert: Alert) -> dict[str, str]:
    made = {
        "cluster": alert.cluster,
        "node": alert.node,
        "code": alert.code,
        "target": alert.target,
        "severity": alert.severity,
    }
    return {name: clean(value, 128) for name, value in made.items()}


def _time(at: datetime) -> str:
    return at.astimezone(timezone.utc).isoformat(timespec="milliseconds").replace("+00:00", "Z")
