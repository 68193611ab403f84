"""Every RoCE port that is up has the settings for lossless traffic that the profile names."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from checks.declare import Skip, check, code, ok
from checks.host import Host
from checks.net.ports import Port, optional
from checks.net.roce import interface_of, roce_ports
from checks.wire import Finding

SETTING = code(
    "roce_setting",
    "warn",
    "config",
    "{setting} is {value}, expected {expected}",
    explain="Without it packets are dropped under load. Confirm: `mlnx_qos -i <interface>`, `cma_roce_tos`. "
    "Do: set it, as the switches have it.",
)
UNSEEN = code(
    "roce_setting_unseen",
    "unknown",
    "config",
    "{setting} cannot be read: {path} is not there",
    explain="NVIDIA's own driver package shows these files, the kernel's driver does not. Confirm: `mlnx_qos -i "
    "<interface>`. Do: take the setting out of the profile, or install that package.",
)


@dataclass(frozen=True, slots=True)
class _Wanted:
    """A setting by our name, its file, what it should be, and how its text is read."""

    name: str
    path: str
    expected: str
    read: Callable[[str], str]


@check(lane="rdma", interval=600, timeout=3.0, codes=(SETTING, UNSEEN))
def roce_qos(
    host: Host,
    *,
    trust: str = "",
    pfc: str = "",
    ecn: tuple[int, ...] = (),
    traffic_class: int = -1,
    ignore: tuple[str, ...] = (),
) -> Iterator[Finding]:
    """Flow control, congestion marks and traffic class of each RoCE port; one that is not named is not asked for.

    ``trust``: dscp or pcp. ``pfc``: eight digits, ``00010000`` for priority 3. ``ecn``: priorities with congestion
    marks. ``traffic_class``: of all RDMA traffic. Read from the files that NVIDIA's driver package makes, without a
    tool. Confirm by hand: ``mlnx_qos -i <interface>``.

    ``ignore``: adapters or ports that are left out.
    """
    if not (trust or pfc or ecn or traffic_class >= 0):
        raise Skip("no setting for lossless traffic is named")
    if pfc and len(_digits(pfc)) != 8:
        raise ValueError(f"pfc {pfc[:20]!r}: expected eight digits of 0 or 1")
    seen = roce_ports(host, ignore)
    for port in seen:
        for wanted in _settings(port, interface_of(host, port), trust, pfc, ecn, traffic_class):
            yield from _setting(host, port, wanted)
    yield ok("node", f"{len(seen)} RoCE ports", ports=len(seen))


def _settings(
    port: Port, interface: str, trust: str, pfc: str, ecn: tuple[int, ...], traffic_class: int
) -> Iterator[_Wanted]:
    net = f"/sys/class/net/{interface or '<interface>'}"
    if trust:
        yield _Wanted("trust", f"{net}/qos/trust", trust.lower(), lambda text: (text.lower().split() or [""])[-1])
    if pfc:
        yield _Wanted("PFC", f"{net}/qos/pfc", _digits(pfc), _digits)
    for priority in ecn:
        for side in ("roce_np", "roce_rp"):
            yield _Wanted(f"ECN {side} {priority}", f"{net}/ecn/{side}/enable/{priority}", "1", str.strip)
    if traffic_class >= 0:
        path = f"/sys/class/infiniband/{port.adapter}/tc/{port.name.rpartition('/')[2]}/traffic_class"
        yield _Wanted("traffic class", path, str(traffic_class), _global_class)


def _digits(text: str) -> str:
    return "".join(re.findall(r"[01]", text.strip().splitlines()[-1] if text.strip() else ""))[-8:]


def _global_class(text: str) -> str:
    match = re.match(r"\s*Global tclass=(\d{1,3})", text)
    return match.group(1) if match else "none"


def _setting(host: Host, port: Port, wanted: _Wanted) -> Iterator[Finding]:
    text = optional(host, wanted.path)
    if text is None:
        yield UNSEEN(port.name, setting=wanted.name, path=wanted.path)
    elif (value := wanted.read(text)) != wanted.expected:
        yield SETTING(port.name, setting=wanted.name, value=value[:40] or "empty", expected=wanted.expected)
