"""A stand-in for slurmrestd: a real HTTP server whose answers are recorded ones with the present state written in.

It replaces slurmrestd and slurmctld, not the code under test, and judges every write as the commands' stand-in does.
"""

from __future__ import annotations

import json
import re
import socketserver
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from slurm.run import Ended
from tests.slurm.fake import NOW, FakeJob, FakeSlurm
from tests.slurm.recorded import raw

VERSIONS = {
    "22.05": ("v0.0.38",),
    "24.11": ("v0.0.40", "v0.0.41", "v0.0.42"),
    "26.05": ("v0.0.42", "v0.0.43", "v0.0.44", "v0.0.45"),
}
TOKEN = "eyJhbGciOiJIUzI1NiJ9.eyJzdW4iOiJyb290In0.c2lnbmF0dXJl"
Reply = tuple[int, Any]  # a text is sent as text, everything else as JSON

NUMBERS = {
    "Invalid node name specified": 2018,
    "Invalid node state specified": 2028,
    "Invalid node state transition": 2180,
    "Invalid job id specified": 2017,
    "Requested reservation is invalid": 2051,
    "Duplicate reservation name": 2054,
    "Job is pending execution": 2024,
    "Invalid user id": 2010,
}


@dataclass
class FakeRest:
    """One slurmrestd of one release; ``offers`` are the API versions it was started with."""

    slurm: FakeSlurm
    offers: tuple[str, ...]
    asked: list[str] = field(default_factory=list)
    refuse: Callable[[str, str], Reply | None] = lambda method, path: None

    @property
    def release(self) -> str:
        return self.slurm.release

    def answer(self, method: str, path: str, headers: dict[str, str], body: bytes) -> Reply:
        """Answer one request."""
        self.asked.append(f"{method} {path}")
        if (refusal := self.refuse(method, path)) is not None:
            return refusal
        match = re.fullmatch(r"/slurm/(v0\.0\.\d+)/(\w+)(?:/([^/]+))?(?:/(\w+))?", path)
        if match is None or match[1] not in self.offers:
            return 404, "Unable find requested URL. Please view /openapi/v3 for API reference."
        if not {"x-slurm-user-token", "x-slurm-user-name"} <= headers.keys():
            return 401, "Authentication failure"
        version, *words = match.groups()
        if headers["x-slurm-user-token"] != TOKEN:
            return self._unauthentic(version)
        return self._judged(method, version, [word for word in words if word], body)

    def _judged(self, method: str, version: str, words: list[str], body: bytes) -> Reply:
        match method, words:
            case "GET", ["ping" | "conf" as what] if what == "ping" or version == "v0.0.45":
                reply = 200, self._told(version, what)
            case "GET", ["nodes"]:
                reply = 200, self._nodes(version, list(self.slurm.nodes))
            case "GET", ["node", name] if name not in self.slurm.nodes:
                reply = 500 if version == "v0.0.38" else 200, self._told(version, "unknown-node")
            case "GET", ["node", name]:
                reply = 200, self._nodes(version, [name])
            case "POST", ["node", name] if version != "v0.0.38":
                reply = self._update(version, name, json.loads(body))
            case "GET", ["job", job]:
                reply = self._job(version, int(job))
            case ("POST", ["job", _] | ["job", "submit"]) | ("DELETE", ["job", _]):
                reply = self._change_job(method, version, words[1], json.loads(body) if body else {})
            case "GET", ["reservations"]:
                reply = 200, self._reservations(version)
            case ("POST", ["reservation"]) | ("DELETE", ["reservation", _]) if version >= "v0.0.43":
                reply = self._change_reservation(version, words[1:], json.loads(body) if body else {})
            case "GET", ["job", job, "requeue"] if version == "v0.0.45":
                reply = self._ended(version, self._run("scontrol", "requeue", job), f"Requeue JobID={job} failed")
            case "POST", ["node", _]:
                reply = 405, "Requested REST method is not defined at URL. Please view /openapi/v3 for API reference."
            case _:
                reply = 404, "Unable find requested URL. Please view /openapi/v3 for API reference."
        return reply

    def _unauthentic(self, version: str) -> Reply:
        if version == "v0.0.38":
            return 500, {"errors": [{"error": "Unspecified error", "errno": -1}], "nodes": []}
        return 511, self._complaint(version, "Failure to query node n1", 1007, "Protocol authentication error")

    def _told(self, version: str, name: str) -> Any:
        return json.loads(raw(self.release, f"rest/{version}-{name}.json"))

    def _complaint(self, version: str, about: str, number: int, words: str) -> Any:
        told = self._told(version, "update-user")
        told["errors"] = [{"description": about, "error_number": number, "error": words, "source": "_update_node"}]
        return told

    def _nodes(self, version: str, names: list[str]) -> Any:
        answer = self._told(version, "node")
        answer["nodes"] = [self._node(version, answer["nodes"][0], name) for name in names]
        return answer

    def _node(self, version: str, plain: dict[str, Any], name: str) -> dict[str, Any]:
        node = self.slurm.nodes[name]
        at = int(NOW.timestamp()) if node.reason else 0
        item = {
            **plain,
            "name": name,
            "comment": node.comment,
            "extra": node.extra,
            "reason": node.reason,
            "reason_set_by_user": node.user if node.reason else "",
        }
        if version == "v0.0.38":
            item.update(state=node.base.lower(), state_flags=node.flags, reason_changed_at=at)
        else:
            item.update(state=[node.base, *node.flags])
            item.update(reason_changed_at={"set": True, "infinite": False, "number": at})
        return item

    def _update(self, version: str, name: str, wish: dict[str, Any]) -> Reply:
        settings = [f"state={word.lower()}" for word in wish.get("state", [])]
        settings += [f"{key}={wish[key]}" for key in ("reason", "comment", "extra") if key in wish]
        ended = self._run("scontrol", "update", f"nodename={name}", *settings)
        return self._ended(version, ended, f"Failure to update node {name}")

    def _run(self, *argv: str) -> Ended:
        step = " ".join(argv[:2])
        return self.slurm.run(argv, env={}, timeout=1.0, step=step)

    def _ended(self, version: str, ended: Ended, about: str) -> Reply:
        if ended.code == 0:
            return 200, self._told(version, "update-drain")
        words = next(words for words in NUMBERS if words in ended.err.decode())
        status = 404 if words.startswith("Invalid job id") else 500 if self.release == "24.11" else 422
        return status, self._complaint(version, about, NUMBERS[words], words)

    def _job(self, version: str, job_id: int) -> Reply:
        job = self.slurm.jobs.get(job_id)
        if job is None:
            told = self._told(version, "job")
            told["jobs"] = []
            words = {"error_number": 2017, "error": "Invalid job id specified"}
            told["errors"] = [{"description": f"Unable to query JobId={job_id}", **words, "source": "_handle_job_get"}]
            return 500 if version == "v0.0.38" else 404, told
        answer = self._told(version, "job")
        answer["jobs"] = [self._job_item(version, answer["jobs"][0], job_id, job)]
        return 200, answer

    def _change_job(self, method: str, version: str, which: str, wish: dict[str, Any]) -> Reply:
        if method == "DELETE":
            return self._ended(version, self._run("scancel", which), f"Unable to kill job {which}")
        if which != "submit":
            ended = self._run("scontrol", "update", f"jobid={which}", f"admincomment={wish['admin_comment']}")
            return self._ended(version, ended, f"Unable to update JobId={which}")
        job = wish["job"]
        assert job["environment"] and wish["script"].startswith("#!/bin/sh\n")
        words = [f"--nodelist={','.join(job['required_nodes'])}", f"--reservation={job.get('reservation', '')}"]
        ended = self._run("sbatch", "--parsable", *words)
        status, told = self._ended(version, ended, "Batch job submission failed")
        if status == 200:
            told["job_id"] = int(ended.out)
        return status, told

    def _reservations(self, version: str) -> Any:
        at, told = int(NOW.timestamp()), self._told(version, "ping")
        told["reservations"] = [
            {
                "name": name,
                "node_list": wish["nodes"],
                "start_time": at if version == "v0.0.38" else {"set": True, "infinite": False, "number": at},
                "end_time": at + 600 if version == "v0.0.38" else {"set": True, "infinite": False, "number": at + 600},
                "flags": wish.get("flags", "").upper().split(","),
                "users": "root",
            }
            for name, wish in self.slurm.reservations.items()
        ]
        return told

    def _change_reservation(self, version: str, words: list[str], wish: dict[str, Any]) -> Reply:
        if words:
            ended = self._run("scontrol", "delete", f"reservationname={words[0]}")
            return self._ended(version, ended, "Failure to delete reservation")
        settings = [f"reservationname={wish['name']}", f"nodes={','.join(wish['node_list'])}"]
        settings += [f"flags={','.join(wish['flags'])}", f"duration={wish['duration']['number']}"]
        ended = self._run("scontrol", "create", "reservation", *settings)
        return self._ended(version, ended, "Failure to create reservation")

    def _job_item(self, version: str, plain: dict[str, Any], job_id: int, job: FakeJob) -> dict[str, Any]:
        item = {**plain, "job_id": job_id, "restart_cnt": job.restarts, "nodes": job.nodelist}
        item["admin_comment"] = job.note
        item["job_state"] = job.state if version == "v0.0.38" else [job.state]
        return item


