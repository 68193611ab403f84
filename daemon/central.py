"""The one small REST client of the central service, for the agent's uplink and the command line alike.

CentralError
 |- Unreachable   nobody answers, or not in time
 |- NotAllowed    the token is missing, unknown, expired or too weak
 |- Refused       the service understood and said no; `problem` is its RFC 9457 document
 `- BadAnswer     what came back is not an answer of this service

None of them says anything about a node.
"""

from __future__ import annotations

import ipaddress
import ssl
import time
import zlib
from collections.abc import Mapping
from typing import TypeVar
from urllib.parse import quote, urlencode, urlsplit

import msgspec

from checks.wire import (
    Batch,
    BatchAnswer,
    GateAnswer,
    GateRequest,
    PermitAnswer,
    PermitRequest,
    PollAnswer,
    PollRequest,
)
from daemon.uplink.connection import Connection, Garbled, NoAnswer

T = TypeVar("T")
_MARGIN = 0.5  # what the way there and back may cost beyond the service's own wait
_JSON = "application/json"


class CentralError(Exception):
    """The central service could not be asked or did not agree."""


class Unreachable(CentralError):
    """Nobody answers, or not in time."""


class NotAllowed(CentralError):
    """The service does not accept who we are, or what we may."""


class BadAnswer(CentralError):
    """What came back is not an answer of this service."""


class Problem(msgspec.Struct, frozen=True):
    """An RFC 9457 problem document; unknown members are ignored."""

    title: str = ""
    status: int = 0
    detail: str = ""
    type: str = "about:blank"


class Refused(CentralError):
    """The service understood the request and said no."""

    def __init__(self, problem: Problem) -> None:
        super().__init__(problem.detail or problem.title or f"status {problem.status}")
        self.problem = problem


