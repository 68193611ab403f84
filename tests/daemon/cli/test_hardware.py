"""The reference figures are printed for people and programs, and an unknown model names the nearest."""

from __future__ import annotations

import json

from tests.daemon.cli.command import nodevet


def test_figures_are_printed() -> None:
    done = nodevet("hardware", config="")
    assert done.returncode == 0
    assert "h100-sxm" in done.stdout and "989 / 794.5" in done.stdout and "data sheets" in done.stdout
    for text in ("DGX A100", "12 x 200", "482.3", "ib_write_bw", "NDR 400", "nobody passes"):
        assert text in done.stdout


def test_one_model_as_a_document() -> None:
    found = json.loads(nodevet("hardware", "h200-sxm", "--json", config="").stdout)
    assert found["accelerator"]["h200-sxm"]["memory_gb"] == 141
    assert set(found["sources"]) >= {"peak", "reached", "allreduce", "network", "dcgm", "shapes", "floors"}
    assert {n["accelerator"] for n in found["node"].values()} == {"h200-sxm"}
    assert found["collective"]["h200-8-nvls"]["busbw_gb_s"] == 482.3
    assert "allreduce-h200-oci" in found["floor"] and "allreduce-h100-oci" not in found["floor"]


def test_an_unknown_model_names_the_nearest() -> None:
    done = nodevet("hardware", "h100-sxn", config="")
    assert done.returncode == 1 and "h100-sxm" in done.stderr
