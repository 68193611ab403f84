"""The controller's shared parts are put together in one place, all on one database and one clock."""

from __future__ import annotations

from api.controller.core import ControllerSettings, Core, Memory
from api.controller.fence import Fence
from api.controller.operations import OperationBook
from api.controller.quiet import QuietBook
from api.controller.records import Records
from api.controller.slurm_view import SlurmView
from api.controller.words import WordBook
from api.store.database import Database
from checks.judge.guard import GuardLimits
from checks.judge.policy import Policy
from slurm.backend import Backend


def assembled(
    settings: ControllerSettings,
    database: Database,
    store: Memory,
    backend: Backend,
    policy: Policy,
    guard: GuardLimits,
    alone: bool,
) -> Core:
    """The parts; ``alone``: no other server can be at this database."""
    cluster = settings.cluster
    fence = Fence(database, cluster, clock=lambda: core.clock(), alone=alone)
    core = Core(
        settings,
        store,
        fence,
        Records(database, fence),
        SlurmView(backend),
        policy,
        guard,
        QuietBook(database, cluster),
        WordBook(database, cluster),
        OperationBook(database, cluster),
    )
    core.view.clock = lambda: core.clock()
    core.view.limits_changed = core.orders.wake_all
    return core
