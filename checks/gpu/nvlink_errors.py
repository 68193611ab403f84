"""No error counter of an NVLink grows faster than its limit, and no bit error rate is too high."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from checks.declare import Skip, check, code, ok
from checks.gpu.ask import UNTOLD, answering, ask, opened, read
from checks.gpu.device import Device, Question
from checks.gpu.values import Fault, Gpu, NvmlError
from checks.growth import Counters, Grown, counters
from checks.host import Host
from checks.judge.policy import LinkRule, per_policy, usable
from checks.wire import Finding

GROWS = code(
    "gpu_nvlink_errors",
    "warn",
    "node",
    "NVLink: {problems}",
    explain="Errors are put right at the cost of speed, many of them announce a link that goes down. Confirm: "
    "`nvidia-smi nvlink -e -i <pci id>` twice, `dmesg | grep -i -e 'Xid.* 74,' -e SXid`. Do: watch; where one link "
    "stays, plan to reseat or replace GPU, bridge or board. Which end of a link is bad a counter does not say.",
)
BER = code(
    "gpu_nvlink_ber",
    "warn",
    "node",
    "NVLink: {problems}",
    explain="More bits arrive broken than correction is made for. Confirm: `nvidia-smi nvlink -e -i <pci id>`. "
    "Do: watch, and plan to reseat or replace the GPU, the cable cartridge or the switch tray.",
)
MOST_LINKS = 36
SHOWN = 3
"""So many problems of one GPU are spelled out."""
_WITHIN = 3600.0


@dataclass(frozen=True, slots=True)
class Told:
    """What one GPU tells: how many links it has, and each field by link, -1 for the whole GPU."""

    links: int
    values: Mapping[tuple[str, int], int]


@dataclass(frozen=True, slots=True)
class _Bad:
    """One problem: of which link (-1: all), how grave in times its limit, in words, and whether it is a rate."""

    link: int
    times: float
    text: str
    rate: bool


@per_policy
def question(policy_dir: str) -> Question[Told]:
    """Every field that an entry in force speaks of, for each link, as one question to a GPU."""
    rules = _rules(policy_dir).values()
    fields = {name: rule.per or "link" for rule in rules for name in (rule.field, rule.errors) if name}

    def link_fields(device: Device) -> Told:
        return asked(device, fields)

    return link_fields


def asked(device: Device, fields: Mapping[str, str]) -> Told:
    """The fields, by name with "link" or "gpu", of one device; what link 0 does not support is asked of no other."""
    whole = [name for name, per in fields.items() if per == "gpu"]
    links, *totals = device.fields("NVML_FI_DEV_NVLINK_LINK_COUNT", *whole)
    if not links:
        raise NvmlError(Fault.NOT_SUPPORTED)
    links = min(links, MOST_LINKS)
    values = {(name, -1): value for name, value in zip(whole, totals, strict=True) if value is not None}
    first = device.scoped(*((name, 0) for name, per in fields.items() if per == "link"))
    rest = device.scoped(*((name, link) for name, _ in first for link in range(1, links)))
    return Told(links, {**values, **first, **rest})


@check(lane="nvml", interval=600, timeout=5.0, codes=(GROWS, BER, *UNTOLD))
def gpu_nvlink_errors(host: Host, *, policy_dir: str = "/etc/nodevet/policy.d") -> Iterator[Finding]:
    """Growth of each counter in the policy's table ``nvlink`` on each link of each GPU; what stood before is history.

    What came while the agent was being restarted counts, too, and a counter that a reset cleared counts from zero. A
    bit error rate is judged only while its errors grow. A GPU in MIG mode has no NVLink and is left alone.
    Confirm by hand: ``nvidia-smi nvlink -e``.

    ``policy_dir``: where the site's tables lie; the agent's own unless set.
    """
    nvml = opened(host)
    watched = counters(host, "gpu_nvlink_errors")
    trouble: list[Finding] = []
    seen, names = 0, set[str]()
    for gpu in answering(nvml):
        if ask(nvml.mig, gpu, trouble):
            continue
        told = read(nvml, question(policy_dir), gpu, trouble)
        if told is None:
            continue
        seen += told.links
        yield from _judged(gpu, _bad(host, gpu, told, _rules(policy_dir), watched, names))
    if not seen and not trouble:
        raise Skip("no NVLink in this node")
    if not trouble:
        watched.only(names)
    host.keep("counters", watched.plain())
    yield from trouble
    yield ok("node", f"{len(names)} counters on {seen} links", links=seen, counters=len(names))


def _bad(
    host: Host, gpu: Gpu, told: Told, rules: Mapping[str, LinkRule], watched: Counters, names: set[str]
) -> Iterator[_Bad]:
    have = {field for field, _ in told.values}
    for name, rule in rules.items():
        other = rules.get(rule.unless or "")
        if other is not None and other.field in have:
            continue
        for (field, link), value in told.values.items():
            if field != (rule.errors or rule.field):
                continue
            key = f"{gpu.uuid} {link} {name}"
            names.add(key)
            grown = watched.of(key).over(host.clock(), value, rule.within or _WITHIN)
            where = "" if link < 0 else f"link {link}: "
            rate = told.values.get((rule.field or "", link), 0)
            if (found := _beyond(rule, grown, rate)) is not None:
                times, text = found
                yield _Bad(link, times, f"{where}{rule.means or name} {text}", rule.ber is not None)


def _beyond(rule: LinkRule, grown: Grown, encoded: int) -> tuple[float, str] | None:
    """How many times over its limit, and in words; None where it is within."""
    if rule.ber is not None:
        rate = bit_error_rate(encoded)
        grows = grown.count > 0 and rate > rule.ber
        return (rate / rule.ber, f"(rate {rate:.1e}, limit {rule.ber:g})") if grows else None
    limit = rule.limit or 0
    if not grown.beyond(limit, rule.within or _WITHIN):
        return None
    return grown.count / (limit + 1), f"({grown.count} within {grown.seconds:.0f} s, limit {limit})"


def _judged(gpu: Gpu, bad: Iterable[_Bad]) -> Iterator[Finding]:
    """One finding for all counters of a GPU and one for all rates, the gravest first."""
    kinds = defaultdict[bool, list[_Bad]](list)
    for one in bad:
        kinds[one.rate].append(one)
    for rate, found in sorted(kinds.items()):
        found.sort(key=lambda one: -one.times)
        more = f", and {len(found) - SHOWN} more" if len(found) > SHOWN else ""
        problems = "; ".join(one.text for one in found[:SHOWN]) + more
        links = ",".join(str(link) for link in sorted({one.link for one in found if one.link >= 0}))
        yield (BER if rate else GROWS)(gpu.target, problems=problems, links=links, count=len(found), uuid=gpu.uuid)


def bit_error_rate(value: int) -> float:
    """NVML's form of it: the exponent in the lowest 8 bits, the mantissa in the 4 above (nvml.h, NVML_NVLINK_BER_*)."""
    return (value >> 8 & 0xF) * 10.0 ** -(value & 0xFF)


@per_policy
def _rules(policy_dir: str) -> dict[str, LinkRule]:
    """The table in force, without what is switched off."""
    return {name: rule for name, rule in usable(policy_dir).nvlink.items() if rule.field and not rule.off}
