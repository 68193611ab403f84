"""Runs the command as a process of its own, the way a shell, cron or an ordinary user does."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[3]
NOBODY = 65534


def nodevet(
    *arguments: str, config: Path | str = "/dev/null/none", user: int | None = None, env: dict[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    """Run ``python -m daemon``; the machine's own configuration never takes part."""
    path = os.environ.get("PATH", "/usr/bin:/bin")
    return subprocess.run(
        [sys.executable, "-m", "daemon", *(("--config", str(config)) if config else ()), *arguments],
        cwd=ROOT,
        env={"PATH": path, "PYTHONDONTWRITEBYTECODE": "1", **(env or {})},
        capture_output=True,
        text=True,
        timeout=400,
        check=False,
        user=user,
        group=user,
        extra_groups=[] if user is not None else None,
    )


def write_config(path: Path, text: str = "") -> Path:
    """A configuration file with a state directory of its own."""
    path.write_text(f'[agent]\nstate = "{path.parent}/state"\nsocket = "{path.parent}/agent.sock"\n{text}')
    path.chmod(0o644)
    return path


def document(done: subprocess.CompletedProcess[str]) -> Any:
    """The JSON document that was printed; what was said instead shows in the failure."""
    assert done.stdout, f"exit {done.returncode}: {done.stderr}"
    return json.loads(done.stdout)
