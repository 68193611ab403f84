"""The release that is installed is played here, any other in a Debian that has it, made once and kept."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import msgspec

import deploy
from daemon.cli.output import NOT_ALLOWED, UNREACHABLE, NotAllowed, Refused, Unreachable
from deploy.simcluster import processes
from deploy.simcluster.lab_ground import cannot_run
from deploy.simcluster.matrix.rows import Result

SUITES = {"22.05": "bookworm", "24.11": "trixie", "26.05": "forky"}
"""Debian's suite with each release; forky will have a later one some day, and that is then said."""
SCRIPT = Path(deploy.__file__ or "").resolve().parent / "setup/release.sh" if deploy.__file__ else Path()


def installed() -> str:
    """The release of the Slurm on this machine, empty without one."""
    with suppress(OSError, subprocess.SubprocessError):
        done = subprocess.run(
            ["slurmctld", "-V"], env={"PATH": processes.PATH}, capture_output=True, text=True, timeout=30, check=False
        )
        if found := re.search(r"(\d+\.\d+)\.", done.stdout):
            return found[1]
    return ""


def wanted(release: str | None) -> list[str]:
    """The releases that a ``--release`` asks for: the one here without it, every known one with ``all``."""
    here = installed()
    if release == "all":
        return sorted({*SUITES, here} - {""})
    return [release or here]


def elsewhere(release: str, arguments: Sequence[str]) -> Result:
    """Play a release in its Debian; what it says goes to standard error as it comes."""
    if release not in SUITES:
        raise Refused(f"no known Debian has slurm {release or '(none installed)'}; known: {', '.join(SUITES)}")
    suite = SUITES[release]
    if os.geteuid() != 0:
        raise NotAllowed(f"slurm {release} needs a Debian {suite}, which only root can make")
    if not SCRIPT.is_file():
        raise Unreachable(f"slurm {release} can only be played from a checkout: {SCRIPT} is missing")
    code, out = _run(["sh", str(SCRIPT), suite, "--json", *arguments])
    try:
        result = msgspec.json.decode(out, type=Result)
    except msgspec.MsgspecError as error:
        kind = {UNREACHABLE: Unreachable, NOT_ALLOWED: NotAllowed}.get(code, Refused)
        raise kind(f"slurm {release} could not be played in a Debian {suite} (see above)") from error
    if result.releases != [release]:
        raise Refused(f"Debian {suite} has slurm {', '.join(result.releases)} now, not {release}")
    return result


def _run(argv: Sequence[str]) -> tuple[int, bytes]:
    """Run it in a session of its own, and let nothing of it outlive us."""
    process = subprocess.Popen(
        argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=sys.stderr, start_new_session=True
    )
    try:
        out, _ = process.communicate()
        return process.returncode, out
    finally:
        if process.poll() is None:
            # The first process in there goes with its parent, and everything in there with it.
            os.killpg(process.pid, signal.SIGTERM)
            process.wait()


def possible() -> None:
    """Refuse where not even the installed release can be played."""
    if why := cannot_run():
        raise NotAllowed(why) if os.geteuid() else Refused(why)
