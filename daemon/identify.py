"""Which profile a node has and what gres.conf promises of it are read in a lane, since both look at files."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from checks import Host
from checks.profile import match_profile, profiles
from slurm.gres import GresError, promised_gpus, promised_parts

LANE = "ground"
FUNCTION = "daemon.identify:look"
GRES_LIMIT = 1024 * 1024
T = TypeVar("T")


def look(host: Host, profile_dir: str, gres_conf: str, node: str) -> dict[str, object]:
    """The name of the profile that fits, the number of GPUs in gres.conf (None: it names no files), and troubles.

    ``mig``: which of these GPUs are handed out whole and which in parts.
    """
    troubles: list[str] = []
    try:
        known = profiles(Path(profile_dir))
    except (ValueError, OSError) as error:
        troubles.append(f"site profiles: {error}")
        known = profiles(None)
    return {
        "profile": match_profile(host, known).name,
        "gres": _gres(promised_gpus, gres_conf, node, troubles),
        "mig": _gres(promised_parts, gres_conf, node, []) or (),
        "troubles": troubles,
    }


def _gres(question: Callable[[str, str], T], path: str, node: str, troubles: list[str]) -> T | None:
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return question(file.read(GRES_LIMIT), node)
    except FileNotFoundError:
        return None
    except (OSError, GresError) as error:
        troubles.append(f"gres.conf: {error}")
        return None
