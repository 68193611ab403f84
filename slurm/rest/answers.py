"""What slurmrestd answers becomes values of ours, or the one error that its status and its words mean."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import msgspec

from slurm.config import NONE_SET, SlurmLimits, parse_limits, parse_version
from slurm.errors import BadAnswer, Busy, NotFound, PermissionDenied, SlurmError, Unreachable, Unsupported, error_for
from slurm.job import JobState, state_and_hold
from slurm.nodes import number, time_from_json
from slurm.rest.door import Answer

REFUSED = frozenset({401, 403, 511})  # 511 is what slurmrestd says of a token that slurmctld does not accept
LATER = frozenset({408, 425, 429, 503, 504})
NO_ERROR = 0
UNSAID = -1  # "Unspecified error"
AUTHENTICATION = frozenset({1007, 7001, 7002, 7003})  # SLURM_PROTOCOL_AUTHENTICATION_ERROR, ESLURM_AUTH_*

Document = Mapping[str, object]


def document(answer: Answer, *, step: str) -> Document:
    """Return the document of an answer without errors, or raise what its errors or its status mean.

    Errors count at any status: 24.11 and later report some inside a 200.
    """
    found = _decoded(answer, step)
    errors = found.get("errors") if found is not None else None
    told = [error for error in errors if isinstance(error, Mapping)] if isinstance(errors, list) else []
    if told:
        raise _error(told[0], answer.status, step)
    if found is not None and 200 <= answer.status < 300:
        return found
    raise _plain(answer, step)


def _decoded(answer: Answer, step: str) -> Document | None:
    """The document; None where an error's status came with another body."""
    try:
        found = msgspec.json.decode(answer.body)
    except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError) as error:
        if answer.status >= 300:
            return None
        raise BadAnswer(f"{step}: answer is not JSON: {error}") from error
    if isinstance(found, dict):
        return found
    if answer.status >= 300:
        return None
    raise BadAnswer(f"{step}: answer is no document")


def _error(told: Mapping[object, object], status: int, step: str) -> SlurmError:
    """The error's own words decide; its description only where it says nothing.

    "Failure to query node n1" stands beside every cause, also beside "Unable to contact slurm controller".
    """
    code = number(told.get("error_number", told.get("errno")))
    words, about = _said(told.get("error")), _said(told.get("description"))
    where = f"{step}: {about}" if about else step
    if code == UNSAID or (code not in (None, NO_ERROR) and not words):
        return Unreachable(f"{where}: {words or code}: slurmctld is away, or it does not accept the token")
    if code == NO_ERROR or not words:
        return error_for(about or words, step=step)
    meant = error_for(words, step=where)
    if type(meant) is SlurmError and (code in AUTHENTICATION or status in REFUSED):
        return PermissionDenied(f"{where}: {words}")
    if type(meant) is SlurmError and status in LATER | {502}:
        return Busy(f"{where}: {words}")
    return meant


def _plain(answer: Answer, step: str) -> SlurmError:
    """An error that came without a document: a wrong path or method, no token, or a proxy that speaks for itself."""
    text = _said(answer.body[:300].decode("utf-8", "replace"))
    said = f"{step}: HTTP {answer.status}: {text or 'no message'}"
    if answer.status in REFUSED:
        return PermissionDenied(said)
    if answer.status in {404, 405, 501}:
        return Unsupported(said)
    if answer.status in LATER:
        return Busy(said)
    if answer.status == 502:
        return Unreachable(said)
    if 300 <= answer.status < 400 or answer.status < 200:
        return BadAnswer(said)
    return error_for(text, step=f"{step}: HTTP {answer.status}")


def job_from(found: Document, job_id: int) -> JobState | None:
    """Read one job; an array's id brings all its tasks, of which the one with this very id counts."""
    jobs = found.get("jobs")
    if not isinstance(jobs, list):
        raise BadAnswer("answer holds no list of jobs")
    for item in jobs:
        if isinstance(item, Mapping) and number(item.get("job_id")) == job_id:
            return _job(item, job_id)
    return None


