"""A node's flags are read from JSON in whatever shape a release gives them."""

from __future__ import annotations

import json

import pytest

from slurm.nodes import nodes_from_json


@pytest.mark.parametrize(
    ("fields", "expected", "known"),
    [
        ({"state": "idle", "state_flags": ["DRAIN"]}, "IDLE+DRAIN", True),
        ({"state": "IDLE+DRAIN"}, "IDLE+DRAIN", True),
        ({"state": ["IDLE+DRAIN"]}, "IDLE+DRAIN", True),
        ({"state": "idle", "state_flags": "DRAIN"}, "IDLE+DRAIN", True),
        ({"state": "mixed", "state_flags": "DRAIN+COMPLETING"}, "MIXED+COMPLETING+DRAIN", True),
        ({"state": ["DOWN", "NOT_RESPONDING", "DRAIN"]}, "DOWN+DRAIN+NOT_RESPONDING", True),
        ({"state": None, "state_flags": ["DRAIN"]}, "UNKNOWN+DRAIN", False),
        ({"state": [], "state_flags": ["DRAIN"]}, "UNKNOWN+DRAIN", False),
        ({"state_flags": ["DRAIN"]}, "UNKNOWN+DRAIN", False),
        ({"state": ["INVALID", "DRAIN"]}, "UNKNOWN+DRAIN", False),
        ({"state": {"base": "idle"}}, "UNKNOWN", False),
    ],
)
def test_a_flag_counts_in_whatever_shape_json_gives_it(fields: dict[str, object], expected: str, known: bool) -> None:
    """E86, E90: text in one release, a list in the next; a drain must not get lost, nor make a base out of nothing."""
    state = nodes_from_json(json.dumps({"nodes": [{"name": "n1", **fields}]}).encode())["n1"]
    assert (str(state), state.known) == (expected, known)
    assert state.drained is (known and state.base in {"IDLE", "DOWN"} and "DRAIN" in state.flags)
