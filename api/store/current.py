"""A node's current findings are replaced check by check, and what changed by that is history."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any

import msgspec
from sqlalchemy import Connection, Row, delete, insert, select

from api.store.tables import changes, findings
from checks.wire import Finding, Scalar, Status

Key = tuple[str, str, str]
Current = dict[Key, Finding]
CURRENT_LIMIT = 5000
_GRAVITY: dict[Status, int] = {"fail": 4, "warn": 3, "unknown": 2, "skipped": 1, "ok": 0}
_EVIDENCE = msgspec.json.Decoder(dict[str, Scalar])


def read_current(connection: Connection, cluster: str, node: str) -> Current:
    """The current findings of one node by (check, target, code)."""
    rows = connection.execute(
        select(findings)
        .where(findings.c.cluster == cluster, findings.c.node == node)
        .order_by(findings.c.check_name, findings.c.target, findings.c.code)
    )
    return {f.key: f for f in map(finding_of, rows)}


def finding_of(row: Row[Any]) -> Finding:
    """The finding that a row of ``findings`` holds."""
    return Finding(
        check=row.check_name,
        target=row.target,
        status=row.status,
        code=row.code,
        blame=row.blame,
        message=row.message,
        evidence=_EVIDENCE.decode(row.evidence),
        observed_at=row.observed_at,
        since=row.since,
        seen=row.seen,
    )


def replace(old: Current, fresh: Iterable[Finding]) -> Current:
    """``old`` with all findings of every check that ``fresh`` names exchanged for those of ``fresh``.

    Where that were more than a node may have, only ``fresh`` stays: check names that never end are no agent's.
    """
    new = {f.key: f for f in fresh}
    named = {f.check for f in new.values()}
    kept = {k: f for k, f in old.items() if f.check not in named}
    return {**kept, **new} if len(kept) + len(new) <= CURRENT_LIMIT else new


def write_current(connection: Connection, cluster: str, node: str, named: Sequence[str], current: Current) -> None:
    """Store what ``current`` says of the checks ``named``."""
    if not named:
        return
    where = (findings.c.cluster == cluster, findings.c.node == node, findings.c.check_name.in_(named))
    connection.execute(delete(findings).where(*where))
    rows = [_row(cluster, node, f) for f in current.values() if f.check in set(named)]
    if rows:
        connection.execute(insert(findings), rows)


def _row(cluster: str, node: str, finding: Finding) -> dict[str, object]:
    return {
        "cluster": cluster,
        "node": node,
        "check_name": finding.check,
        "target": finding.target,
        "code": finding.code,
        "status": finding.status,
        "blame": finding.blame,
        "message": finding.message,
        "evidence": msgspec.json.encode(finding.evidence).decode(),
        "observed_at": finding.observed_at,
        "since": finding.since,
        "seen": finding.seen,
    }


def _worst(current: Current) -> Mapping[tuple[str, str], Finding]:
    worst: dict[tuple[str, str], Finding] = {}
    for finding in sorted(current.values(), key=lambda f: (-_GRAVITY[f.status], f.code)):
        worst.setdefault((finding.check, finding.target), finding)
    return worst


def changed(cluster: str, node: str, old: Current, new: Current, at: datetime) -> list[dict[str, object]]:
    """Rows of history: each (check, target) whose gravest finding has another status or code than before.

    A target that is ok at first sight is no news, and one that is no longer spoken of has become ok.
    """
    before, after = _worst(old), _worst(new)
    rows = []
    for key in sorted(before.keys() | after.keys()):
        was, now = before.get(key), after.get(key)
        state = (now.status, now.code) if now else ("ok", "ok")
        known = (was.status, was.code) if was else ("ok", "ok")
        if state != known:
            rows.append(_change(cluster, node, key, was, now) | {"at": at})
    return rows


def _change(
    cluster: str, node: str, key: tuple[str, str], was: Finding | None, now: Finding | None
) -> dict[str, object]:
    return {
        "cluster": cluster,
        "node": node,
        "check_name": key[0],
        "target": key[1],
        "old_status": was.status if was else None,
        "old_code": was.code if was else None,
        "status": now.status if now else "ok",
        "code": now.code if now else "ok",
        "blame": now.blame if now else None,
        "message": now.message if now else "no longer reported",
        "observed_at": now.observed_at if now else None,
    }


def write_changes(connection: Connection, rows: list[dict[str, object]]) -> None:
    """Append to the history."""
    if rows:
        connection.execute(insert(changes), rows)
