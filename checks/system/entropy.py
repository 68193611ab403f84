"""Programs need not wait for random numbers."""

from __future__ import annotations

from collections.abc import Iterator

from checks.declare import Skip, check, code, ok
from checks.host import Host
from checks.wire import Finding

LOW = code(
    "entropy_low",
    "warn",
    "config",
    "{bits} bits of entropy of {pool}, limit {min_bits}",
    explain="On kernels before 5.18 programs that read /dev/random (TLS, MPI start-up, munge) wait for more. "
    "Confirm: `cat /proc/sys/kernel/random/entropy_avail`. Do: run rngd or haveged, or a newer kernel.",
)
NEW_POOL = 256
"""Bits of the pool since Linux 5.18, which never runs low once it is filled."""
_RANDOM = "/proc/sys/kernel/random"


@check(lane="system", interval=600, timeout=1.0, codes=(LOW,))
def entropy(host: Host, *, min_bits: int = 100) -> Iterator[Finding]:
    """Entropy of kernels that can run out of it; later ones are always ready and are not judged.

    The limit is ours. Confirm by hand: ``cat /proc/sys/kernel/random/entropy_avail``.

    ``min_bits``: what the kernel's pool must hold.
    """
    try:
        pool = int(host.read(f"{_RANDOM}/poolsize"))
        bits = int(host.read(f"{_RANDOM}/entropy_avail"))
    except FileNotFoundError:
        raise Skip("this kernel does not tell its entropy") from None
    if pool <= NEW_POOL:
        raise Skip("this kernel does not run out of entropy")
    if bits < min_bits:
        yield LOW("node", bits=bits, pool=pool, min_bits=min_bits)
    else:
        yield ok("node", f"{bits} bits", bits=bits, pool=pool)
