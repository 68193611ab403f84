"""Reference figures: what accelerators can do on paper and what has been reached with them."""

from __future__ import annotations

import click

from daemon.cli.output import Refused, json_option, nearest, print_json, table


@click.command()
@click.argument("model", required=False)
@json_option
def hardware(model: str | None, as_json: bool) -> None:
    """Show reference figures of accelerators and networks, with their sources.

    \b
    Examples:
      nodevet hardware
      nodevet hardware h100-sxm --json
    """
    from checks.hardware import Accelerator, tables

    known = tables()
    if model is not None and model not in known.accelerator:
        raise Refused(f"no accelerator {model!r}{nearest(model, known.accelerator)}")
    chosen = known.accelerator if model is None else {model: known.accelerator[model]}
    if as_json:
        print_json(
            {"version": known.version, "sources": known.sources, "network": known.network, "accelerator": chosen}
        )
        return

    def rate(found: Accelerator, kind: str) -> str:
        value = found.rates.get(kind)
        if value is None:
            return "-"
        peak, reached = (f"{v:g}" if v is not None else "?" for v in (value.peak, value.reached))
        return f"{peak} / {reached}"

    rows = [
        (key, f"{a.memory_gb:g}", f"{a.bandwidth_tb_s:g}", f"{a.links} / {a.link_gb_s:g}" if a.links else "-",
         rate(a, "bfloat16" if "bfloat16" in a.rates else "float16"), rate(a, "float8"),
         ", ".join(f"{v:g} ({k})" for k, v in a.allreduce_gb_s.items()) or "-")
        for key, a in chosen.items()
    ]  # fmt: skip
    table(("MODEL", "GB", "TB/S", "LINKS / GB/S", "BF16 PEAK / REACHED", "FP8 PEAK / REACHED", "ALL-REDUCE GB/S"), rows)
    click.echo("TFLOPS are dense; '?' = no figure is known. Sources:")
    for name, source in known.sources.items():
        click.echo(f"  {name}: {source}")
