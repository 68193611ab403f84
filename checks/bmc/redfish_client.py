"""A BMC's Redfish service is read over TLS within a deadline, and nobody but the configured one is spoken to."""

from __future__ import annotations

import json
import os
import stat
import sys
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from checks.host import Host

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib
if TYPE_CHECKING:
    import http.client
    import ssl

ROOT = "/redfish/v1"
ANSWER_LIMIT = 2 * 1024 * 1024
QUESTIONS_LIMIT = 150
_CREDENTIALS_LIMIT = 4096
_PIECE = 64 * 1024
_OK = 200
Document = dict[str, object]


class RedfishError(OSError):
    """The service did not give what was asked for; the text says why and holds no secret."""


@dataclass(frozen=True, slots=True)
class Service:
    """Where the service is and how its certificate is known: by ``cafile``, or by its SHA-256 ``fingerprint``."""

    url: str
    cafile: str = ""
    fingerprint: str = ""


def credentials(host: Host, path: str) -> tuple[str, str]:
    """User and password from a TOML file that nobody else can read; ValueError for any other."""
    descriptor = os.open(host.path(path), os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK)
    try:
        seen = os.fstat(descriptor)
        if not stat.S_ISREG(seen.st_mode) or seen.st_uid not in (0, os.geteuid()) or seen.st_mode & 0o077:
            raise ValueError(f"{path}: expected a file of root's with mode 600")
        text = os.read(descriptor, _CREDENTIALS_LIMIT).decode("utf-8", "strict")
    finally:
        os.close(descriptor)
    try:
        values = tomllib.loads(text)
    except tomllib.TOMLDecodeError:
        raise ValueError(f"{path}: no TOML") from None  # the parser's own words would repeat a line of the file
    user, password = values.get("user"), values.get("password")
    if not isinstance(user, str) or not isinstance(password, str) or ":" in user:
        raise ValueError(f"{path}: expected user and password, and no colon in user")
    return user, password


class Redfish:
    """One connection; all questions together take at most ``seconds``. Opening it speaks to nobody yet."""

    def __init__(self, service: Service, user: str, password: str, seconds: float) -> None:
        # Imported by whoever asks: every worker of every node has this module, few have a service to ask.
        import base64
        from urllib.parse import urlsplit

        parts = urlsplit(service.url)
        if parts.scheme != "https" or not parts.hostname or parts.username or parts.query:
            raise ValueError("url: expected https://host or https://host:port")
        self._service, self._where = service, (parts.hostname, parts.port or 443)
        self._secret = base64.b64encode(f"{user}:{password}".encode()).decode()
        self._until, self._asked = time.monotonic() + seconds, 0
        self._connection: http.client.HTTPSConnection | None = None

    def __enter__(self) -> Redfish:
        return self

    def __exit__(self, *exception: object) -> None:
        self._close()

    def get(self, path: str) -> Document:
        """One resource; a redirect, another host's address, too much or no JSON object is refused: RedfishError."""
        import http.client

        if not path.startswith(ROOT) or any(c <= " " or c == "\x7f" for c in path) or len(path) > 512:
            raise RedfishError(f"address {path[:80]!r} is not below {ROOT}")
        self._asked += 1
        if self._asked > QUESTIONS_LIMIT:
            raise RedfishError(f"more than {QUESTIONS_LIMIT} questions")
        try:
            status, body = self._ask(path)
        except (http.client.HTTPException, EOFError) as error:
            self._close()
            raise RedfishError(f"{path}: {type(error).__name__}") from None
        if status != _OK:
            raise RedfishError(f"{path}: status {status}, expected {_OK}")
        try:
            found = json.loads(body)
        except (ValueError, RecursionError):
            raise RedfishError(f"{path}: no JSON") from None
        if not isinstance(found, dict):
            raise RedfishError(f"{path}: no JSON object")
        return found

    def find(self, path: str) -> Document:
        """The same, and nothing where the service has nothing to give: links to what is not there are common."""
        try:
            return self.get(path)
        except RedfishError:
            return {}

    def _ask(self, path: str) -> tuple[int, bytes]:
        connection = self._connection or self._connect()
        if connection.sock is not None:
            connection.sock.settimeout(self._left())
        headers = {"Accept": "application/json", "Authorization": f"Basic {self._secret}", "OData-Version": "4.0"}
        connection.request("GET", path, headers=headers)
        with connection.getresponse() as answer:
            body = b""
            while len(body) <= ANSWER_LIMIT and (part := answer.read1(_PIECE)):
                body += part
                if connection.sock is not None:
                    connection.sock.settimeout(self._left())
            if len(body) > ANSWER_LIMIT:
                self._close()
                raise RedfishError(f"{path}: answer is longer than {ANSWER_LIMIT} bytes")
            if answer.will_close:
                self._close()
            return answer.status, body

    def _connect(self) -> http.client.HTTPSConnection:
        """Shake hands and know the certificate before any credential is sent."""
        import http.client

        connection = http.client.HTTPSConnection(*self._where, timeout=self._left(), context=self._context())
        try:
            connection.connect()
            if self._service.fingerprint:
                _same(connection.sock.getpeercert(binary_form=True), self._service.fingerprint)
        except BaseException:
            connection.close()
            raise
        self._connection = connection
        return connection

    def _context(self) -> ssl.SSLContext:
        import ssl

        context = ssl.create_default_context(cafile=self._service.cafile or None)
        if self._service.fingerprint:
            # A BMC signs its certificate itself: it is known by its fingerprint and by nothing else.
            context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        return context

    def _left(self) -> float:
        left = self._until - time.monotonic()
        if left <= 0:
            raise TimeoutError("no time left for an answer")
        return left

    def _close(self) -> None:
        if self._connection is not None:
            self._connection.close()
        self._connection = None


def _same(certificate: bytes | None, expected: str) -> None:
    import hashlib
    import hmac

    found = hashlib.sha256(certificate or b"").hexdigest()
    if not hmac.compare_digest(found, expected.replace(":", "").strip().lower()):
        raise RedfishError(f"certificate has fingerprint {found}, expected another")
