"""What the service counts, as Prometheus text; no value in it is secret or chosen by a user."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping

from checks.wire import Verdict

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
BUCKETS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0)
_VERDICTS: tuple[Verdict, ...] = ("healthy", "degraded", "faulty", "unknown")


class Meters:
    """Counters of this process."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.counts: dict[str, float] = {
            "reports_total": 0,
            "reports_repeated_total": 0,
            "reports_refused_total": 0,
            "permit_answers_granted_total": 0,
            "permit_answers_denied_total": 0,
        }
        self._buckets = [0] * len(BUCKETS)
        self._batches = 0
        self._seconds = 0.0

    def ingested(self, stored: int, repeated: int, refused: int, seconds: float) -> None:
        """Count one batch."""
        with self._lock:
            self.counts["reports_total"] += stored
            self.counts["reports_repeated_total"] += repeated
            self.counts["reports_refused_total"] += refused
            self._batches += 1
            self._seconds += seconds
            for place, bound in enumerate(BUCKETS):
                self._buckets[place] += seconds <= bound

    def permit(self, *, granted: bool) -> None:
        """Count one answer to a permit request."""
        with self._lock:
            self.counts[f"permit_answers_{'granted' if granted else 'denied'}_total"] += 1

    def histogram(self) -> list[str]:
        """Ingest latency in seconds."""
        name = "nodevet_ingest_seconds"
        with self._lock:
            lines = [f"# TYPE {name} histogram"]
            lines += [f'{name}_bucket{{le="{b:g}"}} {n}' for b, n in zip(BUCKETS, self._buckets, strict=True)]
            lines.append(f'{name}_bucket{{le="+Inf"}} {self._batches}')
            return [*lines, f"{name}_sum {self._seconds:.6f}", f"{name}_count {self._batches}"]


def render(
    meters: Meters,
    *,
    nodes: Mapping[tuple[str, Verdict], int],
    open_incidents: int,
    refused_requests: int,
    controller: Mapping[str, float],
) -> str:
    """The whole text."""
    lines = ["# HELP nodevet_nodes Nodes by verdict; stale ones are unknown.", "# TYPE nodevet_nodes gauge"]
    for cluster in sorted({c for c, _ in nodes}):
        for verdict in _VERDICTS:
            labels = f'cluster="{_escaped(cluster)}",verdict="{verdict}"'
            lines.append(f"nodevet_nodes{{{labels}}} {nodes.get((cluster, verdict), 0)}")
    single = {**controller, **meters.counts, "open_incidents": open_incidents}
    single["refused_requests_total"] = refused_requests
    lines += _singles(sorted(single.items()))
    return "\n".join([*lines, *meters.histogram(), ""])


def _singles(values: Iterable[tuple[str, float]]) -> list[str]:
    """One value a line, its kind before the first of a name; a name may carry labels of ours."""
    lines: list[str] = []
    last = ""
    for full, value in values:
        name = full.partition("{")[0]
        if name != last:
            lines.append(f"# TYPE nodevet_{name} {'counter' if name.endswith('_total') else 'gauge'}")
        lines.append(f"nodevet_{full} {value:g}")
        last = name
    return lines


def _escaped(text: str) -> str:
    return text.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")
