"""nodevet sim matrix: play every scenario on one release of Slurm or on all, and show how each ended."""

from __future__ import annotations

import sys
import time

import click

from daemon.cli.output import NotAllowed, Refused, Unreachable, json_option, print_json
from deploy.simcluster.matrix.rows import Result

NOT_PLAYED = (Refused, Unreachable, NotAllowed)

LABEL = "SIMULATED hardware: real Slurm, server and agents over generated hosts"


@click.command(short_help="Play every scenario on a release of Slurm, or on all.")
@click.option("--release", metavar="RELEASE", help="22.05, 24.11, 26.05 or all; without it the one installed here.")
@click.option("--only", multiple=True, metavar="WORD", help="Only scenarios and fates with this word; repeatable.")
@click.option("--markdown", is_flag=True, help="Print the page docs/matrix.md.")
@json_option
def matrix(release: str | None, only: tuple[str, ...], markdown: bool, as_json: bool) -> None:
    """Play every scenario on nodes of its own and show how it ended beside how it must end.

    It takes seven to eight minutes a release on two busy cores. A release that is not installed is played in a Debian
    that has it (root, mmdebstrap, from a checkout): made once below /var/tmp in about two minutes and 900 MB, kept for
    the next run, removed by `make clean`. What is different there is Slurm, Python and its packages; machine and
    kernel are this one's. Ends with 69 or 77 where that cannot be, or may not.

    \b
    Examples:
      nodevet sim matrix
      nodevet sim matrix --release 24.11 --only 'two nodes'
      nodevet sim matrix --release all --json | jq .passed
    """
    from datetime import date

    from deploy.simcluster.matrix.releases import wanted
    from deploy.simcluster.matrix.rows import joined
    from deploy.simcluster.matrix.show import page, show

    _say(LABEL)
    found: list[Result] = []
    missed: list[click.ClickException] = []
    impossible: dict[str, str] = {}
    for name in wanted(release):
        try:
            found.append(_one(name, only))
        except NOT_PLAYED as error:
            impossible[name] = error.message
            missed.append(error)
    result = joined(found, impossible)
    if as_json:
        print_json(result)
    elif markdown:
        click.echo(page(result, date.today()))
    else:
        show(result)
    if not all(each.passed for each in found):
        raise Refused("a scenario ended otherwise than it must")
    if missed:
        raise missed[0]


def _one(release: str, only: tuple[str, ...]) -> Result:
    """One release, here or in its Debian."""
    from deploy.simcluster.ending import end_on_term, undisturbed
    from deploy.simcluster.matrix import releases

    end_on_term()
    started = time.monotonic()
    try:
        if release != releases.installed():
            return releases.elsewhere(release, [word for one in only for word in ("--only", one)])
        releases.possible()
        return _played(release, only, started)
    except KeyboardInterrupt:
        undisturbed()
        raise


def _played(release: str, only: tuple[str, ...], started: float) -> Result:
    from deploy.simcluster.matrix.fates import CASES, measure, with_gate
    from deploy.simcluster.matrix.parts import chosen
    from deploy.simcluster.matrix.play import play

    parts = list(chosen(only, release))
    cases = [c for c in CASES if not only or any(word in f"fate {c.job} {c.named}" for word in only)]
    if not parts and not cases:
        raise Refused(f"no scenario has {' or '.join(only)} in its name")
    rows = play(parts, release, _say)
    fates = [*measure(release, _say, cases), *with_gate(rows, release)] if cases else []
    passed = all(r.passed for r in rows) and all(f.passed for f in fates)
    return Result(passed, [release], rows, fates, {release: round(time.monotonic() - started, 1)})


def _say(text: str) -> None:
    """Narration goes to standard error, so that --json stays one document."""
    print(text, file=sys.stderr, flush=True)  # noqa: T201 - click.echo would colour and buffer
