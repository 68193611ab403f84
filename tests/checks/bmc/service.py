"""A Redfish service over real TLS whose resources a test writes; what was asked of it is kept."""

from __future__ import annotations

import base64
import json
import ssl
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

DATA = Path(__file__).parents[2] / "api/data"
CERTIFICATE, KEY = DATA / "test-cert.pem", DATA / "test-key.pem"
USER, PASSWORD = "nodevet", "not a secret"
Resources = Mapping[str, object]
"""Path -> a document, raw bytes, or a status as a number; a redirect as ``-> address``."""


class Bmc(ThreadingHTTPServer):
    """Serves ``resources`` to whom gives the right password."""

    daemon_threads = True

    def __init__(self, resources: Resources) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.resources, self.asked = resources, list[str]()
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(CERTIFICATE, KEY)
        self.socket = context.wrap_socket(self.socket, server_side=True, do_handshake_on_connect=False)

    @property
    def url(self) -> str:
        return f"https://127.0.0.1:{self.server_port}"

    def handle_error(self, request: object, client_address: object) -> None:
        """A client that does not trust us hangs up."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    timeout = 20

    def do_GET(self) -> None:
        bmc = self.server
        assert isinstance(bmc, Bmc)
        bmc.asked.append(self.path)
        allowed = "Basic " + base64.b64encode(f"{USER}:{PASSWORD}".encode()).decode()
        found = bmc.resources.get(self.path, 404) if self.headers["Authorization"] == allowed else 401
        if isinstance(found, str):
            self._answer(302, b"", {"Location": found.removeprefix("-> ")})
        elif isinstance(found, int):
            self._answer(found, b"{}", {})
        else:
            self._answer(200, found if isinstance(found, bytes) else json.dumps(found).encode(), {})

    def _answer(self, status: int, body: bytes, headers: Mapping[str, str]) -> None:
        self.send_response(status)
        for name, value in {**headers, "Content-Length": str(len(body))}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing."""


@contextmanager
def serving(resources: Resources) -> Iterator[Bmc]:
    """Serve until the block ends."""
    with Bmc(resources) as bmc:
        thread = threading.Thread(target=bmc.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        try:
            yield bmc
        finally:
            bmc.shutdown()
            thread.join(20)


V1 = "/redfish/v1"


def links(*paths: str) -> dict[str, object]:
    """A collection of links."""
    return {"Members": [{"@odata.id": path} for path in paths]}


def part(name: str, health: str | None = "OK", state: str = "Enabled") -> dict[str, object]:
    """A power supply, fan or temperature."""
    return {"Name": name, "Status": {"State": state, "Health": health}}


def older(*supplies: dict[str, object], fans: tuple[dict[str, object], ...] = ()) -> dict[str, object]:
    """A node whose service has lists in Power and Thermal."""
    home = f"{V1}/Chassis/1"
    return {
        f"{V1}/Chassis": links(home),
        home: {"Id": "1", "Power": {"@odata.id": f"{home}/Power"}, "Thermal": {"@odata.id": f"{home}/Thermal"}},
        f"{home}/Power": {"PowerSupplies": list(supplies)},
        f"{home}/Thermal": {"Fans": list(fans), "Temperatures": [part("Inlet")]},
    }


def newer(*supplies: dict[str, object]) -> dict[str, object]:
    """A node whose service has collections in PowerSubsystem and ThermalSubsystem."""
    home = f"{V1}/Chassis/DGX"
    paths = [f"{home}/PS/{n}" for n in range(len(supplies))]
    return {
        f"{V1}/Chassis": links(home, f"{V1}/Chassis/gone"),
        home: {"Id": "DGX", "PowerSubsystem": {"@odata.id": f"{home}/Power"}},
        f"{home}/Power": {"PowerSupplies": {"@odata.id": f"{home}/PS"}},
        f"{home}/PS": links(*paths),
        **dict(zip(paths, supplies, strict=True)),
    }


def logged(*entries: tuple[str, str, str]) -> dict[str, object]:
    """A system with an event log of (time, severity, text)."""
    home = f"{V1}/Systems/1"
    rows = [{"Created": when, "Severity": severity, "Message": text} for when, severity, text in entries]
    return {
        f"{V1}/Systems": links(home),
        home: {"LogServices": {"@odata.id": f"{home}/LogServices"}},
        f"{home}/LogServices": links(f"{home}/LogServices/SEL", f"{home}/LogServices/Crashdump"),
        f"{home}/LogServices/SEL": {"Id": "SEL", "Entries": {"@odata.id": f"{home}/Entries"}},
        f"{home}/LogServices/Crashdump": {"Id": "Crashdump", "Entries": {"@odata.id": f"{home}/Dumps"}},
        f"{home}/Entries": {"Members": rows[:2], "Members@odata.nextLink": f"{home}/Entries?$skip=2"},
        f"{home}/Entries?$skip=2": {"Members": rows[2:]},
    }
