"""The Weka driver takes requests and its frontend process on this node is connected."""

from __future__ import annotations

import re
from collections.abc import Iterator

from checks.declare import Skip, check, code, ok
from checks.fs.mounts import mounts
from checks.host import Host
from checks.wire import Finding

LOST = code(
    "weka_frontend_lost",
    "warn",
    "node",
    "frontend {frontend} is {state}, expected connected, and {mounted} mounts need it",
    explain="Every access waits until it is back. Confirm: `cat /proc/wekafs/interface`, `weka local status`. "
    "Do: `weka local start`; look at the memory and cores that its container is given.",
)
STOPPED = code(
    "weka_driver_stopped",
    "warn",
    "node",
    "driver is {state}, expected DRIVER_ACCEPTING, and {mounted} mounts need it",
    explain="Confirm: `cat /proc/wekafs/interface`, `weka local status`. Do: wait if it is upgraded, else start it.",
)
INTERFACE = "/proc/wekafs/interface"
_FRONTEND = re.compile(r"^Container=(\S{1,80}) FE (\d{1,5}): ([^\n]{1,60})", re.MULTILINE)
_DRIVER = re.compile(r"^GW driver_state: (\w{1,60})", re.MULTILINE)


@check(lane="storage", interval=120, timeout=3.0, codes=(LOST, STOPPED))
def weka(host: Host) -> Iterator[Finding]:
    """State of driver and frontends as the driver has it; without a mount nothing is expected of them.

    Confirm by hand: ``cat /proc/wekafs/interface``, ``weka local status``.
    """
    mounted = sum(1 for m in mounts(host).values() if m.kind == "wekafs")
    if not mounted:
        raise Skip("no Weka mount")
    paths = host.glob("/proc/wekafs/*/interface") or [host.path(INTERFACE)]
    text = "\n".join(host.read(path) for path in paths)
    for state in _DRIVER.findall(text):
        if state != "DRIVER_ACCEPTING":
            yield STOPPED("weka", state=state, mounted=mounted)
    frontends = _FRONTEND.findall(text)
    connected = [name for name, _, state in frontends if state.startswith("Connected")]
    for name, number, state in frontends:
        # A container that is being replaced leaves its old line behind: one connected frontend of its name is enough.
        if name not in connected:
            yield LOST("weka", frontend=f"{name}/{number}", state=state.strip().lower(), mounted=mounted)
    yield ok("weka", f"{len(connected)} frontends connected, {mounted} mounts", frontends=len(connected))
