"""Isolated worker processes for calls that may hang, forked from a clean ancestor and never waited for."""

from __future__ import annotations

from daemon.lanes.pool import LaneError, LanePool
from daemon.lanes.wire import HostSpec
from daemon.lanes.zygote import Zygote

__all__ = ["HostSpec", "LaneError", "LanePool", "Zygote"]
