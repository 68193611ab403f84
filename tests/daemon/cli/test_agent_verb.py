"""`nodevet agent` becomes the agent, in the same process and without the command line in its memory."""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.daemon.cli.command import ROOT


@pytest.fixture
def base() -> Iterator[Path]:
    """A folder whose paths are short enough for sockets."""
    made = Path(tempfile.mkdtemp(prefix="nv-verb-", dir="/tmp"))
    yield made
    shutil.rmtree(made, ignore_errors=True)


def test_the_verb_gives_way_to_the_agent(base: Path) -> None:
    config = base / "nodevet.toml"
    (base / "root").mkdir()
    config.write_text(
        f'[agent]\ncluster = "lab"\nnode = "n1"\nsocket = "{base}/s"\nstate = "{base}/state"\nmarks = "{base}/marks"\n'
        f'[host]\nroot = "{base}/root"\nkmsg = ""\nsimulated = true\n'
    )
    config.chmod(0o600)
    argv = [sys.executable, "-m", "daemon", "--config", str(config), "agent"]
    with subprocess.Popen(argv, cwd=ROOT, stdin=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        try:
            deadline = time.monotonic() + 60
            while not (base / "s").exists():
                assert process.poll() is None and time.monotonic() < deadline, "no socket"
                time.sleep(0.05)
            words = Path(f"/proc/{process.pid}/cmdline").read_bytes().split(b"\0")
            assert words[-3:-1] == [b"daemon.agent", str(config).encode()]
            process.terminate()
            assert process.wait(30) == 0
        finally:
            process.kill()
