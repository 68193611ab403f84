"""Where slurmctld runs, what it knows of jobs reaches the central service through a directory that only they share."""

from __future__ import annotations

import grp
import pwd
import socket
import stat
from collections.abc import Iterator
from pathlib import Path

from slurm.doctor import Advice, Running

GROUP = "nodevet-server"
_KEYS = ("PrologSlurmctld", "EpilogSlurmctld")
_WHY = "which jobs began unvetted, and whose jobs fail where, is then not known"
_HOW = "install.sh --server, or: systemd-tmpfiles --create nodevet-jobs.conf"


def spool_rules(running: Running, folder: Path, host: str | None = None) -> Iterator[Advice]:
    """Nothing on a machine that is no slurmctld's, or where slurmctld's programs are not ours."""
    if not _is_slurmctld(running, host or socket.gethostname()):
        return
    ours = [key for key in _KEYS if "nodevet" in running.value(key)]
    if not ours:
        yield Advice("ok", "job spool", "PrologSlurmctld and EpilogSlurmctld are not ours: optional")
        return
    user = running.value("SlurmUser").partition("(")[0] or "root"
    if wrong := wrong_with(folder, user):
        yield Advice("problem", "job spool", f"{folder} {wrong}", _WHY, _HOW)
    elif len(ours) == 1:
        other = next(key for key in _KEYS if key not in ours)
        yield Advice("warning", "job spool", f"{other} is not ours, {ours[0]} is", "half of each job is not told")
    else:
        yield Advice("ok", "job spool", str(folder))


def wrong_with(folder: Path, user: str, group: str = GROUP) -> str:
    """Why slurmctld cannot write there, the service cannot take it away, or others could put words in."""
    try:
        seen = folder.lstat()
    except FileNotFoundError:
        return "is not there"
    except OSError as error:
        return f"cannot be looked at: {error.strerror}"
    if not stat.S_ISDIR(seen.st_mode):
        return "is no directory"
    if seen.st_mode & stat.S_IWOTH:
        return "is writable by others: nothing is written or read there"
    if seen.st_uid not in (0, _id(user)):
        return f"belongs to uid {seen.st_uid}, expected {user}"
    if seen.st_uid == 0 and user != "root":
        return f"belongs to root, and slurmctld, which runs as {user}, cannot write there"
    if seen.st_gid != _gid(group) or not seen.st_mode & stat.S_IWGRP:
        return f"is not writable by group {group}"
    return ""


def _is_slurmctld(running: Running, host: str) -> bool:
    named = (value.partition("(")[0] for key, value in running.settings.items() if key.startswith("SlurmctldHost"))
    return host.partition(".")[0] in {name.partition(".")[0] for name in named}


def _id(user: str) -> int:
    try:
        return pwd.getpwnam(user).pw_uid
    except KeyError:
        return -1


def _gid(group: str) -> int:
    try:
        return grp.getgrnam(group).gr_gid
    except KeyError:
        return -1
