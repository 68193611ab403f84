"""A page in somebody's browser cannot reach us under a name of its own (DNS rebinding)."""

from __future__ import annotations

from api.settings import ServerSettings

_LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1"})


def host_allowed(header: str, settings: ServerSettings) -> bool:
    """Whether the Host header names us; beyond loopback any name passes unless ``allowed_hosts`` lists them."""
    name = _name(header)
    if name in {h.lower() for h in settings.allowed_hosts} or name == settings.host.lower():
        return True
    if settings.loopback:
        return name in _LOOPBACK
    return not settings.allowed_hosts


def _name(header: str) -> str:
    header = header.strip().lower()
    if header.startswith("["):
        return header[1:].partition("]")[0]
    return header.partition(":")[0].rstrip(".")
