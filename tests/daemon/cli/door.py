"""A service that the command of the tests talks to: what it answers stands in the test, how it is reached here."""

from __future__ import annotations

import http.server
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from click.testing import CliRunner

from daemon.cli.main import cli
from daemon.cli.verbs import register


class Answering(http.server.BaseHTTPRequestHandler):
    """Says documents as JSON and nothing to the terminal."""

    def say(self, body: object) -> None:
        data = json.dumps(body).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *_: object) -> None:
        pass


@contextmanager
def serving(answering: type[Answering]) -> Iterator[str]:
    """Where it is reached, until the end of the test."""
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), answering)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()


def run(url: str, *arguments: str) -> tuple[int, str]:
    """Exit status and output of the command."""
    register(cli)
    env = {"NODEVET_SERVER": url, "NODEVET_TOKEN": "t"}
    done = CliRunner().invoke(cli, list(arguments), env=env)
    return done.exit_code, done.output
