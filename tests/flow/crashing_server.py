"""A central service that kills itself with SIGKILL at named steps, each once; everything else in it is the real one.

Run as ``crashing_server.py PLAN CONFIG``; PLAN is a JSON object, node -> step, from which each step is taken out when
it comes. A file of its own, since the service runs in a process of its own.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from api.controller.orders import Orders
from api.controller.records import Records
from daemon.cli.main import main as service
from slurm.commands import Commands


def main(plan: Path, config: str) -> None:
    """Patch, then be the service."""

    def reached(node: str, step: str) -> None:
        steps = json.loads(plan.read_text())
        if steps.get(node) == step:
            del steps[node]
            plan.write_text(json.dumps(steps))
            os.kill(os.getpid(), signal.SIGKILL)

    def around(kind: type, name: str, told: Callable[..., tuple[str, str]]) -> None:
        real = getattr(kind, name)

        def call(self: Any, *args: Any, **kwargs: Any) -> Any:
            node, step = told(*args, **kwargs)
            reached(node, f"before {step}")
            result = real(self, *args, **kwargs)
            reached(node, f"after {step}")
            return result

        setattr(kind, name, call)

    around(Records, "intend", lambda new, *_, **__: (new.node, "intent"))
    around(Records, "written", lambda record, *_, **__: (record.node, "record of the drain"))
    around(Records, "change", lambda record, *_, **values: (record.node, f"record {values.get('state', '')}"))
    around(Commands, "drain", lambda node, *_: (node, "drain"))
    around(Commands, "resume", lambda node, *_: (node, "resume"))
    around(Orders, "give", lambda _, node, order: (node, f"order {order.kind}"))
    sys.argv = ["nodevet", "server", "--config", config]
    service()


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])
