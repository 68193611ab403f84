"""What slurmctld said of a job: its array or het job, its nodes, when it started and how it ended."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Path
from starlette.responses import Response

from api.routes.deps import Name, StoreDep, Viewer
from api.routes.shapes import Page, answers, reply
from api.store import facts
from api.store.facts import FactsView

router = APIRouter(tags=["jobs"])
JobId = Annotated[int, Path(ge=1, le=2**32)]


@router.get("/jobs/{cluster}/{job_id}/facts", **answers(Page[FactsView]))
def job_facts(cluster: Name, job_id: JobId, store: StoreDep, _: Viewer) -> Response:
    """Every attempt of a job that slurmctld told of; empty where its programs are not in slurm.conf."""
    with store.database.read() as connection:
        return reply(Page(items=facts.facts_of(connection, cluster, job_id)))
