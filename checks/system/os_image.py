"""The node runs the image that its fleet runs."""

from __future__ import annotations

import re
from collections.abc import Iterator
from fnmatch import fnmatchcase

from checks.declare import Skip, check, code, ok
from checks.host import Host
from checks.wire import Finding

WRONG = code(
    "os_image_wrong",
    "warn",
    "config",
    "{name} is {value}, expected {expected}",
    explain="The node booted another image, or an update reached a part of the fleet. Confirm: `cat /etc/os-release`. "
    "Do: install or boot the image of its fleet.",
)
_FILES = ("/etc/os-release", "/usr/lib/os-release")
_LINE = re.compile(r"""^([A-Z][A-Z0-9_]{0,63})=(?:"([^"]*)"|'([^']*)'|(\S*))\s*$""", re.MULTILINE)
_SHOWN = 100


@check(lane="system", interval=600, timeout=2.0, codes=(WRONG,))
def os_image(host: Host, *, release: tuple[str, ...] = (), files: tuple[str, ...] = ()) -> Iterator[Finding]:
    """Lines of os-release as ``release`` names them, and the first line of a site's ``files``.

    ``release`` is like ``VERSION_ID=22.04`` or ``IMAGE_VERSION=2026.11.*``, ``files`` like
    ``/etc/image-version=gpu-7*``; ``*`` stands for anything. Nothing is expected unless it is named.
    Confirm by hand: ``cat /etc/os-release``.
    """
    if not release and not files:
        raise Skip("no image is named")
    known = _release(host) if release else {}
    wrong = False
    for text in (*release, *files):
        name, _, expected = (part.strip() for part in text.partition("="))
        if not name or not expected:
            raise ValueError(f"no expectation: {text!r}, expected name=value")
        value = _first(host, name) if text in files else known.get(name, "absent")
        if not fnmatchcase(value, expected):
            wrong = True
            yield WRONG(name, name=name, value=value[:_SHOWN], expected=expected)
    if not wrong:
        yield ok("node", known.get("PRETTY_NAME", "as expected")[:_SHOWN])


def _release(host: Host) -> dict[str, str]:
    for path in _FILES:
        try:
            text = host.read(path)
        except FileNotFoundError:
            continue
        return {m[1]: next((v for v in m.groups()[1:] if v is not None), "") for m in _LINE.finditer(text)}
    raise ValueError("no os-release on this node")


def _first(host: Host, path: str) -> str:
    """The first line of a small file, ``absent`` without one."""
    try:
        return host.read_bytes(path, 1024).decode("utf-8", "replace").partition("\n")[0].strip()
    except FileNotFoundError:
        return "absent"
