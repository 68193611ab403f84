"""A lease is the right to refuse once without asking; it is used up once, also across restarts and clock changes."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from datetime import datetime, timezone

import msgspec

from checks.wire import Lease

LONGEST = 600.0
_USED_LIMIT = 64


class _Held(msgspec.Struct, frozen=True):
    """A lease with its end on the boot clock, which nobody can set back."""

    lease: Lease
    ends: float


class _Document(msgspec.Struct, frozen=True):
    boot_id: str
    held: tuple[_Held, ...] = ()
    used: tuple[str, ...] = ()


class LeaseBook:
    """Leases of this boot; ``document`` is what must reach the disk after each change."""

    def __init__(self, boot_id: str, clock: Callable[[], float] | None = None) -> None:
        self._boot_id = boot_id
        self._clock = clock or (lambda: time.clock_gettime(time.CLOCK_BOOTTIME))
        self._held: dict[str, _Held] = {}
        self._used: list[str] = []

    def load(self, document: bytes) -> None:
        """Take over what an earlier agent of the same boot held; anything else is forgotten."""
        try:
            found = msgspec.json.decode(document, type=_Document)
        except (msgspec.MsgspecError, UnicodeDecodeError):
            return
        if found.boot_id != self._boot_id or not self._boot_id:
            return
        self._used = list(found.used)[-_USED_LIMIT:]
        self._held = {h.lease.permit: h for h in found.held if h.lease.permit not in self._used}

    @property
    def document(self) -> bytes:
        """The book as it is kept on disk."""
        return msgspec.json.encode(_Document(self._boot_id, tuple(self._held.values()), tuple(self._used)))

    def offer(self, leases: Iterable[Lease], now: datetime | None = None) -> bool:
        """Take the server's present list in the place of the former; says whether anything changed."""
        now = now or datetime.now(timezone.utc)
        before = dict(self._held)
        offered = [lease for lease in leases if lease.permit not in self._used]
        self._held = {
            lease.permit: before.get(lease.permit) or _Held(lease, self._clock() + _left(lease, now))
            for lease in offered
        }
        return before.keys() != self._held.keys()

    def take(self, codes: Iterable[str]) -> Lease | None:
        """Use up a lease that covers one of ``codes``, None when there is none that is still good."""
        wanted = set(codes)
        for permit, held in list(self._held.items()):
            if self._clock() >= held.ends:
                del self._held[permit]
            elif wanted & set(held.lease.codes):
                del self._held[permit]
                self._used = [*self._used, permit][-_USED_LIMIT:]
                return held.lease
        return None

    @property
    def permits(self) -> tuple[str, ...]:
        """Those that the central service must go on counting: what could be used now, and what was used.

        It waits to hear that a lease was dropped; one that was used has taken the node out, which it may learn later.
        """
        return (*(p for p, h in self._held.items() if self._clock() < h.ends), *self._used)

    @property
    def good(self) -> int:
        """How many leases could be used now."""
        return sum(self._clock() < held.ends for held in self._held.values())


def _left(lease: Lease, now: datetime) -> float:
    try:
        return min(LONGEST, (lease.expires_at - now).total_seconds())
    except TypeError:  # a time without a zone
        return 0.0
