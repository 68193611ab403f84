"""A malformed report is kept out and named, and the others of its batch are stored."""

from __future__ import annotations

import logging

import msgspec

from api.problems import Unacceptable
from api.store.keep import INT_LIMIT, Malformed, in_bounds
from checks.wire import PROTOCOL, Batch, Report
from slurm.reason import one_line

log = logging.getLogger(__name__)
REPORTS_LIMIT = 10_000
INCARNATION_LIMIT = 64


class _Envelope(msgspec.Struct, frozen=True, kw_only=True):
    """A batch whose reports have not been read yet."""

    cluster: str
    node: str
    incarnation: str
    reports: tuple[msgspec.Raw, ...]
    protocol: int = PROTOCOL


class _Numbered(msgspec.Struct, frozen=True):
    sequence: int


_envelope = msgspec.json.Decoder(_Envelope)
_report = msgspec.json.Decoder(Report)
_numbered = msgspec.json.Decoder(_Numbered)


def open_batch(body: bytes) -> tuple[Batch, tuple[msgspec.Raw, ...]]:
    """The batch without its reports, and these as they came."""
    envelope = _envelope.decode(body)
    if envelope.protocol > PROTOCOL:
        raise Unacceptable(f"protocol {envelope.protocol}, this server speaks {PROTOCOL}")
    if len(envelope.reports) > REPORTS_LIMIT:
        raise Unacceptable(f"batch has {len(envelope.reports)} reports, limit is {REPORTS_LIMIT}")
    name = envelope.incarnation
    if not name or len(name) > INCARNATION_LIMIT or not name.isprintable():
        raise Unacceptable(f"incarnation of {len(name)} characters, expected 1 to {INCARNATION_LIMIT} printable ones")
    batch = Batch(cluster=envelope.cluster, node=envelope.node, incarnation=name, reports=())
    return batch, envelope.reports


def read_reports(batch: Batch, raw: tuple[msgspec.Raw, ...]) -> tuple[Batch, tuple[int, ...]]:
    """The batch with its good reports, and the sequences of those that can never be stored."""
    good: list[Report] = []
    refused: list[int] = []
    for item in raw:
        try:
            good.append(_own(batch, in_bounds(_report.decode(item))))
        except (msgspec.MsgspecError, Malformed, UnicodeDecodeError, RecursionError) as error:
            log.warning("report refused node=%s why=%s", batch.node, one_line(str(error)))
            refused.extend(_sequence(item))
    return msgspec.structs.replace(batch, reports=tuple(good)), tuple(refused)


def _own(batch: Batch, report: Report) -> Report:
    """A report that names another node or incarnation than its batch would be stored under the wrong key."""
    if (report.cluster, report.node, report.incarnation) != (batch.cluster, batch.node, batch.incarnation):
        raise Malformed("report names another node or incarnation than its batch")
    return report


def _sequence(item: msgspec.Raw) -> list[int]:
    try:
        number = _numbered.decode(item).sequence
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return []
    return [number] if 0 <= number < INT_LIMIT else []
