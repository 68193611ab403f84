"""dcgmi is asked one question at a time, never starts anything and is never killed."""

from __future__ import annotations

import re

from checks.declare import Skip, clean, code
from checks.host import Ended, Host

GRACE = 10.0
"""Seconds that a late dcgmi has to end by itself: a killed one has frozen GPUs."""
_FOLDERS = ("/usr/bin", "/usr/local/bin", "/opt/nvidia/dcgm/bin", "/usr/local/dcgm/bin")
_NO_ENGINE = re.compile(
    r"unable to (?:establish a connection|connect to host ?engine)|connection (?:is )?(?:not valid|invalid)"
    r"|host ?engine (?:is )?not running",
    re.IGNORECASE,
)

UNASKED = code(
    "dcgm_unasked",
    "unknown",
    "self",
    "DCGM could not be asked: {error}",
    explain="dcgmi, its host engine or its answer was not usable, or a diagnostic was running already. It says nothing "
    "about the node. Confirm: `dcgmi discovery -l`, `dcgmi --version` (command and engine must be of one version), "
    "`systemctl status nvidia-dcgm`. Do: mend DCGM, or leave its checks out.",
)


class Unusable(Exception):
    """DCGM gave no answer that can be judged; the text says why."""


class NoEngine(Unusable):
    """No host engine answers."""


def installed(host: Host, command: str) -> str:
    """The command to run; raises Skip where DCGM is not installed."""
    if host.redirected and host.glob(f"/nodevet-commands/{command.replace('/', '.')}_*"):
        found = True
    elif "/" in command:
        found = host.path(command).exists()
    else:
        found = any(host.path(f"{folder}/{command}").exists() for folder in _FOLDERS)
    if not found:
        raise Skip("DCGM is not installed")
    return command


def answer(host: Host, argv: list[str], timeout: float) -> Ended:
    """What dcgmi said; raises Unusable when it was late, could not be run or reached no engine."""
    try:
        ended = host.outcome(argv, timeout=timeout, grace=GRACE)
    except TimeoutError as error:
        raise Unusable(str(error)) from error
    except (OSError, ValueError) as error:
        raise Unusable(f"{argv[0]} could not be run: {error}") from error
    said = f"{ended.output[:4096]}\n{ended.error[:4096]}"
    if "{" not in ended.output:
        if _NO_ENGINE.search(said):
            raise NoEngine("no host engine answers")
        raise Unusable(f"{words(said) or 'no answer'} (exit {ended.status})")
    return ended


def words(text: str) -> str:
    """The first line that says something."""
    return clean(next((line for line in text.splitlines() if line.strip()), ""), 200)
