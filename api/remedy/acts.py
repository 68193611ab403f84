"""What is done to a node: an order to its agent, a reboot by Slurm, or an executable of the site."""

from __future__ import annotations

import asyncio
from pathlib import Path

import msgspec

from api.controller.core import Core
from api.controller.drain_record import DrainRecord
from api.remedy.record import RemedyRecord, RemedyState
from api.remedy.settings import RESET, RUN, RemedySettings, Run
from checks.site.program import run_to_end
from checks.site.trust import NotTrusted, executable
from checks.wire import Order, clean
from slurm.errors import SlurmError
from slurm.mend import reboot_if_ours
from slurm.ownership import OurRecord, Result

BUSY = 2
"""The exit status with which a site's executable says "not now"; 0 is done, every other one failed."""
REBOOTING = frozenset({"REBOOT_REQUESTED", "REBOOT_ISSUED"})
Ended = tuple[RemedyState, str]


def order_of(record: RemedyRecord, settings: RemedySettings) -> Order:
    """The agent's order; its id is the record's, so that an agent never carries it out twice."""
    name = record.action.removeprefix(RUN)
    return Order(
        id=record.order_id,
        kind="reset-gpu" if record.action == RESET else "run",
        gpus=record.gpus,
        name="" if record.action == RESET else name,
        document="" if record.action == RESET else document(record),
        limit=settings.timeout_of(record.action),
    )


def document(record: RemedyRecord) -> str:
    """What a site's executable reads on its standard input."""
    told = {
        "version": 1,
        "cluster": record.cluster,
        "node": record.node,
        "remedy": record.id,
        "action": record.action,
        "codes": record.codes,
        "gpus": record.gpus,
        "actor": record.actor,
        "automatic": record.automatic,
    }
    return msgspec.json.encode(told).decode() + "\n"


def run_here(record: RemedyRecord, run: Run) -> Ended:
    """Run a site's executable as the account we are; call it in a thread."""
    name = record.action.removeprefix(RUN)
    try:
        path = executable(Path(run.directory), name)
        ended = run_to_end([str(path)], document=document(record).encode(), limit=run.timeout)
    except FileNotFoundError as error:
        return "refused", f"{error.filename or name}: no such file"
    except (NotTrusted, OSError) as error:
        return "refused", f"{name} is not run: {error}"
    if ended.left:
        return "hung", f"{name} ({ended.left}) does not end"
    if ended.why:
        return "failed", f"{name} did not end within {run.timeout:g} s and was ended"
    words = f"{name} ended with {ended.status}: {clean(ended.output, 300) or 'no word'}"
    return ("done" if ended.status == 0 else "busy" if ended.status == BUSY else "failed"), words


async def reboot(core: Core, record: RemedyRecord, drain: DrainRecord) -> Ended | None:
    """Ask Slurm for a reboot under our own reason; None: it was asked, or may have been, and the node will tell."""
    backend, ours = core.view.backend, OurRecord(drain.reason, drain.reason_before)
    try:
        pen = await core.pen()
        outcome = await pen.change(record.node, reboot_if_ours, ours)
    except TimeoutError:
        # It may have been heard: the node's next boot tells.
        return None
    except SlurmError as error:
        return "failed", f"slurm took no reboot: {error}"
    if outcome.result is Result.WRITTEN or outcome.unsure:
        return None
    if outcome.result is Result.FAILED:
        return "failed", f"slurm took no reboot: {outcome.detail}"
    if outcome.window_ms is None:
        return "refused", outcome.detail
    # Somebody gave the node back in this moment: his jobs are not to meet a reboot.
    try:
        await pen.tell(record.node, "reboot taken back", backend.cancel_reboot, record.node)
    except (SlurmError, TimeoutError) as error:
        return "failed", f"{outcome.detail}, and the reboot was not taken back: {error}"
    return "refused", f"{outcome.detail}: the reboot was taken back"


async def run_server(record: RemedyRecord, run: Run) -> Ended:
    """Run it in a thread of its own, so that nothing waits for it."""
    return await asyncio.to_thread(run_here, record, run)
