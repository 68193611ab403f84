"""This node's checks are asked here and now, in lanes, without agent, server or GPU."""

from __future__ import annotations

import time
from pathlib import Path

import click

from daemon.cli.output import Refused, Undecided, json_option, paint, print_json, table
from daemon.cli.settings import settings

ORDER = ("fail", "unknown", "warn", "ok", "skipped")
ONLY_FAIL = "nodevet.only_fail"
LEVEL = "nodevet.level"
LABEL = "etc/nodevet-simulated"


def exit_code(statuses: set[str]) -> int:
    """2 if any fail, else 3 if any unknown, else 1 if any warn, else 0."""
    return next((code for word, code in (("fail", 2), ("unknown", 3), ("warn", 1)) if word in statuses), 0)


def _only_fail(ctx: click.Context, _: click.Parameter, value: bool) -> None:
    ctx.meta[ONLY_FAIL] = value


def _level(ctx: click.Context, _: click.Parameter, value: int | None) -> None:
    ctx.meta[LEVEL] = value


@click.command()
@click.argument("ids", nargs=-1)
@click.option(
    "--cost",
    type=click.Choice(["passive", "active", "deep"]),
    help="passive (default): harmless beside a job; active: needs the devices; deep: minutes.",
)
@click.option(
    "--gpus", metavar="0,1", help="Device minors, as if a job were given these GPUs; asks the job's checks too."
)
@click.option("--level", type=click.IntRange(1, 4), expose_value=False, callback=_level,
              help="How deep a diagnostic goes, of a check that has levels.")  # fmt: skip
@click.option("--only-fail", is_flag=True, expose_value=False, callback=_only_fail,
              help="Exit with 0 unless something fails, as the job of a trial does.")  # fmt: skip
@json_option
@click.option("--sysroot", metavar="DIR", type=click.Path(exists=True, file_okay=False, path_type=Path),
              help="Look at a captured or simulated tree instead of this machine.")  # fmt: skip
@click.option(
    "--kmsg",
    metavar="FILE",
    type=click.Path(exists=True, path_type=Path),
    help="Kernel log to read: the device, or a kept one in any usual form, packed too.",
)
@click.option(
    "--profile", "wanted", metavar="NAME|FILE", help="What this node must have, instead of what fits its PCI ids."
)
@click.pass_context
def check(
    ctx: click.Context,
    ids: tuple[str, ...],
    cost: str | None,
    gpus: str | None,
    as_json: bool,
    sysroot: Path | None,
    kmsg: Path | None,
    wanted: str | None,
) -> int:
    """Ask this node's checks now and say whether it is fit.

    IDS are names of checks (mount) or of one part of a check (mount:/scratch); without any, all harmless ones.
    Exit: 2 if any fails, else 3 if any is unknown, else 1 if any warns, else 0.

    \b
    Examples:
      nodevet check
      nodevet check ib_port disk_space --json
      nodevet check dcgm_diag --level 3
      nodevet check --sysroot ./captured --profile hgx-h100
    """
    started = time.monotonic()
    try:
        from daemon.cli.asking import Asked, ask

        answer = ask(settings(ctx), Asked(ids, cost, _minors(gpus), sysroot, kmsg, wanted, ctx.meta.get(LEVEL)))
    except Refused as error:
        raise Undecided(error.message) from error
    except (click.ClickException, click.Abort):
        raise
    except Exception as error:
        # Whatever breaks in Nodevet, in a site's check too, is unknown to whoever reads the exit code: never a warning.
        raise Undecided(f"nodevet could not look: {type(error).__name__}: {error}") from error
    report = answer.report
    if as_json:
        print_json(report)
    else:
        _print(answer.where, answer.notes, time.monotonic() - started, report)
    statuses: set[str] = {f.status for f in report.findings}
    return exit_code(statuses & {"fail"} if ctx.meta.get(ONLY_FAIL) else statuses)


def _minors(text: str | None) -> tuple[int, ...] | None:
    try:
        return None if text is None else tuple(int(part) for part in text.split(",") if part.strip())
    except ValueError:
        raise click.BadParameter("expected device minors like 0,1", param_hint="--gpus") from None


def _print(where: str, notes: tuple[str, ...], seconds: float, report: object) -> None:
    from checks.wire import CheckReport

    assert isinstance(report, CheckReport)
    if where:
        click.echo(where)
    ranked = sorted(report.findings, key=lambda f: (ORDER.index(f.status), f.check, f.target))
    table(("STATUS", "CHECK", "TARGET", "MESSAGE"), [_row(f) for f in ranked], painted=0)
    counts = {word: sum(f.status == word for f in ranked) for word in ORDER}
    click.echo()
    click.echo(
        f"{paint(report.verdict)}: "
        + ", ".join(f"{count} {word}" for word, count in counts.items() if count)
        + f"; profile {report.profile}; {seconds:.1f} s"
    )
    if not any(f.status in ("ok", "warn", "fail", "unknown") for f in ranked):
        click.echo("no check applies here: this says little about the node")
    for note in notes:
        click.echo(note)
    codes = dict.fromkeys(f.code for f in ranked if f.status in ("fail", "unknown", "warn"))
    if codes:
        click.echo(f"what to do: nodevet explain {next(iter(codes))}")


def _row(finding: object) -> tuple[str, str, str, str]:
    from checks.wire import Finding

    assert isinstance(finding, Finding)
    message = finding.message
    if finding.status == "skipped" and not message.startswith("skipped"):
        message = f"skipped ({message})"
    elif finding.status not in ("ok", "skipped"):
        message = f"{message} [{finding.code}]"
    return finding.status, finding.check, finding.target, message
