"""`nodevet firmware` shows which nodes differ, and where no version is most nodes' own."""

from __future__ import annotations

import http.server
import json
import threading
from collections.abc import Iterator
from typing import ClassVar

import pytest
from click.testing import CliRunner

from daemon.cli.main import cli
from daemon.cli.verbs import register

ABOUT = {"cluster": "c", "profile": "hgx-h100", "model": ""}
ROWS = [
    {**ABOUT, "kind": "gpu", "model": "H100", "nodes": 9, "usual": "96.99", "versions": {"96.99": 9, "96.74": 1},
     "odd": [{"node": "n7", "slot": "0000:19:00.0", "version": "96.74"}]},
    {**ABOUT, "kind": "kernel", "nodes": 4, "usual": None, "versions": {"6.8": 2, "6.5": 2}, "odd": []},
    {**ABOUT, "kind": "driver", "nodes": 9, "usual": "580.1", "versions": {"580.1": 9}, "odd": []},
]  # fmt: skip


class Door(http.server.BaseHTTPRequestHandler):
    """A service that has compared."""

    asked: ClassVar[list[str]] = []

    def do_GET(self) -> None:
        Door.asked.append(self.path)
        data = json.dumps({"items": ROWS}).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *_: object) -> None:
        return None


@pytest.fixture
def url() -> Iterator[str]:
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Door)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_address[1]}"
    server.shutdown()
    server.server_close()


def run(url: str, *words: str) -> tuple[int, str]:
    register(cli)
    env = {"NODEVET_SERVER": url, "NODEVET_TOKEN": "t"}
    done = CliRunner().invoke(cli, ["firmware", *words], env=env)
    return done.exit_code, done.output


def test_who_differs_and_what_is_divided_is_shown(url: str) -> None:
    code, text = run(url)
    lines = [" ".join(line.split()) for line in text.splitlines()]
    assert code == 0
    assert lines[1:] == [
        "hgx-h100 gpu H100 n7 0000:19:00.0 96.74 96.99",
        "hgx-h100 kernel - 2 nodes 6.8 -",
        "hgx-h100 kernel - 2 nodes 6.5 -",
        "1 node differs from most of the profile",
    ]


def test_what_agrees_is_shown_when_asked_for(url: str) -> None:
    _, text = run(url, "--all", "--kind", "driver", "--profile", "hgx-h100")
    assert "9 nodes" in text
    assert "no node differs from most" in text
    assert Door.asked[-1].endswith("profile=hgx-h100")


def test_the_document_is_that_of_the_service(url: str) -> None:
    code, text = run(url, "--json", "--kind", "kernel")
    assert (code, json.loads(text)["items"]) == (0, [ROWS[1]])


def test_a_service_that_is_away_is_69() -> None:
    assert run("http://127.0.0.1:9")[0] == 69
