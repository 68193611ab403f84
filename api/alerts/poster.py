"""One POST: TLS proved, no redirect followed, no proxy asked, everything bounded; it says whether to try again."""

from __future__ import annotations

import hashlib
import hmac
import http.client
import os
import ssl
import stat
import time
from pathlib import Path
from urllib.parse import urlsplit

from api.alerts.settings import Target
from checks.wire import clean

ANSWER_LIMIT = 64 * 1024
SECRET_LIMIT = 4096
# Said by those who want the same again later.
_LATER = frozenset({408, 425, 429})


class NotSent(Exception):
    """It was not taken; ``again``: the same may be tried later."""

    def __init__(self, text: str, *, again: bool) -> None:
        super().__init__(text)
        self.again = again


class Poster:
    """Sends documents to one address; files with secrets are read anew each time, so that they can be replaced."""

    def __init__(self, target: Target, path: str = "") -> None:
        parts = urlsplit(target.url)
        self._target, self._https = target, parts.scheme == "https"
        self._host, self._port = parts.hostname or "", parts.port
        own = parts.path.rstrip("/") + path if path else (parts.path or "/")
        self._path = own + (f"?{parts.query}" if parts.query else "")

    def post(self, body: bytes, delivery: str = "") -> None:
        """Send one document, or raise NotSent."""
        headers = {"Content-Type": "application/json", "User-Agent": "nodevet", **self._proof(body)}
        if delivery:
            headers["X-Nodevet-Delivery"] = delivery
        connection = self._connection()
        try:
            connection.request("POST", self._path, body, headers)
            answer = connection.getresponse()
            text = answer.read(ANSWER_LIMIT)
        except (OSError, http.client.HTTPException, ValueError) as error:
            raise NotSent(clean(f"{self._host}: {type(error).__name__}: {error}", 300), again=True) from error
        finally:
            connection.close()
        if 200 <= answer.status < 300:
            return
        words = clean(f"{self._host} answered {answer.status}: {text[:200].decode('utf-8', 'replace')}", 300)
        raise NotSent(words, again=answer.status >= 500 or answer.status in _LATER)

    def _connection(self) -> http.client.HTTPConnection:
        timeout = self._target.timeout
        if not self._https:
            return http.client.HTTPConnection(self._host, self._port, timeout=timeout)
        try:
            context = ssl.create_default_context(cafile=self._target.ca_file or None)
        except (OSError, ssl.SSLError) as error:
            raise NotSent(f"ca_file {self._target.ca_file}: {error}", again=True) from error
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        return http.client.HTTPSConnection(self._host, self._port, timeout=timeout, context=context)

    def _proof(self, body: bytes) -> dict[str, str]:
        """The secret header, and the signature over time and body."""
        found = {}
        if self._target.header_file:
            found[self._target.header] = secret(self._target.header_file)
        if self._target.key_file:
            at = str(int(time.time()))
            key = secret(self._target.key_file).encode()
            signed = hmac.new(key, at.encode() + b"." + body, hashlib.sha256).hexdigest()
            found["X-Nodevet-Signature"] = f"t={at},v1={signed}"
        return found


def secret(path: str) -> str:
    """One line out of a file that others cannot read."""
    try:
        with Path(path).open("rb") as file:
            seen = os.fstat(file.fileno())
            if not stat.S_ISREG(seen.st_mode) or seen.st_mode & (stat.S_IROTH | stat.S_IWOTH):
                raise NotSent(f"{path}: others can read it; expected mode 0600 or 0640", again=True)
            text = file.read(SECRET_LIMIT).decode("ascii").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise NotSent(f"{path}: {error}", again=True) from error
    if not text or not text.isprintable():
        raise NotSent(f"{path}: expected one printable line", again=True)
    return text
