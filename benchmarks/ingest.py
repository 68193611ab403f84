"""One server process on SQLite takes in results by the hundred and the thousand over HTTP."""

from __future__ import annotations

import time
from collections.abc import Iterator
from datetime import datetime, timezone

import msgspec

from benchmarks.account import account, tree
from benchmarks.ground import CLUSTER, Ground, Service
from benchmarks.measure import Spread
from benchmarks.table import Line
from checks.wire import Batch, Finding, Report
from daemon.central import Central

FINDINGS = 40
NODE = "idle"


def measure(ground: Ground, service: Service, rounds: int) -> list[Line]:
    """Lines for a batch of one report and of twenty-five, with nothing new and with everything new."""
    client = Central(service.url, service.token(NODE), timeout=30.0)
    try:
        return [
            _line(ground, client, reports, rounds if reports > 1 else 4 * rounds, changing)
            for reports in (1, 25)
            for changing in (False, True)
        ]
    finally:
        client.close()


def _line(ground: Ground, client: Central, reports: int, rounds: int, changing: bool) -> Line:
    batches = list(_batches(reports, rounds + 1, changing))
    client.ingest_raw(batches[0])
    pids = tree(ground.started["server"].pid)
    before, times = account(pids), []
    for body in batches[1:]:
        begun = time.perf_counter()
        client.ingest_raw(body)
        times.append(time.perf_counter() - begun)
    used = account(pids).seconds - before.seconds
    results = reports * FINDINGS
    spread = Spread.of([seconds * 1e3 for seconds in times])
    rate = results / (spread.median / 1e3)
    return Line(
        part="server",
        what=f"ingest, batch of {results}, {'every' if changing else 'no'} status changes",
        measured=f"{rate:,.0f} results/s",
        beside=f"batch {spread.median:.1f} ms (p99 {spread.p99:.1f})",
        ratio=f"{used / (rounds * results) * 1e6:.0f} us CPU a result",
        n=rounds,
        simulated=False,
        values={"per_second": rate, "batch_ms": spread.median, "cpu_us": used / (rounds * results) * 1e6},
    )


def _batches(reports: int, count: int, changing: bool) -> Iterator[bytes]:
    incarnation = f"bench-{reports}-{int(changing)}-{time.monotonic_ns()}"
    for number in range(count):
        first = number * reports
        made = tuple(_report(incarnation, first + at + 1, changing) for at in range(reports))
        yield msgspec.json.encode(Batch(cluster=CLUSTER, node=NODE, incarnation=incarnation, reports=made))


def _report(incarnation: str, sequence: int, changing: bool) -> Report:
    now = datetime.now(timezone.utc)
    bad = changing and sequence % 2
    findings = tuple(
        Finding(
            check=f"benchmark_{at}", target="node", status="warn" if bad else "ok",
            code="benchmark_slow" if bad else "ok",
            blame="config" if bad else None, message="rate 200 of 400 Gb/s" if bad else "",
            evidence={"rate": 400 - at, "min_gbps": 400}, observed_at=now,
        )
        for at in range(FINDINGS)
    )  # fmt: skip
    return Report(
        cluster=CLUSTER, node=NODE, incarnation=incarnation, sequence=sequence, occasion="interval", started_at=now,
        seconds=0.01, findings=findings,
    )  # fmt: skip
