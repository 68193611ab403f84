"""``python -I -m daemon.agent [CONFIG]`` is the agent without the command line around it, which it need not carry."""

from __future__ import annotations

import sys
from pathlib import Path

from daemon.agent.main import run

if __name__ == "__main__":
    sys.exit(run(Path(sys.argv[1]) if len(sys.argv) > 1 else None))
