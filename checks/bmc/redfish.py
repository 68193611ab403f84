"""Power supplies, fans and temperatures are well by the BMC's Redfish service, and it has logged nothing new."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timezone

from checks.bmc.bmc_sensors import UNASKED
from checks.bmc.redfish_client import ROOT, Document, Redfish, Service, credentials
from checks.declare import Skip, check, code, ok
from checks.host import Host
from checks.wire import Finding

UNWELL = code(
    "bmc_part_unwell",
    "warn",
    "node",
    "{kind} reports health {health}",
    explain="By the BMC's own judgement. Confirm: its web page, or `curl -u USER https://BMC/redfish/v1/Chassis`. "
    "Do: a power supply or fan can be replaced while the node runs; for temperatures look at filters and the inlet.",
)
LOGGED = code(
    "bmc_entry",
    "warn",
    "node",
    "BMC logged {count} entries of severity {severity} since {since}, the last: {text}",
    explain="What was logged before we first read it is not told. Confirm: the event log on the BMC's web page. "
    "Do: see to the part, then clear the log.",
)
# Link in a chassis (or in what it leads to) -> what its list holds. Older services have lists, newer ones collections.
_LISTS = {"Power": ("PowerSupplies",), "Thermal": ("Fans", "Temperatures")}
_COLLECTIONS = {"PowerSubsystem": ("PowerSupplies",), "ThermalSubsystem": ("Fans",)}
_KINDS = {"PowerSupplies": "power supply", "Fans": "fan", "Temperatures": "temperature"}
_BAD = ("Critical", "Warning")
_LOGS = ("SEL", "Sel", "EventLog", "Log1", "IEL")
_CHASSIS, _MEMBERS, _PAGES, _NAMED = 24, 24, 4, 50


@dataclass(frozen=True, slots=True)
class _Entry:
    when: datetime
    severity: str
    text: str


@check(
    lane="redfish",
    cost="active",
    interval=3600,
    timeout=30.0,
    needs=("root",),
    only_with=("url",),
    codes=(UNWELL, LOGGED, UNASKED),
)
def redfish(
    host: Host,
    *,
    url: str = "",
    credentials_file: str = "/etc/nodevet/redfish.toml",
    cafile: str = "",
    fingerprint: str = "",
    seconds: float = 25.0,
) -> Iterator[Finding]:
    """Health of each power supply, fan and temperature, and what the event log got since our first look.

    Asked only with a ``url``, over TLS; redirects are refused. The certificate is known by ``cafile`` or by its SHA-256
    ``fingerprint``. The file holds ``user`` and ``password`` (TOML, mode 600); a user who may only read is enough.
    Confirm by hand: ``curl -u USER https://BMC/redfish/v1/Chassis``.

    ``credentials_file``: root's file with ``user`` and ``password``. ``seconds``: how long the whole talk may take.
    """
    if not url:
        raise Skip("no Redfish service is named")
    if host.redirected and not host.simulated:
        raise Skip("a copied tree has no BMC")
    user, password = credentials(host, credentials_file)
    with Redfish(Service(url, cafile, fingerprint), user, password, seconds) as service:
        try:
            bad, parts = _parts(service)
            bad += _logged(host, _entries(service))
        except OSError as error:  # TimeoutError and whatever TLS raises are such
            yield UNASKED("bmc", error=f"{type(error).__name__}: {error}"[:200])
            return
    if not parts:
        yield UNASKED("bmc", error="the service names no power supply, fan or temperature")
    yield from bad[:_NAMED]
    if parts and not bad:
        yield ok("bmc", f"{parts} parts", parts=parts)


def _parts(service: Redfish) -> tuple[list[Finding], int]:
    """What is unwell, and how many parts were judged."""
    seen: dict[str, Finding | None] = {}
    for chassis in _members(service, service.get(f"{ROOT}/Chassis"), _CHASSIS):
        name = str(chassis.get("Id", ""))[:40]
        for links, lists in ((_COLLECTIONS, False), (_LISTS, True)):
            for link, kinds in links.items():
                if (home := _link(chassis.get(link))) is None:
                    continue
                document = service.find(home)
                for kind in kinds:
                    # The same part may be shown in the old way and the new: the first is kept.
                    for number, part in enumerate(_all(service, document.get(kind), lists)):
                        target = f"{name}/{part.get('Name') or part.get('Id') or number}"
                        if (found := _judge(part, kind, target)) is not None and target not in seen:
                            seen[target] = found[0]
    return [f for f in seen.values() if f is not None], len(seen)


def _all(service: Redfish, value: object, lists: bool) -> Sequence[Document]:
    if lists:
        return [v for v in value if isinstance(v, dict)][: 4 * _MEMBERS] if isinstance(value, list) else []
    home = _link(value)
    return [] if home is None else list(_members(service, service.find(home), _MEMBERS))


def _judge(part: Document, kind: str, target: str) -> tuple[Finding | None] | None:
    """None for a part that is not there or has no health."""
    status = part.get("Status")
    if not isinstance(status, dict) or status.get("State") not in ("Enabled", "StandbyOffline", "UnavailableOffline"):
        return None
    health = status.get("Health")
    if health in _BAD:
        return (UNWELL(target, kind=_KINDS[kind], health=str(health)),)
    return (None,) if health == "OK" else None


def _members(service: Redfish, collection: Document, limit: int) -> Iterator[Document]:
    members = collection.get("Members")
    for member in members[:limit] if isinstance(members, list) else []:
        # Some services put the whole resource there, most a link to it.
        if isinstance(member, dict) and "Status" in member:
            yield member
        elif (link := _link(member)) is not None:
            yield service.find(link)


def _link(value: object) -> str | None:
    link = value.get("@odata.id") if isinstance(value, dict) else None
    return link if isinstance(link, str) else None


def _entries(service: Redfish) -> list[_Entry]:
    """Entries of every system's and manager's event log, as far as they carry a time."""
    found: list[_Entry] = []
    for home in ("Systems", "Managers"):
        for owner in _members(service, service.find(f"{ROOT}/{home}"), 4):
            logs = _link(owner.get("LogServices"))
            for log in _members(service, service.find(logs), 8) if logs else ():
                found += _read(service, log) if log.get("Id") in _LOGS else ()
    return found


def _read(service: Redfish, log: Document) -> Iterator[_Entry]:
    home = _link(log.get("Entries"))
    for _ in range(_PAGES):
        if home is None:
            return
        page = service.find(home)
        members = page.get("Members")
        for member in members if isinstance(members, list) else []:
            if isinstance(member, dict) and (when := _time(member.get("Created"))) is not None:
                yield _Entry(when, str(member.get("Severity", "")), str(member.get("Message", ""))[:200])
        following = page.get("Members@odata.nextLink")
        home = following if isinstance(following, str) else None


def _time(value: object) -> datetime | None:
    try:
        when = datetime.fromisoformat(str(value).replace("Z", "+00:00"))
    except ValueError:
        return None
    return when if when.tzinfo else when.replace(tzinfo=timezone.utc)


def _logged(host: Host, entries: Sequence[_Entry]) -> list[Finding]:
    """One finding a severity for what is younger than the youngest entry of our first look."""
    known = _time(host.memory.get("redfish"))
    since = known or max((e.when for e in entries), default=datetime.fromtimestamp(0, timezone.utc))
    host.keep("redfish", since.isoformat())
    new = sorted((e for e in entries if e.when > since), key=lambda e: e.when)
    found = []
    for severity in _BAD:
        if of := [e for e in new if e.severity == severity]:
            found.append(LOGGED("bmc", count=len(of), severity=severity, since=since.isoformat(), text=of[-1].text))
    return found
