"""The installer compiles the hook with the release it has just made: ``build_hook.py DIRECTORY``."""

from __future__ import annotations

import sys
from pathlib import Path

from slurm.hook.build import BuildError, build

if __name__ == "__main__":
    try:
        build(Path(sys.argv[1]))
    except BuildError as error:
        sys.exit(f"install: {error}")
