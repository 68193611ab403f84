"""What ``nodevet check --json`` prints is what its published schema says."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from daemon.cli.check import exit_code
from deploy.docs import SCHEMA
from deploy.simcluster.host import SimHost
from tests.daemon.cli.command import document, nodevet, write_config


def _moment(value: object) -> bool:
    return not isinstance(value, str) or datetime.fromisoformat(value.replace("Z", "+00:00")).tzinfo is not None


@pytest.fixture(scope="module")
def proven() -> Callable[[object], None]:
    """Raises when a document is not as the schema says."""
    schema = json.loads(SCHEMA.read_text(encoding="utf-8"))
    jsonschema.Draft202012Validator.check_schema(schema)
    formats = jsonschema.FormatChecker(())

    formats.checks("date-time", ValueError)(_moment)
    return jsonschema.Draft202012Validator(schema, format_checker=formats).validate  # type: ignore[no-any-return]


def test_this_machine_is_described_by_the_schema(tmp_path: Path, proven: Callable[[object], None]) -> None:
    done = nodevet("check", "--json", config=write_config(tmp_path / "nodevet.toml"))
    report = document(done)
    proven(report)
    assert report["findings"] and done.returncode == exit_code({f["status"] for f in report["findings"]})


@pytest.mark.parametrize("fault", [None, "gpu_lost", "nvml_hang"])
def test_a_simulated_node_is_described_by_the_schema(
    tmp_path: Path, proven: Callable[[object], None], fault: str | None
) -> None:
    host = SimHost(tmp_path / "n1", "n1", cache=tmp_path.parent).create()
    try:
        if fault:
            host.inject(fault)
        text = (
            f'[host]\nroot = "{host.sysroot}"\nkmsg = "{host.kmsg}"\nnvml_library = "{host.nvml_library}"\n'
            "simulated = true\n"
        )
        report = document(nodevet("check", "--json", config=write_config(tmp_path / "nodevet.toml", text)))
    finally:
        host.heal()  # frees the worker that the hung driver holds
        host.close()
    proven(report)
    assert report["simulated"] is True and len(report["findings"]) > 8
    assert any(f["evidence"] for f in report["findings"])
    assert any(f["status"] in ("fail", "unknown") for f in report["findings"]) == bool(fault)


GOOD: dict[str, Any] = {
    "check": "c", "target": "t", "status": "ok", "code": "ok", "blame": None, "message": "", "evidence": {"a": 1.5},
    "observed_at": "2026-12-01T10:00:00Z", "since": None, "seen": 1,
}  # fmt: skip


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("status", "fine"),
        ("blame", "nobody"),
        ("evidence", {"a": [1]}),
        ("observed_at", "yesterday"),
        ("observed_at", "2026-12-01T10:00:00"),
        ("seen", "1"),
        ("target", ...),
        ("message", ...),
    ],
)
def test_another_document_is_not(proven: Callable[[object], None], key: str, value: object) -> None:
    top = {"cluster": "", "node": "", "verdict": "healthy", "profile": "generic", "simulated": False}
    proven({**top, "findings": [GOOD]})
    bad = {k: v for k, v in {**GOOD, key: value}.items() if v is not ...}
    with pytest.raises(jsonschema.ValidationError):
        proven({**top, "findings": [bad]})
