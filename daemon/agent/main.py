"""The agent's start: helpers are forked while the process is still clean, then the loop runs."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import resource
import signal
import sys
from collections.abc import Mapping
from pathlib import Path

from daemon.agent.agent import RESTART, Agent
from daemon.agent.nursery import Nursery
from daemon.agent.rescue import rescue
from daemon.config import Config, ConfigError, load_config
from daemon.lanes.wire import HostSpec
from daemon.lanes.zygote import Zygote

log = logging.getLogger(__name__)
DESCRIPTORS = 16384
HELPERS = {"outbox": "daemon.outbox.writer:serve", "uplink": "daemon.uplink.worker:serve"}
# What lanes call and what helpers need. It is imported before the fork: a page that nobody writes to is there once for
# all processes, while an import in a child also copies the pages that it touches.
PRELOAD = (
    "daemon.agent.ground",
    "daemon.agent.parts",
    "daemon.outbox.writer",
    "daemon.uplink.worker",
    "daemon.central",
    "encodings.ascii",
    "encodings.idna",
)


def run(config_path: Path | None = None) -> int:
    """Be the node's agent until told to leave; gives the exit status."""
    logging.basicConfig(level=logging.INFO, stream=sys.stderr, format="%(levelname)s %(name)s %(message)s")
    os.umask(0o077)
    # One that comes while we start waits until somebody listens; its default would end us.
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGHUP})
    config, error = configuration(config_path, os.environ)
    host = config.host
    spec = HostSpec(root=host.root, kmsg=host.kmsg, nvml_library=host.nvml_library, simulated=host.simulated)
    zygote = Zygote.start(spec, preload=PRELOAD, helpers=HELPERS)
    _more_descriptors()
    status = asyncio.run(_serve(config, zygote, error))
    if status == RESTART:
        log.warning("event=restarting")
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGHUP})
        os.execv(sys.executable, [sys.executable, *sys.orig_argv[1:]])
    return status


async def _serve(config: Config, zygote: Zygote, error: str) -> int:
    return await Agent(config, zygote, Nursery(zygote.helpers, zygote.pid), error).serve()


def configuration(path: Path | None, env: Mapping[str, str]) -> tuple[Config, str]:
    """The configuration, or what can be rescued of a broken one and why it is broken."""
    try:
        return load_config(path, env), ""
    except ConfigError as error:
        log.error("event=config_broken error=%r", str(error))
        return rescue(path, env), str(error)


def _more_descriptors() -> None:
    """Room for many hooks at once, as far as we are allowed."""
    with contextlib.suppress(OSError, ValueError):
        _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        most = DESCRIPTORS if hard == resource.RLIM_INFINITY else min(DESCRIPTORS, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))
