"""Reference figures: what accelerators and networks do on paper, what was reached, and by what others judge."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import TYPE_CHECKING

import click

from daemon.cli.output import Refused, json_option, nearest, print_json, table

if TYPE_CHECKING:
    from checks.hardware import Accelerator, Tables


@click.command()
@click.argument("model", required=False)
@json_option
def hardware(model: str | None, as_json: bool) -> None:
    """Show reference figures of accelerators, nodes and networks, with their sources.

    They say what to hope for and judge nobody: a node is compared with itself and its like.

    \b
    Examples:
      nodevet hardware
      nodevet hardware h100-sxm --json
    """
    from checks.hardware import tables

    known = tables()
    if model is not None and model not in known.accelerator:
        raise Refused(_unknown(model, known.accelerator))
    chosen = known.accelerator if model is None else {model: known.accelerator[model]}
    mine = {name: _of(getattr(known, name), model) for name in ("node", "collective", "floor")}
    if as_json:
        head = {"version": known.version, "sources": known.sources, "network": known.network}
        print_json({**head, "accelerator": chosen, **mine})
        return
    _accelerators(chosen)
    _more(known, mine, model)
    click.echo("\nSources:")
    for name, source in known.sources.items():
        click.echo(f"  {name}: {source}")


def _unknown(model: str, known: Collection[str]) -> str:
    """A family's name is answered with its members, as people say H100 and mean any of them."""
    family = [name for name in known if name.startswith(model.lower())]
    return f"no accelerator {model!r}" + (f"; there are {', '.join(family)}" if family else nearest(model, known))


def _of(entries: dict[str, object], model: str | None) -> dict[str, object]:
    return {key: e for key, e in entries.items() if model is None or getattr(e, "accelerator", "") == model}


def _accelerators(chosen: dict[str, Accelerator]) -> None:
    rows = [
        (key, f"{a.memory_gb:g}", f"{a.bandwidth_tb_s:g}", f"{a.links} / {a.link_gb_s:g}" if a.links else "-",
         _rate(a, "bfloat16" if "bfloat16" in a.rates else "float16"), _rate(a, "float8"), _rate(a, "tf32"),
         ", ".join(f"{v:g} ({k})" for k, v in a.allreduce_gb_s.items()) or "-", _dcgm(a))
        for key, a in chosen.items()
    ]  # fmt: skip
    rates = ("BF16 PEAK / REACHED", "FP8 PEAK / REACHED", "TF32 PEAK")
    table(("MODEL", "GB", "TB/S", "LINKS / GB/S", *rates, "ALL-REDUCE GB/S", "DCGM W / GB/S"), rows)
    click.echo("TFLOPS are dense; '?' = no figure is known; (!) = that limit of DCGM cannot be meant, see --json.")


def _rate(found: Accelerator, kind: str) -> str:
    value = found.rates.get(kind)
    if value is None:
        return "-"
    peak, reached = (f"{v:g}" if v is not None else "?" for v in (value.peak, value.reached))
    return peak if kind == "tf32" else f"{peak} / {reached}"


def _dcgm(found: Accelerator) -> str:
    asked = found.dcgm
    if asked is None:
        return "-"
    return f"{asked.power_w:g} / {asked.bandwidth_mb_s / 1000:g}{' (!)' if asked.doubt else ''}"


def _more(known: Tables, mine: dict[str, dict[str, object]], model: str | None) -> None:
    if model is None:
        click.echo(f"\nnetwork, 4x links, Gb/s: {', '.join(f'{k} {v:g}' for k, v in known.network.items())}")
    for head, rows in _sections(known, mine):
        if rows:
            click.echo()
            table(head, rows)


def _sections(
    known: Tables, mine: dict[str, dict[str, object]]
) -> Iterator[tuple[tuple[str, ...], list[tuple[str, ...]]]]:
    nodes = [known.node[key] for key in mine["node"]]
    yield (
        ("NODE", "ACCELERATORS", "PORTS X GB/S", "SOURCE"),
        [
            (n.title, f"{n.count} x {n.accelerator}", f"{n.ports} x {n.port_gb_s:g}" if n.ports else "-", n.source)
            for n in nodes
        ],
    )
    reached = [known.collective[key] for key in mine["collective"]]
    yield (
        ("ALL-REDUCE REACHED", "GPUS", "NODES", "ALGORITHM", "GIB", "BUSBW GB/S", "SOURCE"),
        [
            (c.accelerator, str(c.gpus), str(c.nodes), c.algorithm, f"{c.gib:g}", f"{c.busbw_gb_s:g}", c.source)
            for c in reached
        ],
    )
    floors = [known.floor[key] for key in mine["floor"]]
    yield (
        ("OTHERS JUDGE BY", "ACCELERATOR", "NODES", "LIMIT", "SOURCE"),
        [
            (
                f.what,
                f.accelerator or "any",
                str(f.nodes),
                f"{f.value:g} {f.unit}{f' ({f.doubt})' if f.doubt else ''}",
                f.source,
            )
            for f in floors
        ],
    )
