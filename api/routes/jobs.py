"""Jobs: what was answered to each attempt, on which node and why."""

from __future__ import annotations

from fastapi import APIRouter
from starlette.responses import Response

from api.problems import Absent
from api.routes.deps import Cursor, Limit, Name, RowId, StoreDep, Viewer
from api.routes.shapes import Page, answers, paged, reply, row_cursor, to_cursor
from api.store.views import JobView, ReportView

router = APIRouter(tags=["jobs"])


@router.get("/jobs", **answers(Page[JobView]))
def list_jobs(store: StoreDep, _: Viewer, cursor: Cursor = None, limit: Limit = 100) -> Response:
    """Job attempts, the newest first."""
    rows = store.jobs(row_cursor(cursor), limit)
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


@router.get("/reports/{number}", **answers(ReportView))
def one_report(number: RowId, store: StoreDep, _: Viewer) -> Response:
    """One whole report."""
    if found := store.report(number):
        return reply(found)
    raise Absent(f"no report {number}")
