"""Called in a lane: everything the agent wants to know of its node's files, so that none of them can hang it."""

from __future__ import annotations

import os
import re
import time
from pathlib import Path

import msgspec

from checks import Host
from checks.profile import GENERIC, match_profile, profiles
from checks.wire import NodeFacts

LANE = "ground"
LOOK = "daemon.agent.ground:look"
STOPPED = "daemon.agent.ground:stopped"
MARKS = "daemon.agent.ground:take_marks"
MARKS_LIMIT = 256
_MARK = re.compile(r"(prolog|epilog|health|unkillable|taskprolog|unknown)\.([0-9]{1,20})\.([0-9]{1,20})\.([0-9]{1,10})")


class Ground(msgspec.Struct, frozen=True):
    """What a look at the ground gave."""

    facts: NodeFacts
    gres: str = ""
    troubles: tuple[str, ...] = ()


def look(host: Host, profile: str, profile_dir: str, gres_conf: str) -> object:
    """What identifies the node, its profile's name and the text of its gres.conf; troubles are told, not raised."""
    troubles: list[str] = []
    facts = NodeFacts(
        profile=_profile(host, profile, Path(profile_dir), troubles),
        boot_id=host.boot_id(),
        kernel=_line(host, "/proc/sys/kernel/osrelease"),
        driver=_driver(host),
        simulated=host.simulated,
    )
    try:
        # The simulated node's gres.conf lies where its Slurm has it, so this path is not redirected.
        gres = Path(gres_conf).read_text(encoding="utf-8", errors="replace")[: 1024 * 1024]
    except FileNotFoundError:
        gres = ""
    except OSError as error:
        gres = ""
        troubles.append(f"gres.conf: {error.strerror}")
    return msgspec.to_builtins(Ground(facts, gres, tuple(troubles)))


def _profile(host: Host, named: str, folder: Path, troubles: list[str]) -> str:
    try:
        known = profiles(folder)
        if named != "auto":
            return named if named in known else GENERIC.name
        return match_profile(host, known).name
    except (ValueError, OSError) as error:
        troubles.append(f"profile: {error}")
        return GENERIC.name


def _line(host: Host, path: str) -> str:
    try:
        return host.read(path).strip()[:200]
    except OSError:
        return ""


def _driver(host: Host) -> str:
    found = re.search(
        r"Kernel Module\s+(?:for\s+\S+\s+)?([0-9][0-9.]{1,20})", _line(host, "/proc/driver/nvidia/version")
    )
    return found.group(1) if found else ""


def stopped(host: Host, path: str) -> bool:
    """Whether an administrator has told Nodevet to keep its hands off."""
    return os.path.lexists(path)


def take_marks(host: Host, directory: str) -> list[dict[str, object]]:
    """Marks that hooks left when nobody answered them, each taken away once read."""
    found: list[dict[str, object]] = []
    try:
        names = sorted(os.listdir(directory))
    except OSError:
        return found
    for name in names[: 2 * MARKS_LIMIT]:
        match = _MARK.fullmatch(name)
        if match is None or len(found) >= MARKS_LIMIT:
            continue
        at, cause = _mark(Path(directory, name))
        found.append({"hook": match[1], "job": match[2], "restart": match[3], "at": at, "cause": cause})
        try:
            os.unlink(Path(directory, name))
        except OSError:
            continue
    return found


def _mark(path: Path) -> tuple[int, str]:
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return 0, "unreadable"
    with os.fdopen(fd, "rb") as file:
        words = file.read(64).decode("ascii", "replace").split()
    at = int(words[0]) if words and words[0].isdigit() and len(words[0]) < 12 else int(time.time())
    cause = words[1] if len(words) > 1 and re.fullmatch(r"[a-z_]{1,20}", words[1]) else "unknown"
    return at, cause
