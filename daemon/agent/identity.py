"""Who an agent is: its cluster, its node and the incarnation, which is new with every start."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass, field
from pathlib import Path


def new_incarnation() -> str:
    """A name that sorts by time and never comes twice; it is also the outbox's folder."""
    return f"{int(time.time() * 1000):015d}-{os.getpid()}-{os.urandom(4).hex()}"


def boot_id() -> str:
    """The kernel's id of this boot, empty where it does not say."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    except OSError:
        return ""


@dataclass(slots=True)
class Identity:
    """Cluster and node are empty until configuration or the first hook has said them; never the host's name."""

    cluster: str = ""
    node: str = ""
    incarnation: str = field(default_factory=new_incarnation)

    @property
    def known(self) -> bool:
        """Whether reports can be made out."""
        return bool(self.cluster and self.node)
