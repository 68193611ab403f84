"""What the node's own controller (BMC) is asked through ipmitool, and its answers as values."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from checks.declare import Skip
from checks.host import Host, NotRecorded

DEVICES = ("/dev/ipmi0", "/dev/ipmi/0", "/dev/ipmidev/0")
TOOL = "ipmitool"
LINES_LIMIT = 5000
GRACE = 2.0
_STAMP = re.compile(r"[\d:. +-]+(?:[AP]M)?(?: [A-Z]{1,5})?")
_BAD = frozenset({"cr", "nr", "lcr", "ucr", "lnr", "unr"})
_ODD = frozenset({"nc", "lnc", "unc"})


@dataclass(frozen=True, slots=True)
class Sensor:
    """One sensor; ``state`` is ipmitool's: ok, ns (no reading), nc/cr/nr beyond its own thresholds."""

    name: str
    state: str
    reading: str

    @property
    def critical(self) -> bool:
        """Whether it is beyond its critical threshold."""
        return self.state in _BAD

    @property
    def odd(self) -> bool:
        """Whether it is beyond its warning threshold."""
        return self.state in _ODD


@dataclass(frozen=True, slots=True)
class Entry:
    """One line of the event log: its number, sensor and words, and whether it says that something ended."""

    number: int
    sensor: str
    event: str
    ended: bool


def ask(host: Host, *words: str, timeout: float) -> str:
    """What ipmitool says; Skip without a BMC or the tool, OSError or TimeoutError without an answer.

    One that is late is asked to end and then left: it may wait in the kernel's driver, as long as its BMC pleases.
    """
    if not host.redirected and not any(host.path(path).exists() for path in DEVICES):
        raise Skip("this node has no BMC that the kernel knows")
    try:
        ended = host.outcome([TOOL, *words], timeout=timeout, grace=GRACE)
    except FileNotFoundError:
        raise Skip(f"{TOOL} is not installed") from None
    except NotRecorded as error:
        raise Skip(str(error)) from None
    if ended.status and not ended.output.strip():
        raise OSError(f"{TOOL} {' '.join(words)} ended with {ended.status}: {ended.error.strip()[:160]}")
    return ended.output


def sensors(text: str) -> list[Sensor]:
    """Lines of ``sdr elist``: name | number | state | entity | reading."""
    found = []
    for line in text.splitlines()[:LINES_LIMIT]:
        parts = [part.strip() for part in line.split("|")]
        if len(parts) >= 5 and parts[0]:
            found.append(Sensor(parts[0][:64], parts[2].lower(), parts[4][:160]))
    return found


def entries(text: str) -> list[Entry]:
    """Lines of ``sel elist``: number | date | time | sensor | event | Asserted or Deasserted; others are left out.

    An entry from before the BMC knew the time has "Pre-Init" in place of date and time, which may be one field.
    """
    found = []
    for line in text.splitlines()[:LINES_LIMIT]:
        parts = [part.strip() for part in line.split("|")]
        try:
            number = int(parts[0], 16)
        except ValueError:
            continue
        rest = _after_time(parts[1:])
        if len(rest) >= 2:
            ended = any(part.lower() == "deasserted" for part in rest[2:])
            found.append(Entry(number, rest[0][:64], rest[1][:160], ended))
    return found


def _after_time(parts: Sequence[str]) -> Sequence[str]:
    """The fields behind date and time, which are one field or two."""
    alone = "pre-init" in parts[0].lower() if parts else False
    return parts[1:] if alone and not (len(parts) > 1 and _STAMP.fullmatch(parts[1])) else parts[2:]
