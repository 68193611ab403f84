"""Building gives one static binary under three names, and replaces an older one while it runs."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from slurm.hook.build import NAMES, BuildError, build
from tests.slurm.hook.agent import serving, silent
from tests.slurm.hook.rig import Hook


def test_three_names_of_one_static_binary(hook: Hook) -> None:
    assert sorted(path.name for path in hook.bin.iterdir()) == sorted(NAMES)
    first, *others = [hook.bin / name for name in NAMES]
    assert all(first.samefile(other) for other in others)
    assert first.stat().st_mode & 0o7777 == 0o755
    # PT_INTERP names the dynamic loader; a static program has none.
    headers = subprocess.run(["readelf", "-lW", str(first)], capture_output=True, text=True, check=True).stdout
    assert "LOAD" in headers
    assert "INTERP" not in headers


def test_replaces_a_running_hook(hook: Hook) -> None:
    hook.deadline = 20.0
    hook.configure()
    with serving(hook.socket, silent) as agent:
        process = hook.start()
        assert agent.asked.wait(10)
        before = (hook.bin / "nodevet-prolog").stat().st_ino
        build(hook.bin, conf=hook.conf)
        assert (hook.bin / "nodevet-prolog").stat().st_ino != before
        process.terminate()
        process.communicate(timeout=10)
    assert process.returncode == 0


def test_compiler_that_is_missing(tmp_path: Path) -> None:
    with pytest.raises(BuildError, match="compiler no-such-cc"):
        build(tmp_path, cc="no-such-cc")
    assert list(tmp_path.iterdir()) == []


def test_compiler_that_fails(tmp_path: Path) -> None:
    with pytest.raises(BuildError, match="exit 1"):
        build(tmp_path, cc="/bin/false")


@pytest.mark.parametrize("conf", ["hook.conf", '/x"y', "/x\ny", "/x\\y"])
def test_path_that_is_no_c_string(tmp_path: Path, conf: str) -> None:
    with pytest.raises(BuildError, match="absolute path"):
        build(tmp_path, conf=Path(conf))
