"""What must hold of the hooks before Slurm runs them, each with what was seen."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from checks import clean
from daemon import external
from slurm.hook.build import NAMES, PROGRAMS

CONF_LIMIT = 4 * 1024 * 1024
TRIAL_LIMIT = 12.0
# What the hook says of a hook.conf that others could have written, or that it cannot read.
IGNORED = "defaults are used"
KEYS = {key.lower(): name for key, name in PROGRAMS.items()}
OPTIONAL = frozenset(KEYS) - {"prolog", "epilog", "healthcheckprogram"}
_LINE = re.compile(rf"^\s*({'|'.join(KEYS)})\s*=\s*(.*?)\s*$", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Proof:
    """One thing looked at: ``ok``, ``wrong``, or ``note`` for what is only worth knowing."""

    what: str
    result: Literal["ok", "wrong", "note"]
    seen: str


def prove(directory: Path, slurm_conf: Path, node: str, *, required: bool = False) -> list[Proof]:
    """Everything about the hooks in ``directory``; a slurm.conf that was named (``required``) must be readable."""
    files = [_program(directory / name) for name in NAMES]
    proofs = [*files, *_lines(slurm_conf, directory, required=required)]
    if all(p.result == "ok" for p in files):
        proofs += _trials(directory, node)
    return proofs


def _program(path: Path) -> Proof:
    trouble = distrust(path)
    return Proof(str(path), "wrong" if trouble else "ok", trouble or f"mode {stat.S_IMODE(path.lstat().st_mode):04o}")


def distrust(path: Path) -> str:
    """Why Slurm should not run the program at ``path`` as root, or cannot; empty when it may."""
    try:
        seen = path.lstat()
        if not stat.S_ISREG(seen.st_mode):
            return "not a regular file"
        if not seen.st_mode & stat.S_IXUSR:
            return f"mode {stat.S_IMODE(seen.st_mode):04o} is not executable"
        if why := _writable(seen):
            return why
        for parent in path.parents:
            above = parent.stat()
            if (why := _writable(above)) and not above.st_mode & stat.S_ISVTX:
                return f"directory {parent} {why}"
    except OSError as error:
        return error.strerror or str(error)
    return ""


def _writable(seen: os.stat_result) -> str:
    """Why somebody else could replace what Slurm runs as root, empty when nobody can."""
    if seen.st_uid not in (0, os.geteuid()):
        return f"belongs to uid {seen.st_uid}, expected root"
    if seen.st_mode & stat.S_IWOTH or (seen.st_mode & stat.S_IWGRP and seen.st_gid != 0):
        return f"is writable by others (mode {stat.S_IMODE(seen.st_mode):04o})"
    return ""


def _lines(conf: Path, directory: Path, *, required: bool) -> Iterator[Proof]:
    try:
        with conf.open("rb") as file:
            text = file.read(CONF_LIMIT).decode("utf-8", "replace")
    except OSError as error:
        yield Proof(str(conf), "wrong" if required else "note", f"not read: {error.strerror}")
        return
    found: dict[str, list[str]] = {}
    for line in text.replace("\\\n", " ").splitlines():
        if match := _LINE.match(line.partition("#")[0]):
            found.setdefault(match[1].lower(), []).append(match[2])
    if re.search(r"^\s*include\s", text, re.IGNORECASE | re.MULTILINE):
        yield Proof(f"{conf} include", "note", "included files are not followed, look at them with --slurm-conf")
    for key, name in KEYS.items():
        yield _line(conf, key, found.get(key, []), directory / name)


def _line(conf: Path, key: str, values: list[str], expected: Path) -> Proof:
    what = f"{conf} {key}"
    if not values and key in OPTIONAL:
        return Proof(what, "ok", "not set, optional")
    if not values:
        return Proof(what, "wrong" if key == "prolog" else "note", f"not set, expected {expected}")
    for value in values:
        program = value.split()[0] if value else ""
        if value != program and "nodevet" in value:
            cost = ": Slurm takes all of it as the path, the prolog fails and the node is drained" * (key == "prolog")
            return Proof(what, "wrong", f"{clean(value, 200)} has arguments{cost}")
    if str(expected) in values:
        return Proof(what, "ok", str(expected))
    if any("nodevet" in value for value in values):
        return Proof(what, "note", f"{clean(values[-1], 200)}, not the {expected} that was looked at")
    return Proof(what, "wrong" if key == "prolog" else "note", f"{clean(values[-1], 200)} does not run nodevet")


def _trials(directory: Path, node: str) -> Iterator[Proof]:
    """The environment of slurmd has no PATH and no HOME; ours has neither."""
    env = {"SLURMD_NODENAME": node} if node else {}
    yield _trial(directory / NAMES[0], "--check", env)
    yield _trial(directory / NAMES[2], None, env)


def _trial(program: Path, argument: str | None, env: dict[str, str]) -> Proof:
    argv = [str(program), *([argument] if argument else [])]
    what = " ".join(argv)
    try:
        done = external.run(argv, env, timeout=TRIAL_LIMIT)
    except OSError as error:
        return Proof(what, "wrong", f"does not start: {error.strerror}")
    if done.status is None:
        return Proof(what, "wrong", f"did not end within {TRIAL_LIMIT:g} s")
    seen = clean(done.output.replace("\n", "; ").strip("; ") or f"exit {done.status}", 600)
    return Proof(what, "wrong" if done.status != 0 or IGNORED in done.output else "ok", seen)
