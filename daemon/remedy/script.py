"""A site's own executable is run on its node as root, by name, and only one that nobody but root could have written."""

from __future__ import annotations

from pathlib import Path

from checks import Host, clean
from checks.site.program import run_to_end
from checks.site.trust import NotTrusted, executable
from daemon.remedy.holders import jobs

BUSY = 2
"""The exit status with which an executable says "not now"; 0 is done, every other one failed."""


def run(host: Host, *, directory: str, name: str, document: str, limit: float) -> dict[str, object]:
    """Called in a lane: gives ``outcome``, ``text`` and, where it does not end, ``hung``."""
    if running := jobs(host):
        return {"outcome": "refused", "text": f"job {', '.join(running[:4])} is on this node"}
    try:
        path = executable(Path(directory), name)
        ended = run_to_end([str(path)], document=document.encode(), limit=limit)
    except FileNotFoundError as error:
        return {"outcome": "refused", "text": f"{error.filename or name}: no such file"}
    except (NotTrusted, OSError) as error:
        return {"outcome": "refused", "text": f"{name} is not run: {error}"}
    if ended.left:
        return {"outcome": "hung", "text": f"{name} ({ended.left}) does not end", "hung": ended.left}
    if ended.why:
        return {"outcome": "failed", "text": f"{name} did not end within {limit:g} s and was ended"}
    outcome = {0: "done", BUSY: "busy"}.get(ended.status or 0, "failed")
    return {"outcome": outcome, "text": f"{name} ended with {ended.status}: {clean(ended.output, 240) or 'no word'}"}