def job_note(found: Document, job_id: int) -> str:
    """Read one job's AdminComment."""
    jobs = found.get("jobs")
    items = [item for item in jobs if isinstance(item, Mapping)] if isinstance(jobs, list) else []
    for item in items:
        if number(item.get("job_id")) == job_id:
            told = item.get("admin_comment")
            return told if isinstance(told, str) else ""
    raise NotFound(f"slurmrestd job: job {job_id} is not in the answer")


def job_id(found: Document) -> int:
    """Read the id of a job that was handed in."""
    told = number(found.get("job_id"))
    if not told or told <= 0:
        raise BadAnswer("answer holds no job id")
    return told


def _job(item: Mapping[object, object], job_id: int) -> JobState:
    """Every field is Slurm's own; JSON keeps the user's words (name, comment) where they cannot forge another."""
    states = item.get("job_state")
    words = [word for word in states if isinstance(word, str)] if isinstance(states, list) else [states]
    told = [word for word in words if isinstance(word, str)]
    state, held = state_and_hold(told, number(item.get("priority")))
    return JobState(
        job_id=job_id,
        state=state,
        reason=_told(item.get("state_reason")),
        batch=_flag(item.get("batch_flag")),
        requeue=_flag(item.get("requeue")),
        restart_count=number(item.get("restart_cnt")),
        held=held,
        start_time=time_from_json(item.get("start_time")),
        num_nodes=number(item.get("node_count")),
        batch_host=_told(item.get("batch_host")),
        nodelist=_told(item.get("nodes")),
    )


def pings(found: Document) -> list[Mapping[str, object]]:
    """Return one entry for each slurmctld, primary and backups."""
    told = found.get("pings")
    if not isinstance(told, list) or not told:
        raise BadAnswer("answer holds no slurmctld")
    return [ping for ping in told if isinstance(ping, dict)]


def release(found: Document) -> SlurmLimits:
    """Return what every answer says beside: the release and the cluster, and no limit at all."""
    meta = found.get("meta")
    slurm = (meta.get("slurm") or meta.get("Slurm")) if isinstance(meta, Mapping) else None
    told = slurm if isinstance(slurm, Mapping) else {}
    return SlurmLimits(version=parse_version(_said(told.get("release"))), cluster=_said(told.get("cluster")) or None)


def limits(found: Document) -> SlurmLimits:
    """Read a configuration, through the reader of ``scontrol show config``, whose names it has."""
    conf = found.get("slurm_conf")
    if not isinstance(conf, Mapping):
        raise BadAnswer("answer holds no slurm_conf")
    lines = [f"{name} = {_setting(value)}" for name, value in conf.items() if name not in _OWN]
    user, uid = _said(conf.get("SlurmUser")), number(conf.get("SlurmUserId"))
    lines.append(f"SlurmUser = {user}({uid})" if uid is not None else f"SlurmUser = {user}")
    version = release(found).version
    if version is not None:
        lines.append("SLURM_VERSION = {}.{:02}.{}".format(*version))
    meta = found.get("slurm_conf_meta")
    booted = time_from_json(meta.get("BOOT_TIME")) if isinstance(meta, Mapping) else None
    return replace(parse_limits("\n".join(lines)), booted=booted)


_OWN = frozenset({"SlurmUser", "SLURM_VERSION"})


def _setting(value: object) -> str:
    if isinstance(value, list):
        return ",".join(_said(word) for word in value)
    if isinstance(value, Mapping):
        found = number(value)
        return str(NONE_SET if found is None else found)
    return _said(str(value))


def _said(value: object) -> str:
    """One line of at most 300 characters."""
    return " ".join(value[:1000].split())[:300] if isinstance(value, str) else ""


def _told(value: object) -> str | None:
    return value if isinstance(value, str) and value not in ("", "None", "n/a", "N/A", "(null)") else None


def _flag(value: object) -> bool | None:
    if isinstance(value, bool):
        return value
    told = number(value)
    return None if told is None else told != 0
