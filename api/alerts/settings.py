"""Where alerts go, how they prove who sends them, and how often they are said again."""

from __future__ import annotations

import ipaddress
import re
from urllib.parse import urlsplit

import msgspec

_HEADER = re.compile(r"[A-Za-z][A-Za-z0-9-]{0,63}")


class Target(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """[alerts.alertmanager], [alerts.webhook]: an address of the site's choice; empty: nothing is sent.

    ``header``/``header_file``: a header whose value (a token) stands in a file. ``key_file``: the webhook's body is
    signed with the key in it. ``plain``: http is allowed beyond this machine. Times in seconds.
    """

    url: str = ""
    ca_file: str = ""
    header: str = "Authorization"
    header_file: str = ""
    key_file: str = ""
    plain: bool = False
    timeout: float = 10.0


class AlertSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """[alerts]: ``every``: how often incidents are looked at; ``resend``: how often Alertmanager hears an open one.

    ``give_up``: how long an event that the webhook does not take is tried. ``page``: the address that alerts name for
    people, such as that of this service behind a proxy.
    """

    every: float = 5.0
    resend: float = 60.0
    give_up: float = 86400.0
    page: str = ""
    alertmanager: Target = Target()
    webhook: Target = Target()

    @property
    def on(self) -> bool:
        """Whether anything is to be sent."""
        return bool(self.alertmanager.url or self.webhook.url)


def problem(settings: AlertSettings) -> str:
    """What cannot be meant, empty when all can."""
    for name, low, high in (("every", 0.1, 3600), ("resend", 1, 3600), ("give_up", 60, 30 * 86400)):
        if not low <= getattr(settings, name) <= high:
            return f"[alerts] {name} {getattr(settings, name):g} s, expected {low} to {high}"
    for name in ("alertmanager", "webhook"):
        if why := _wrong(getattr(settings, name)):
            return f"[alerts.{name}] {why}"
    return "[alerts.alertmanager] key_file: only the webhook is signed" if settings.alertmanager.key_file else ""


def _wrong(target: Target) -> str:
    if not target.url:
        return ""
    try:
        parts = urlsplit(target.url)
        port = parts.port
    except ValueError as error:
        return f"url: {error}"
    if parts.scheme not in ("http", "https") or not parts.hostname or port == 0:
        return "url is not http(s)://host[:port]/path"
    if parts.username is not None or parts.password is not None:
        return "url holds a password: put it into header_file"
    if parts.fragment or any(not c.isprintable() or c == " " for c in target.url):
        return "url holds blanks, control characters or a fragment"
    if parts.scheme == "http" and not target.plain and not _loopback(parts.hostname):
        return f"url {target.url} is not encrypted: use https, or say plain"
    if not _HEADER.fullmatch(target.header):
        return f"header {target.header[:40]!r} is no header's name"
    return "" if 0.5 <= target.timeout <= 60 else f"timeout {target.timeout:g} s, expected 0.5 to 60"


def _loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
