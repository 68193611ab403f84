"""A reserved port stays ours until it is released, although the daemon it is for can bind it meanwhile."""

from __future__ import annotations

import random
import socket

LOW, HIGH = 20_000, 32_000
"""Below Linux's ephemeral range, so that no outgoing connection of another program takes a port between restarts."""


class NoPort(RuntimeError):
    """No free port was found."""


def reserve(count: int) -> list[socket.socket]:
    """Bind ``count`` free loopback ports and keep them.

    Address reuse is switched on after the bind: a daemon with SO_REUSEADDR (all of Slurm's have it) can then bind
    and listen, while another reservation, which binds without it, is refused.
    """
    kept: list[socket.socket] = []
    for port in random.sample(range(LOW, HIGH), HIGH - LOW):
        if len(kept) == count:
            return kept
        holder = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        try:
            holder.bind(("0.0.0.0", port))  # every address: a daemon may listen on any
        except OSError:
            holder.close()
            continue
        holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        kept.append(holder)
    for holder in kept:
        holder.close()
    raise NoPort(f"only {len(kept)} of {count} free ports between {LOW} and {HIGH}")


def number(holder: socket.socket) -> int:
    """Return the reserved port."""
    return int(holder.getsockname()[1])