class Central:
    """One connection at a time, kept alive; not for use by two threads at once."""

    def __init__(
        self,
        url: str,
        token: str = "",
        ca_file: str | None = None,
        timeout: float = 10.0,
        *,
        plain: bool = False,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        """``plain`` allows http beyond this machine, where the token can be read by others on the way.

        ``tls`` is a context made before, for who may no longer read the certificate file.
        """
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise Unreachable(f"address {url!r} is not http(s)://host[:port]")
        if parts.scheme == "http" and not plain and not _loopback(parts.hostname):
            raise NotAllowed(f"address {url} is not encrypted: use https beyond this machine")
        self.url, self.timeout = url.rstrip("/"), timeout
        context = (tls or tls_context(ca_file)) if parts.scheme == "https" else None
        self._prefix = parts.path.rstrip("/")
        self._headers = {"Accept": _JSON, "User-Agent": "nodevet"}
        if token:
            self._headers["Authorization"] = f"Bearer {token}"
        port = parts.port or (443 if parts.scheme == "https" else 80)
        self._connection = Connection(parts.hostname, port, context)

    def ingest(self, batch: Batch) -> BatchAnswer:
        """Hand in reports; repeat until acknowledged."""
        return self.ingest_raw(msgspec.json.encode(batch))

    def ingest_raw(self, body: bytes) -> BatchAnswer:
        """Hand in an encoded batch."""
        packed = zlib.compressobj(1, wbits=31)
        data = packed.compress(body) + packed.flush()
        return _decoded(self.send("POST", "/api/v1/ingest", data, packed="gzip"), BatchAnswer)

    def poll(self, request: PollRequest) -> PollAnswer:
        """Wait for orders, at most ``request.wait`` seconds; also the heartbeat."""
        data = self.send("POST", "/api/v1/poll", msgspec.json.encode(request), timeout=request.wait + self.timeout)
        return _decoded(data, PollAnswer)

    def permit(self, request: PermitRequest) -> PermitAnswer:
        """Ask for the right to refuse once."""
        data = self.send("POST", "/api/v1/permits", msgspec.json.encode(request), timeout=request.wait + _MARGIN)
        return _decoded(data, PermitAnswer)

    def gate(self, request: GateRequest) -> GateAnswer:
        """Tell a job's gate our answer; a holder waits for the others."""
        data = self.send("POST", "/api/v1/gate", msgspec.json.encode(request), timeout=request.wait + _MARGIN)
        return _decoded(data, GateAnswer)

    def get(self, path: str, answer: type[T], **query: str | int | bool | None) -> T:
        """GET below /api/v1; ``answer`` is the type that what comes back must have, ``object`` for any."""
        asked = {k: str(v).lower() if isinstance(v, bool) else v for k, v in query.items() if v is not None}
        tail = f"?{urlencode(asked)}" if asked else ""
        return _decoded(self.send("GET", _below(path) + tail), answer)

    def post(self, path: str, body: object, answer: type[T]) -> T:
        """POST a body (a wire struct or plain data, None for none) below /api/v1."""
        return self._change("POST", path, body, answer)

    def delete(self, path: str, answer: type[T]) -> T:
        """DELETE below /api/v1."""
        return self._change("DELETE", path, None, answer)

    def _change(self, method: str, path: str, body: object, answer: type[T]) -> T:
        # What is not repeatable goes over a fresh connection: on a kept one a loss could mean "done already".
        self.close()
        data = self.send(method, _below(path), b"" if body is None else msgspec.json.encode(body), repeat=False)
        return _decoded(data or b"null", answer)

    def send(
        self,
        method: str,
        target: str,
        body: bytes | None = None,
        *,
        packed: str = "",
        timeout: float | None = None,
        repeat: bool = True,
    ) -> bytes:
        """One exchange with a total deadline; raises one of the four errors."""
        deadline = time.monotonic() + (self.timeout if timeout is None else timeout)
        headers = {**self._headers, **({"Content-Type": _JSON} if body else {})}
        if packed:
            headers["Content-Encoding"] = packed
        kept = self._connection.kept
        try:
            return self._exchange(method, target, body, headers, deadline)
        except NoAnswer as error:
            # A server closes connections that were idle; once more on a fresh one.
            if not (kept and repeat):
                raise Unreachable(f"{self.url}: {error}") from error
        try:
            return self._exchange(method, target, body, headers, deadline)
        except NoAnswer as error:
            raise Unreachable(f"{self.url}: {error}") from error

    def _exchange(
        self, method: str, target: str, body: bytes | None, headers: Mapping[str, str], deadline: float
    ) -> bytes:
        try:
            status, data = self._connection.exchange(method, self._prefix + target, headers, body, deadline)
        except NoAnswer:
            raise
        except TimeoutError as error:
            raise Unreachable(f"{self.url}: no whole answer in time") from error
        except OSError as error:
            raise Unreachable(f"{self.url}: {error.strerror or error}") from error
        except (Garbled, ValueError) as error:
            raise BadAnswer(f"{self.url}: {str(error)[:200]}") from error
        return _judge(status, data, self.url)

    def close(self) -> None:
        """Drop the kept connection."""
        self._connection.close()


def part(text: str) -> str:
    """One path segment with everything special in it quoted."""
    return quote(text, safe="")


def _below(path: str) -> str:
    return "/api/v1/" + path.lstrip("/")


def _judge(status: int, data: bytes, url: str) -> bytes:
    if 200 <= status < 300:
        return data
    try:
        problem = msgspec.json.decode(data, type=Problem)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        problem = Problem(title=f"status {status}", status=status)
    if status in (401, 403):
        raise NotAllowed(f"{url}: {problem.detail or problem.title or status}")
    if 400 <= status < 500 and status not in (408, 429):
        raise Refused(msgspec.structs.replace(problem, status=status))
    raise Unreachable(f"{url}: status {status} {problem.detail or problem.title}".rstrip())


def _decoded(data: bytes, answer: type[T]) -> T:
    try:
        return msgspec.json.decode(data, type=answer)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise BadAnswer(f"answer is not what was asked for: {str(error)[:200]}") from error


def _loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def tls_context(ca_file: str | None = None) -> ssl.SSLContext:
    """Certificates and names are always proven; ``ca_file`` in the place of the system's authorities."""
    try:
        context = ssl.create_default_context(cafile=ca_file or None)
    except (OSError, ssl.SSLError) as error:
        raise Unreachable(f"certificates {ca_file}: {error}") from error
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    return context
