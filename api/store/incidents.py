"""One problem is open once, however often it is reported, and a problem that comes back soon is the same one."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta

from sqlalchemy import Connection, insert, select, update

from api.store.current import Current
from api.store.tables import incidents
from slurm.reason import one_line

SAME_PROBLEM = timedelta(minutes=30)
FROM_FINDINGS = ("finding", "unanswered")


def open_incident(
    connection: Connection,
    at: datetime,
    key: tuple[str, str, str, str],
    *,
    message: str,
    kind: str,
    check: str = "",
) -> int:
    """Open (cluster, node, code, target), or refresh it where it is open; its number.

    Closed within the last 30 minutes, it is opened again instead of a second one: flapping does not multiply.
    """
    where = [
        c == v
        for c, v in zip((incidents.c.cluster, incidents.c.node, incidents.c.code, incidents.c.target), key, strict=True)
    ]
    last = connection.execute(
        select(incidents.c.id, incidents.c.closed_at)
        .where(*where)
        .order_by(incidents.c.closed_at.is_(None).desc(), incidents.c.id.desc())
        .limit(1)
    ).first()
    text = one_line(message, 512)
    if last is not None and (last.closed_at is None or at - last.closed_at <= SAME_PROBLEM):
        again = {} if last.closed_at is None else {"times_opened": incidents.c.times_opened + 1}
        connection.execute(
            update(incidents)
            .where(incidents.c.id == last.id)
            .values(last_seen=at, message=text, closed_at=None, closed_why="", **again)
        )
        return int(last.id)
    return _insert(connection, at, key, message=text, kind=kind, check=check)


def _insert(
    connection: Connection, at: datetime, key: tuple[str, str, str, str], *, message: str, kind: str, check: str
) -> int:
    cluster, node, code, target = key
    number: int = connection.execute(
        insert(incidents)
        .values(
            cluster=cluster,
            node=node,
            code=code,
            target=target,
            check_name=check,
            kind=kind,
            message=message,
            first_seen=at,
            last_seen=at,
            times_opened=1,
            closed_why="",
        )
        .returning(incidents.c.id)
    ).scalar_one()
    return number


def close_incident(connection: Connection, at: datetime, key: tuple[str, str, str, str], *, why: str) -> bool:
    """Close the problem where it is open; whether it was."""
    columns = (incidents.c.cluster, incidents.c.node, incidents.c.code, incidents.c.target)
    done = connection.execute(
        update(incidents)
        .where(*[c == v for c, v in zip(columns, key, strict=True)], incidents.c.closed_at.is_(None))
        .values(closed_at=at, closed_why=one_line(why, 512))
    )
    return done.rowcount > 0


def follow(
    connection: Connection,
    at: datetime,
    node: tuple[str, str],
    named: Sequence[str],
    current: Current,
    *,
    unanswered: bool,
    silenced: frozenset[str] = frozenset(),
) -> None:
    """Open and close what the current findings of the checks ``named`` ask for.

    ``unanswered``: the agent itself calls the node unknown, so its unknown findings are problems too. ``silenced``:
    checks that open nothing for a time; what is open already is closed as always.
    """
    mine = [f for f in current.values() if f.check in set(named)]
    problems = [f for f in mine if f.status == "fail" or (f.status == "unknown" and unanswered)]
    for finding in problems:
        if finding.check in silenced:
            continue
        kind = "finding" if finding.status == "fail" else "unanswered"
        key = (*node, finding.code, finding.target)
        open_incident(connection, at, key, message=finding.message, kind=kind, check=finding.check)
    _close_gone(connection, at, node, named, current)


def _close_gone(
    connection: Connection, at: datetime, node: tuple[str, str], named: Sequence[str], current: Current
) -> None:
    """Close problems that their check no longer sees; a check that could not look has seen nothing end."""
    present = {(f.code, f.target) for f in current.values() if f.status in ("fail", "unknown")}
    blind = {f.check for f in current.values() if f.status == "unknown" or f.code == "needs_root"}
    rows = connection.execute(
        select(incidents.c.id, incidents.c.code, incidents.c.target, incidents.c.check_name, incidents.c.kind).where(
            incidents.c.cluster == node[0],
            incidents.c.node == node[1],
            incidents.c.closed_at.is_(None),
            incidents.c.kind.in_(FROM_FINDINGS),
            incidents.c.check_name.in_(named),
        )
    )
    gone = [
        r.id for r in rows if (r.code, r.target) not in present and not (r.kind == "finding" and r.check_name in blind)
    ]
    if gone:
        connection.execute(
            update(incidents).where(incidents.c.id.in_(gone)).values(closed_at=at, closed_why="no longer seen")
        )
