"""Each hook line of the running Slurm names one whole path, and ours runs at its place among others."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from slurm.doctor.advice import Advice, Level
from slurm.doctor.limits import Running

# The setting, the end of our program's name, and what it costs when it is not there.
KEYS: dict[str, tuple[str, Level, str]] = {
    "Prolog": ("prolog", "problem", "no job is vetted before it starts"),
    "Epilog": ("epilog", "warning", "what a job left behind or broke is found only at the next interval"),
    "HealthCheckProgram": ("health", "ok", "optional: slurmd's own rhythm does not ask the agent"),
    "PrologSlurmctld": ("prologctld", "ok", "optional: arrays and het jobs are known by the ids of their tasks only"),
    "EpilogSlurmctld": ("epilogctld", "ok", "optional: how a job ended as a whole is not known"),
    "TaskProlog": ("taskprolog", "ok", "optional: users are not told when a job runs on a node with a fault"),
    "UnkillableStepProgram": ("unkillable", "ok", "optional: no evidence is kept when Slurm cannot kill a job"),
}
DIRECTORY = "/usr/libexec/nodevet"


@dataclass(frozen=True, slots=True)
class Program:
    """One program of a line as this machine has it; ``wrong`` says why it cannot be trusted or run.

    ``version`` is what a program of ours prints, None where it was not asked.
    """

    path: str
    ours: bool = False
    wrong: str = ""
    version: str | None = None


def paths(running: Running, key: str) -> list[str]:
    """The values of a hook setting; several stand in one answer with commas between."""
    return [part.strip() for part in running.value(key).split(",") if part.strip()]


def program_rules(running: Running, here: Mapping[str, Sequence[Program]] | None, version: str) -> Iterator[Advice]:
    """All advice about what Slurm runs. ``here`` holds, in the order of names, what each line means on this machine.

    None for ``here``: this machine runs no slurmd, and only the lines themselves are judged. ``version`` is the
    installed package's.
    """
    for key in KEYS:
        yield from _arguments(running, key)
    for key in KEYS:
        # Those two run where slurmctld does, which need not be here.
        if here is None or key.endswith("Slurmctld"):
            yield from _named(running, key)
        else:
            yield from _installed(running, key, here.get(key, ()), version)


def _arguments(running: Running, key: str) -> Iterator[Advice]:
    for path in paths(running, key):
        if len(path.split()) < 2:
            continue
        costs = {
            "Prolog": "Slurm takes all of it as the path: every prolog fails and drains its node",
            "Epilog": "Slurm takes all of it as the path: every epilog fails and drains its node",
            "PrologSlurmctld": "Slurm takes all of it as the path: every job is requeued, again and again",
        }
        why = costs.get(key, "Slurm takes all of it as the path, and nothing runs")
        yield Advice("problem", key, f"{key} {path[:200]} has arguments", why, f"{key}={path.split()[0]}")


def _named(running: Running, key: str) -> Iterator[Advice]:
    """Without the files a directory's contents are not known, so only an empty line is judged."""
    word, level, cost = KEYS[key]
    if not paths(running, key):
        yield Advice(level, key, f"{key} not set", cost, f"{key}={DIRECTORY}/nodevet-{word}")


def _installed(running: Running, key: str, programs: Sequence[Program], version: str) -> Iterator[Advice]:
    word, level, cost = KEYS[key]
    for program in programs:
        if program.wrong:
            why = "Slurm runs it as root" if key == "HealthCheckProgram" else f"a {word} that fails drains the node"
            yield Advice(
                "problem", key, f"{program.path} {program.wrong}", why, f"nodevet hook install; ls -l {program.path}"
            )
    ours = [program for program in programs if program.ours]
    if not ours:
        seen = running.value(key)
        if not any(program.wrong for program in programs):
            wrong = f"{key} {seen[:200]} does not run nodevet-{word}" if seen else f"{key} not set"
            yield Advice(level, key, wrong, cost, _joined(key, word) if seen else f"{key}={DIRECTORY}/nodevet-{word}")
        return
    for program in ours:
        yield from _stale(key, program, version)
    yield from _order(key, programs)


def _joined(key: str, word: str) -> str:
    """How ours comes to stand beside what a site runs already, which nobody may lose by our advice."""
    if key not in ("Prolog", "Epilog"):
        return f"have it run {DIRECTORY}/nodevet-{word} as well: its exit code and first line are what Slurm takes"
    number, folder = ("99", "prolog.d") if key == "Prolog" else ("00", "epilog.d")
    return (
        f"keep it: {key}=/etc/slurm/{folder}/* with links to it (50-site) and to {DIRECTORY}/nodevet-{word} "
        f"({number}-nodevet-{word})"
    )


def _stale(key: str, program: Program, version: str) -> Iterator[Advice]:
    if program.wrong or program.version is None:
        return
    if program.version != version:
        why = "an old hook and a new agent may not agree on what is asked"
        seen = f"{program.path} is version {program.version or 'unknown'}, the package {version}"
        yield Advice("warning", key, seen, why, "nodevet hook install")
    else:
        yield Advice("ok", key, f"{program.path} version {version}")


def _order(key: str, programs: Sequence[Program]) -> Iterator[Advice]:
    """Slurm runs a directory in reverse order of names and stops at the first that fails."""
    if key not in ("Prolog", "Epilog") or len(programs) < 2:
        return
    at = next(index for index, program in enumerate(programs) if program.ours)
    last = len(programs) - 1
    if key == "Prolog" and at != last:
        first = programs[last].path
        why = "programs run in reverse order of names: those before ours change a node that may be refused"
        yield Advice(
            "warning",
            key,
            f"{first} runs before {programs[at].path}",
            why,
            "name ours with the highest number: 99-nodevet-prolog",
        )
    if key == "Epilog" and at != 0:
        why = "programs run in reverse order of names: what those after ours clean up is reported as left behind"
        seen = f"{programs[0].path} runs after {programs[at].path}"
        yield Advice("warning", key, seen, why, "name ours with the lowest number: 00-nodevet-epilog")
