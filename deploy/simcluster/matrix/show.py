"""The matrix as tables: on a terminal, and as the page docs/matrix.md."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import date

from daemon.cli.output import table
from deploy.simcluster.matrix.rows import Fate, Outcome, Result, Row

HEAD = ("SCENARIO", "SLURM", "NODE", "REASON OF", "JOB", "SECONDS", "ALSO", "")
FATES = ("REFUSED JOB", "SETTINGS", "SLURM", "FATE", "SECONDS", "")


def show(result: Result) -> None:
    """Both tables, and what could not be played."""
    if result.rows:
        table(HEAD, [cells(row) for row in result.rows])
    if result.fates:
        table(FATES, [fate_cells(fate) for fate in result.fates])
    for release, why in result.impossible.items():
        table(("NOT PLAYED", "WHY"), [(release, why)])


def cells(row: Row) -> tuple[str, ...]:
    """One row for people: what was seen, and what was expected where that differs."""
    seen = row.observed
    verdict = "as expected" if row.passed else f"EXPECTED {words(row.expected)}. {row.trouble}"
    return (named(row), row.release, row.state, seen.owner, seen.job, f"{row.seconds:.1f}", seen.also, verdict)


def fate_cells(fate: Fate) -> tuple[str, ...]:
    """One fate for people."""
    verdict = "as expected" if fate.passed else f"EXPECTED {fate.expected}. {fate.trouble}"
    return fate.job, fate.settings, fate.release, fate.fate, seconds(fate), verdict


def named(row: Row) -> str:
    """The scenario with the settings that matter."""
    return f"{row.scenario} ({row.settings})" if row.settings else row.scenario


def seconds(fate: Fate) -> str:
    """When the job ran again."""
    if fate.released is not None:
        return f"{fate.released:.1f} after its release"
    return "-" if fate.to_start is None else f"{fate.to_start:.1f}"


def words(outcome: Outcome) -> str:
    """An outcome in words."""
    drained = "drained" if outcome.drained else "not drained"
    return ", ".join(filter(None, (drained, f"reason of {outcome.owner}", f"job {outcome.job}", outcome.also)))


TOP = """# The matrix

What happens to a node and its job, scenario by scenario, on real Slurm, agents, server and hooks over **simulated
hardware**. This page is made by `nodevet sim matrix --release all --markdown`; a run compares every row with the end
that it must have, and fails where one differs. Seconds count from the fault, or from the job's submission, until node
and job were as they must be, while many scenarios ran at once on two cores: upper bounds. A release that is not
installed is played in a Debian that has it, made once below `/var/tmp` and removed by `make clean`. On a machine that
is busy with other things the rows of refused jobs fail: a permit is waited for three seconds, then the job is admitted.
"""
COST = """## What a refused job costs

Measured on Slurm alone, with a Prolog that drains its node and exits 1 as nodevet's does; seconds from the refusal to
the start on other nodes, or from `scontrol release`. The lab shortens `cred_expire` as named and schedules every
second. By default it is 120 s; leave it at that, since it must cover loading the user's environment and the prologs.
"""


def page(result: Result, today: date) -> str:
    """docs/matrix.md: a row a scenario, a column a release."""
    took = ", ".join(f"{name} in {spent:.0f} s" for name, spent in sorted(result.seconds.items()))
    return "\n".join([TOP, f"Played {today:%Y-%m-%d}: {took}.", "", *_scenarios(result), COST, *_fates(result)])


def _scenarios(result: Result) -> Iterator[str]:
    releases = sorted(set(result.releases))
    keys = list(dict.fromkeys((row.part, named(row)) for row in result.rows))
    found = {(row.part, named(row), row.release): row for row in result.rows}
    for part in dict.fromkeys(part for part, _ in keys):
        yield f"## With the {part}"
        yield ""
        yield f"| scenario | drained, by | job | also | {' | '.join(f'{r}: state, s' for r in releases)} |"
        yield "|" + "---|" * (4 + len(releases))
        for key in (k for k in keys if k[0] == part):
            rows = [found.get((*key, r)) for r in releases]
            first = next(row for row in rows if row is not None)
            yield f"| {key[1]} | {_who(first)} | {first.expected.job} | {first.expected.also} | {_ends(rows)} |"
        yield ""


def _who(row: Row) -> str:
    return f"{'yes' if row.expected.drained else 'no'}, {row.expected.owner}"


def _ends(rows: Iterable[Row | None]) -> str:
    def end(row: Row | None) -> str:
        if row is None:
            return "not there"
        return f"{row.state} {row.seconds:.1f}" if row.passed else f"**{row.state} {words(row.observed)}**"

    return " | ".join(end(row) for row in rows)


def _fates(result: Result) -> Iterator[str]:
    releases = sorted(set(result.releases))
    keys = list(dict.fromkeys((f.job, f.settings) for f in result.fates))
    found = {(f.job, f.settings, f.release): f for f in result.fates}
    yield f"| refused job | settings | fate | {' | '.join(f'{r}: s' for r in releases)} |"
    yield "|" + "---|" * (3 + len(releases))
    for key in keys:
        fates = [found.get((*key, r)) for r in releases]
        first = next(fate for fate in fates if fate is not None)
        ends = ("not there" if f is None else seconds(f) if f.passed else f"**{f.fate}**" for f in fates)
        yield f"| {key[0]} | {key[1]} | {first.expected} | {' | '.join(ends)} |"
