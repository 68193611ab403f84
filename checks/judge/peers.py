"""Whether one of many alike has more troubles than the others is a question of chance, and is answered as one."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass


def chance_of(events: int, exposure: float, other_events: int, other_exposure: float) -> float:
    """How probable ``events`` or more are if the true rate were that of the others; 1.0 where nothing can be said.

    The exact comparison of two Poisson rates (Przyborowski and Wilenski, Biometrika 31, 1940): given all
    k + K events, k is binomial with p = n / (n + N), so the answer is sum(C(k+K, i) p^i (1-p)^(k+K-i), i >= k).
    It needs no estimate of the rate, so it holds where the others have had few events or none.
    """
    total = events + other_events
    if events <= 0 or exposure <= 0 or other_exposure <= 0:
        return 1.0
    share = exposure / (exposure + other_exposure)
    return min(1.0, math.fsum(_binomial(total, i, share) for i in range(events, total + 1)))


def _binomial(total: int, hits: int, share: float) -> float:
    ways = math.lgamma(total + 1) - math.lgamma(hits + 1) - math.lgamma(total - hits + 1)
    return math.exp(ways + hits * math.log(share) + (total - hits) * math.log1p(-share))


@dataclass(frozen=True, slots=True)
class Stratum:
    """Of ``total`` that can be compared ``hits`` have a mark, and ``drawn`` of them are the ones looked at."""

    total: int
    hits: int
    drawn: int


def chance_among(observed: int, strata: Sequence[Stratum]) -> float:
    """How probable ``observed`` or more marks are among those drawn, if in each stratum they were drawn blindly.

    The exact stratified test (Mantel and Haenszel's, by convolution instead of by their approximation): in a stratum
    the count is hypergeometric, and what all of its members share, or none, weighs nothing.
    """
    below = [1.0]
    for stratum in strata:
        ways = [_hypergeometric(stratum, k) for k in range(min(stratum.drawn, stratum.hits, observed) + 1)]
        size = min(observed, len(below) + len(ways) - 1)
        mixed = [0.0] * size
        for i, p in enumerate(below):
            for k, q in enumerate(ways[: size - i]):
                mixed[i + k] += p * q
        below = mixed
    return min(1.0, max(0.0, 1.0 - math.fsum(below[:observed])))


def _hypergeometric(s: Stratum, hits: int) -> float:
    misses = s.drawn - hits
    if hits > s.hits or misses > s.total - s.hits or misses < 0:
        return 0.0
    return math.exp(_ways(s.hits, hits) + _ways(s.total - s.hits, misses) - _ways(s.total, s.drawn))


def _ways(of: int, take: int) -> float:
    return math.lgamma(of + 1) - math.lgamma(take + 1) - math.lgamma(of - take + 1)
