"""Each executable in checks.d is asked like a check of its own: its own lane, interval and time-out."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

from checks import Check
from checks.site.run import GRACE
from checks.site.trust import NotTrusted, Sidecar, candidates, sidecar

NAME = "site_executable"
# The worker has to say how a late executable was ended (TERM, KILL) before its own lane's patience ends.
_ENDING = 2 * GRACE + 1.0


def executables(
    declared: Check, options: Mapping[str, object], interval: float | None
) -> Iterator[tuple[str, dict[str, object], float, float]]:
    """Name, options, interval and time-out of each; ``interval`` is the site's for those without a sidecar's own.

    One that may not be run is asked all the same, and tells why not.
    """
    folder = Path(str(options.get("directory", declared.options["directory"].default)))
    for name in dict.fromkeys((*_given(options), *candidates(folder))):
        shown = name if name.isascii() and name.isprintable() else ascii(name)
        try:
            beside = sidecar(folder, name)
        except (NotTrusted, OSError, ValueError):
            beside = Sidecar()
        own = {**options, "names": (shown,), "limit": beside.timeout}
        yield shown, own, beside.interval or interval or declared.interval, beside.timeout + _ENDING


def _given(options: Mapping[str, object]) -> tuple[str, ...]:
    names = options.get("names", ())
    return tuple(str(n) for n in names) if isinstance(names, tuple | list) else ()
