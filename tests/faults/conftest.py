"""Agents and central services for the tests of this folder."""

from __future__ import annotations

from tests.daemon.agent.fixtures import agent, base, host, make_agent, nvml_cache, service

__all__ = ["agent", "base", "host", "make_agent", "nvml_cache", "service"]
