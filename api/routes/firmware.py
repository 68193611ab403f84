"""How drivers, kernels and firmware of the nodes of one profile agree."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query
from starlette.responses import Response

from api.routes.deps import StoreDep, Viewer
from api.routes.shapes import Page, answers, reply
from api.store import firmware
from api.store.firmware import FirmwareView

router = APIRouter(tags=["nodes"])
Word = Annotated[str | None, Query(max_length=128)]


@router.get("/firmware", **answers(Page[FirmwareView]))
def list_firmware(store: StoreDep, _: Viewer, cluster: Word = None, profile: Word = None) -> Response:
    """Versions of driver, kernel, agent, GPUs, adapters and boards by profile, with the nodes that differ from most.

    It is a note: no finding, incident or drain follows from it.
    """
    with store.database.read() as connection:
        return reply(Page(items=firmware.compared(connection, cluster, profile)))
