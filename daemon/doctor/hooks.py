"""The hooks that Slurm runs here are looked at as files and asked what they go by, as slurmd would start them."""

from __future__ import annotations

import glob
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from checks import clean
from daemon import external
from daemon.cli.hook_proof import TRIAL_LIMIT, distrust
from slurm.doctor import KEYS, Advice, Program, Running, paths

DEADLINE = 8.0  # compiled into the hook
PROGRAMS_MOST = 64
MARKS_MOST = 256
_OURS = "nodevet"


@dataclass(frozen=True, slots=True)
class InForce:
    """What ``nodevet-prolog --check`` says it goes by, and what it complains of."""

    values: dict[str, str] = field(default_factory=dict)
    complaints: tuple[str, ...] = ()

    @property
    def deadline(self) -> float:
        """The hook's total deadline in seconds."""
        try:
            return float(self.values.get("deadline_s", ""))
        except ValueError:
            return DEADLINE


def programs(running: Running) -> dict[str, list[Program]]:
    """What each hook line of slurmd means on this machine, in the order of names."""
    ours = (key for key in KEYS if not key.endswith("Slurmctld"))
    return {key: [_program(Path(found)) for found in _expanded(running, key)] for key in ours}


def _expanded(running: Running, key: str) -> list[str]:
    found: list[str] = []
    for path in paths(running, key):
        # A value with arguments is judged by itself; a name without a directory is Slurm's own to find.
        if len(path.split()) == 1 and path.startswith("/"):
            found += sorted(glob.glob(path)) if re.search(r"[*?\[]", path) else [path]
    return found[:PROGRAMS_MOST]


def _program(path: Path) -> Program:
    try:
        real = path.resolve(strict=True)
    except (OSError, RuntimeError) as error:
        return Program(str(path), _OURS in path.name, getattr(error, "strerror", None) or str(error))
    ours, wrong = _OURS in path.name or _OURS in real.name, distrust(real)
    version = _version(path) if ours and not wrong else None
    return Program(str(path), ours, wrong, version)


def _version(path: Path) -> str:
    said = _said(path, "--version")
    match = re.fullmatch(r"nodevet hook (\S+)\s*", said)
    return match[1] if match else ""


def _said(path: Path, argument: str, node: str = "") -> str:
    try:
        return external.run(
            [str(path), argument], {"SLURMD_NODENAME": node} if node else {}, timeout=TRIAL_LIMIT
        ).output
    except OSError:
        return ""


def in_force(found: dict[str, list[Program]], node: str) -> InForce | None:
    """Ask the first of our trusted programs; None where there is none."""
    for program in (p for key in KEYS for p in found.get(key, ())):
        if program.ours and not program.wrong:
            return read_check(_said(Path(program.path), "--check", node))
    return None


def read_check(text: str) -> InForce:
    """Take apart what ``--check`` printed."""
    lines = [line.strip() for line in text.splitlines()]
    complaints = tuple(line.partition("nodevet hook: ")[2] for line in lines if line.startswith("nodevet hook: "))
    values = dict(line.partition("=")[::2] for line in lines if re.match(r"[a-z_]+=", line))
    return InForce(values, complaints)


def conf_rules(hook: InForce) -> Iterator[Advice]:
    """hook.conf's own complaints, the STOP file, and the way to the agent."""
    for complaint in hook.complaints:
        why = "the hook goes by something else than what was written"
        yield Advice("warning", "hook.conf", clean(complaint, 300), why, "nodevet-prolog --check")
    stop = hook.values.get("stop_file", "/etc/nodevet/STOP")
    if hook.values.get("stopped") == "yes":
        yield Advice(
            "problem", "STOP", f"{stop} is there", "every hook exits 0 at once: no job is vetted", f"rm {stop}"
        )
    if not hook.complaints:
        yield Advice("ok", "hook.conf", f"{hook.values.get('conf', 'defaults')}, deadline {hook.deadline:g} s")


def marks(directory: Path) -> dict[str, int] | None:
    """Calls that no agent has taken yet, by hook and cause; None where this user may not look."""
    try:
        found = sorted(directory.iterdir())[:MARKS_MOST]
    except FileNotFoundError:
        return {}
    except OSError:
        return None
    return dict(Counter(f"{path.name.partition('.')[0]} {_cause(path)}" for path in found))


def _cause(path: Path) -> str:
    try:
        with path.open("rb") as file:
            return clean(file.read(64).decode("ascii", "replace").partition(" ")[2], 32)
    except OSError:
        return "?"


def mark_rules(found: dict[str, int] | None) -> Sequence[Advice]:
    """Marks that lie there: hooks that could not ask, which nobody has reported yet."""
    if not found:
        return () if found is None else (Advice("ok", "marks", "no hook went unanswered since the last look"),)
    seen = ", ".join(f"{name} x{count}" for name, count in sorted(found.items())[:8])
    why = "jobs started without a verdict, and the agent has not collected the marks"
    return (Advice("warning", "marks", f"{sum(found.values())} unanswered hooks: {seen}", why, "nodevet status"),)