class _Handler(BaseHTTPRequestHandler):
    """Sends what the stand-in answers, as slurmrestd does: with a length, then the connection is closed."""

    fake: FakeRest

    def do_GET(self) -> None:
        self._do()

    def do_POST(self) -> None:
        self._do()

    def do_DELETE(self) -> None:
        self._do()

    def _do(self) -> None:
        body = self.rfile.read(int(self.headers.get("content-length", "0")))
        headers = {name.lower(): value for name, value in self.headers.items()}
        status, told = self.fake.answer(self.command, self.path, headers, body)
        data = told.encode() if isinstance(told, str) else json.dumps(told).encode()
        self.send_response(status)
        self.send_header("Content-Type", "text/plain" if isinstance(told, str) else "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def address_string(self) -> str:
        return "client"

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing."""


class _TcpServer(ThreadingHTTPServer):
    def handle_error(self, request: object, client_address: object) -> None:
        """Say nothing of a client that refuses our certificate."""


class _UnixServer(socketserver.ThreadingMixIn, socketserver.UnixStreamServer):
    daemon_threads = True


@contextmanager
def serving(fake: FakeRest, socket: Path | None = None, tls: tuple[Path, Path] | None = None) -> Iterator[str]:
    """Run the stand-in and give the URL where it listens; ``tls`` is a certificate and its key."""
    handler = type("Handler", (_Handler,), {"fake": fake})
    server: socketserver.BaseServer
    if socket is None:
        server = tcp = _TcpServer(("127.0.0.1", 0), handler)
        url = f"{'https' if tls else 'http'}://127.0.0.1:{tcp.server_address[1]}"
        if tls is not None:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(*tls)
            tcp.socket = context.wrap_socket(tcp.socket, server_side=True)
    else:
        server, url = _UnixServer(str(socket), handler), f"unix:{socket}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    try:
        yield url
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
