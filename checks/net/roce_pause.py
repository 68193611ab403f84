"""No RoCE port is paused for long, and its hardware counts no errors that sysfs does not show."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from fnmatch import fnmatchcase

from checks.declare import Skip, check, code, ok
from checks.growth import counters
from checks.host import Host, NotRecorded
from checks.judge.policy import CounterRule, per_policy, usable
from checks.net.limits import HOUR, beyond
from checks.net.roce import interface_of, roce_ports
from checks.wire import Finding

HARDWARE = code(
    "roce_hardware_errors",
    "warn",
    "fabric",
    "{means} ({growth} within {seconds:.0f} s, limit {limit} in {within:.0f} s)",
    explain="Confirm: `ethtool -S <interface>` twice, the counters of the switch's port. Do: for pauses look at who is "
    "slow behind the switch and at the settings for lossless traffic; for errors at cable and transceiver.",
)
FOLDER = "ethtool/"
# Asked once an hour, by a worker that ends in between: what it remembers may be older than an agent's restart.
OLDEST = 3 * HOUR
_LINE = re.compile(r"^\s*([\w.\-\[\] ]{1,64}?):\s*(\d{1,20})\s*$", re.MULTILINE | re.ASCII)


@check(lane="ethtool", interval=3600, timeout=5.0, codes=(HARDWARE,))
def roce_pause(
    host: Host, *, ignore: tuple[str, ...] = (), policy_dir: str = "/etc/nodevet/policy.d"
) -> Iterator[Finding]:
    """Growth of the driver's own counters of each RoCE port that is up: pauses, pause storms, discards, broken frames.

    Which count and how much is the policy's table ``counter``, paths ``ethtool/``; a star stands for all priorities,
    which are added. Asked by ``ethtool``, once an hour, and left out where that is not installed.
    Confirm by hand: ``ethtool -S <interface> | grep -e pause -e phy``.

    ``ignore``: adapters or ports that are left out. ``policy_dir``: where the site's tables lie; the agent's own
    unless set.
    """
    ports = {interface_of(host, port): port.name for port in roce_ports(host, ignore)}
    watched, now, asked = counters(host, "roce_pause", OLDEST), host.clock(), 0
    for interface, port in sorted(ports.items()):
        told = _told(host, interface) if interface else {}
        asked += bool(told)
        for name, rule in _rules(policy_dir).items():
            if (value := _sum(told, rule)) is None:
                continue
            grown = watched.of(f"{port} {name}").over(now, value, rule.within or HOUR, wraps=True)
            if (found := beyond(HARDWARE, port, name, rule, grown, interface=interface)) is not None:
                yield found
    host.keep("counters", watched.plain())
    if not asked:
        raise Skip("no driver of a RoCE port tells its counters")
    yield ok("node", f"{asked} ports tell their counters", ports=asked)


def _told(host: Host, interface: str) -> dict[str, int]:
    """What ethtool says of one interface, nothing where its driver says nothing."""
    try:
        text = host.run(["ethtool", "-S", interface], timeout=2.0)
    except (FileNotFoundError, NotRecorded) as error:
        raise Skip(f"ethtool cannot be asked: {error}") from error
    except OSError:
        return {}
    return {name.strip(): int(value) for name, value in _LINE.findall(text)}


def _sum(told: Mapping[str, int], rule: CounterRule) -> int | None:
    pattern = (rule.path or "").removeprefix(FOLDER)
    if "*" not in pattern:
        return told.get(pattern)
    found = [value for name, value in told.items() if fnmatchcase(name, pattern)]
    return sum(found) if found else None


@per_policy
def _rules(directory: str) -> dict[str, CounterRule]:
    table = usable(directory).counter.items()
    return {n: r for n, r in table if r.path and r.path.startswith(FOLDER) and not r.off}
