"""`nodevet firmware` shows which nodes differ, and where no version is most nodes' own."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import ClassVar

import pytest

from tests.daemon.cli.door import Answering, run, serving

ABOUT = {"cluster": "c", "profile": "hgx-h100", "model": ""}
ROWS = [
    {**ABOUT, "kind": "gpu", "model": "H100", "nodes": 9, "usual": "96.99", "versions": {"96.99": 9, "96.74": 1},
     "odd": [{"node": "n7", "slot": "0000:19:00.0", "version": "96.74"}]},
    {**ABOUT, "kind": "kernel", "nodes": 4, "usual": None, "versions": {"6.8": 2, "6.5": 2}, "odd": []},
    {**ABOUT, "kind": "driver", "nodes": 9, "usual": "580.1", "versions": {"580.1": 9}, "odd": []},
]  # fmt: skip


class Door(Answering):
    """A service that has compared."""

    asked: ClassVar[list[str]] = []

    def do_GET(self) -> None:
        Door.asked.append(self.path)
        self.say({"items": ROWS})


@pytest.fixture
def url() -> Iterator[str]:
    with serving(Door) as where:
        yield where


def test_who_differs_and_what_is_divided_is_shown(url: str) -> None:
    code, text = run(url, "firmware")
    lines = [" ".join(line.split()) for line in text.splitlines()]
    assert code == 0
    assert lines[1:] == [
        "hgx-h100 gpu H100 n7 0000:19:00.0 96.74 96.99",
        "hgx-h100 kernel - 2 nodes 6.8 -",
        "hgx-h100 kernel - 2 nodes 6.5 -",
        "1 node differs from most of the profile",
    ]


def test_what_agrees_is_shown_when_asked_for(url: str) -> None:
    _, text = run(url, "firmware", "--all", "--kind", "driver", "--profile", "hgx-h100")
    assert "9 nodes" in text
    assert "no node differs from most" in text
    assert Door.asked[-1].endswith("profile=hgx-h100")


def test_the_document_is_that_of_the_service(url: str) -> None:
    code, text = run(url, "firmware", "--json", "--kind", "kernel")
    assert (code, json.loads(text)["items"]) == (0, [ROWS[1]])


def test_a_service_that_is_away_is_69() -> None:
    assert run("http://127.0.0.1:9", "firmware")[0] == 69
