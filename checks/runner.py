"""One check is run once, and this is the only place that catches what a check raises."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass

import msgspec

from checks.declare import Check, Skip, code, ok
from checks.host import Host
from checks.wire import Finding

CHECK_ERROR = code(
    "check_error",
    "unknown",
    "self",
    "check {check} failed to look: {error}",
    explain="Nodevet could not look. It says nothing about the node. Of a kept tree: what it needs was not "
    "captured. Do: else read the agent's log and report the defect.",
)
NEEDS_ROOT = code(
    "needs_root", "skipped", "self", "needs root", explain="Do: run `nodevet check` as root to have this asked, too."
)
NO_ROOT = code(
    "no_root",
    "unknown",
    "self",
    "check {check} needs root and the agent is not root",
    explain="Do: start the agent by its systemd unit, which runs it as root.",
)
NOT_APPLICABLE = code(
    "not_applicable",
    "skipped",
    "config",
    "{reason}",
    explain="This node has nothing of the kind. Where it should: `nodevet profile show` says what was expected.",
)
FINDINGS_LIMIT = 1000


@dataclass(frozen=True, slots=True)
class Outcome:
    """What one run of one check gave, and how long it took in seconds."""

    check: str
    findings: tuple[Finding, ...]
    seconds: float


def run_check(
    declared: Check, host: Host, options: Mapping[str, object] | None = None, *, manual: bool = False
) -> Outcome:
    """Run one check here and now; every finding is stamped with its check and time, silence becomes ok."""
    started = time.monotonic()
    found = _findings(declared, host, dict(options or {}), manual)
    now = host.now()
    stamped = tuple(msgspec.structs.replace(f, check=declared.name, observed_at=f.observed_at or now) for f in found)
    return Outcome(declared.name, stamped, time.monotonic() - started)


def _findings(declared: Check, host: Host, options: dict[str, object], manual: bool) -> list[Finding]:
    if "root" in declared.needs and not host.privileged and not host.redirected:
        return [NEEDS_ROOT("node") if manual else NO_ROOT("node", check=declared.name)]
    found: list[Finding] = []
    target = _quiet_target(declared, options)
    try:
        for finding in declared.function(host, **options):
            found.append(finding)
            if len(found) >= FINDINGS_LIMIT:
                break
    except Skip as skip:
        return [*found, NOT_APPLICABLE(target, reason=str(skip))]
    except PermissionError as error:
        if host.privileged or host.redirected:
            return [*found, CHECK_ERROR(target, check=declared.name, error=f"PermissionError: {error}")]
        return [*found, NEEDS_ROOT(target) if manual else NO_ROOT(target, check=declared.name)]
    except Exception as error:
        name = type(error).__name__
        lacking = _lacking(host, error)
        return [*found, CHECK_ERROR(target, check=declared.name, error=lacking or f"{name}: {error}")]
    return found or [ok(target)]


def _lacking(host: Host, error: Exception) -> str:
    """What a kept tree does not hold, in words; empty for any other error."""
    if not host.redirected or not isinstance(error, FileNotFoundError | NotADirectoryError) or not error.filename:
        return ""
    return f"the tree has no {str(error.filename).removeprefix(str(host.root))}"


def _quiet_target(declared: Check, options: Mapping[str, object]) -> str:
    """A split instance that names no target itself speaks of its one value, any other check of the node."""
    value = options.get(declared.each) if declared.each else None
    if isinstance(value, tuple | list) and len(value) == 1:
        return str(value[0])
    return "node"
