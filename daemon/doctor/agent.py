"""The agent of this node answers, its lanes come back, its disk takes reports and its uplink is connected."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from checks import clean
from slurm.doctor import Advice

LOG = "journalctl -u nodevet-agent"
WAITING_MOST = 1000  # reports that wait before somebody should look
Status = Mapping[str, object]


def agent_rules(status: Status, version: str) -> Iterator[Advice]:
    """All advice about GET /v1/status."""
    yield _alive(status, version)
    if error := _text(status, "config_error"):
        why = "the agent works with what could be rescued of its configuration"
        yield Advice("problem", "agent", f"configuration: {error}", why, "nodevet config check")
    if lanes := status.get("wedged_lanes"):
        why = "a call into a device or filesystem does not come back; that lane's checks are unknown"
        yield Advice(
            "problem", "lanes", f"wedged: {clean(', '.join(map(str, _items(lanes))), 300)}", why, "nodevet status"
        )
    if paused := _text(status, "paused"):
        yield Advice("warning", "agent", paused, "no job is vetted here meanwhile", "nodevet ready <node>")
    else:
        yield from _checks(status)
    if silenced := status.get("silenced"):
        what = clean(", ".join(map(str, _items(silenced))), 200).replace("*", "all checks")
        yield Advice("warning", "agent", f"silenced: {what}", "their findings lead to nothing", "nodevet silence")
    yield from _outbox(_table(status, "outbox"))
    yield from _uplink(_table(status, "uplink"))


def _alive(status: Status, version: str) -> Advice:
    its, uptime = _text(status, "agent_version"), status.get("uptime")
    age = f"up {uptime:.0f} s" if isinstance(uptime, (int, float)) else "running"
    if its and its != version:
        why = "it was not restarted after the last installation"
        return Advice(
            "warning", "agent", f"{age}, version {its}, the package {version}", why, "systemctl restart nodevet-agent"
        )
    return Advice("ok", "agent", f"{age}, verdict {_text(status, 'verdict')}, profile {_text(status, 'profile')}")


def _checks(status: Status) -> Iterator[Advice]:
    checks = [row for row in _items(status.get("checks")) if isinstance(row, dict)]
    stale = [clean(row.get("name"), 60) for row in checks if row.get("stale")]
    if stale:
        why = "a stale answer counts as unknown: nothing is refused for it"
        yield Advice("warning", "checks", f"{len(stale)} of {len(checks)} stale: {', '.join(stale[:8])}", why, LOG)


def _outbox(outbox: Status) -> Iterator[Advice]:
    waiting, lost, hung = (_number(outbox, key) for key in ("waiting", "lost", "hung"))
    trouble = _text(outbox, "trouble")
    if hung or trouble:
        why = "reports and refusals may not survive a crash"
        yield Advice(
            "problem",
            "outbox",
            f"state directory: {trouble or f'no answer for {hung:.0f} s'}",
            why,
            "df /var/lib/nodevet",
        )
    if lost:
        yield Advice("warning", "outbox", f"{lost:.0f} reports lost", "the disk did not take them", LOG)
    if waiting > WAITING_MOST:
        why = "the central service does not take them: its view of this node is old"
        yield Advice("warning", "outbox", f"{waiting:.0f} reports wait", why, "nodevet status")


def _uplink(uplink: Status) -> Iterator[Advice]:
    state, error = _text(uplink, "state"), _text(uplink, "last_error")
    if state == "connected":
        yield Advice("ok", "uplink", f"connected, {_number(uplink, 'leases'):.0f} leases")
    elif state:
        why = "without it no permit is given: bad nodes are admitted beyond the leases that are left"
        yield Advice(
            "warning",
            "uplink",
            f"{state}{f': {error}' if error else ''}",
            why,
            "nodevet.toml: [central] url, token_file",
        )


def _table(row: Status, key: str) -> Status:
    value = row.get(key)
    return value if isinstance(value, dict) else {}


def _items(value: object) -> list[object]:
    return list(value) if isinstance(value, list) else []


def _text(row: Status, key: str) -> str:
    value = row.get(key)
    return clean(value, 300) if value not in (None, "") else ""


def _number(row: Status, key: str) -> float:
    value = row.get(key)
    return float(value) if isinstance(value, (int, float)) else 0.0
