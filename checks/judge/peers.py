"""Whether one of many alike has more troubles than the others is a question of chance, and is answered as one."""

from __future__ import annotations

import math


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
