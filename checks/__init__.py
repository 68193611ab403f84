"""What is true of this node, asked by small read-only checks."""

from __future__ import annotations

from checks.declare import CHECKS, CODES, Check, Code, Skip, check, clean, code, ok
from checks.host import Host
from checks.wire import Finding

__all__ = ["CHECKS", "CODES", "Check", "Code", "Finding", "Host", "Skip", "check", "clean", "code", "ok"]
