"""Jobs: what was answered to each attempt, on which node and why."""

from __future__ import annotations

from datetime import timedelta
from typing import Annotated, Literal

from fastapi import APIRouter, Depends, Query
from starlette.responses import Response

from api.explain import JobExplained, JobWords, explain, words_of
from api.problems import Absent
from api.routes.deps import ControllerDep, Cursor, JobReader, Limit, Name, RowId, SharedDep, StoreDep, Viewer, Window
from api.routes.shapes import Page, answers, paged, reply, row_cursor, to_cursor
from api.store.store import utc_now
from api.store.views import JobFilter, JobView, ReportView

router = APIRouter(tags=["jobs"])


def _wanted(only: Literal["refused", "held", "cancelled"] | None = None, since: Window = None) -> JobFilter:
    """``since``: seconds back from now; ``only``: refused, or what Slurm did then."""
    return JobFilter(only=only, since=None if since is None else utc_now() - timedelta(seconds=since))


@router.get("/jobs", **answers(Page[JobView]))
def list_jobs(
    store: StoreDep,
    _: Viewer,
    wanted: Annotated[JobFilter, Depends(_wanted)],
    cursor: Cursor = None,
    limit: Limit = 100,
) -> Response:
    """Job attempts, the newest first."""
    rows = store.jobs(row_cursor(cursor), limit, wanted)
    following = to_cursor(rows[-1][0]) if len(rows) == limit else None
    return reply(Page(items=[view for _, view in rows], next=following))


@router.get("/jobs/{cluster}/{job_id}", **answers(Page[ReportView]))
def one_job(
    cluster: Name, job_id: RowId, store: StoreDep, _: Viewer, cursor: Cursor = None, limit: Limit = 1000
) -> Response:
    """Every report of one job, all attempts and nodes, in the order of arrival."""
    rows = store.reports_of_job(cluster, job_id, row_cursor(cursor), limit)
    if not rows and cursor is None:
        raise Absent(f"no report of job {job_id} in cluster {cluster}")
    return paged(rows, limit, lambda r: r.id)


@router.get("/jobs/{cluster}/{job_id}/explain", **answers(JobExplained))
def explain_job(cluster: Name, job_id: RowId, store: StoreDep, controller: ControllerDep, _: Viewer) -> Response:
    """Why the job was refused and what Slurm does next, attempt by attempt, in words."""
    reports, starts = store.reports_of_job(cluster, job_id), store.starts_of_job(cluster, job_id)
    if not reports and not starts:
        raise Absent(f"no report of job {job_id} in cluster {cluster}")
    began = store.began(cluster, job_id=job_id)
    return reply(explain(cluster, job_id, reports, starts, began, controller.limits()))


@router.get("/words/jobs/{job_id}", **answers(JobWords))
def job_in_words(
    job_id: RowId,
    shared: SharedDep,
    controller: ControllerDep,
    _: JobReader,
    cluster: Annotated[str | None, Query(max_length=128)] = None,
) -> Response:
    """What became of a job, in its user's words: no code, no user, no other job; all that scope ``jobs`` may read."""
    home, store = cluster or shared.settings.cluster, shared.store
    reports, starts = store.reports_of_job(home, job_id), store.starts_of_job(home, job_id)
    if not reports and not starts:
        raise Absent(f"nothing is known of job {job_id}: it has not begun yet, or ran on nodes without an agent")
    told = explain(home, job_id, reports, starts, store.began(home, job_id=job_id), controller.limits())
    return reply(words_of(told))


@router.get("/reports/{number}", **answers(ReportView))
def one_report(number: RowId, store: StoreDep, _: Viewer) -> Response:
    """One whole report."""
    if found := store.report(number):
        return reply(found)
    raise Absent(f"no report {number}")
