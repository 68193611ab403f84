"""The real agent, of which twelve periodic checks are required, so that a prolog has to ask all twelve when stale.

Of what is shipped three checks are required; which ones are is a declaration, and nothing else is changed here. With an
interval far below the second at which the schedule asks at most, they are stale for nearly all of each second.
Run as a file, as the agent is: `python -I benchmarks/due_agent.py nodevet.toml`.
"""

from __future__ import annotations

import dataclasses
import sys
from pathlib import Path

from checks.catalog import load
from daemon.agent.main import run

DUE = (
    "disk_space", "gpu_count", "gpu_driver", "gpu_ecc", "gpu_fabric", "gpu_health",
    "gpu_nvlink", "gpu_remap", "gpu_thermal", "ib_port", "kernel_xid", "services",
)  # fmt: skip
INTERVAL = 0.01


def main() -> int:
    """Declare them required and be the agent."""
    known = load()
    for name in DUE:
        known[name] = dataclasses.replace(known[name], required=True)
    return run(Path(sys.argv[1]))


if __name__ == "__main__":
    raise SystemExit(main())
