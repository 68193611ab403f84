"""The agent's unit leaves its checks what they need, and passes a reload on."""

from __future__ import annotations

from pathlib import Path

import pytest

UNIT = Path(__file__).resolve().parents[2] / "deploy" / "systemd" / "nodevet-agent.service"
CLOSING = (
    *("ProtectSystem", "ProtectHome", "ProtectClock", "ProtectProc", "ProtectKernelTunables", "ProtectKernelModules"),
    *("ProtectKernelLogs", "ProtectControlGroups", "ProtectHostname", "PrivateTmp", "PrivateDevices", "PrivateNetwork"),
    *("PrivateUsers", "PrivateMounts", "PrivateIPC", "ProcSubset", "DevicePolicy", "DeviceAllow", "ReadOnlyPaths"),
    *("InaccessiblePaths", "TemporaryFileSystem", "RestrictAddressFamilies", "IPAddressDeny", "SystemCallFilter"),
    *("MemoryDenyWriteExecute", "User", "DynamicUser", "RootDirectory"),
)
"""Mounts of its own, closed devices (GPU, BMC), closed sockets (munge, BMC, name service), no other user's rights."""


def settings() -> dict[str, str]:
    lines = [line.partition("=") for line in UNIT.read_text().splitlines() if line and line[0] not in "#["]
    return {name: value for name, _, value in lines}


def test_a_reload_reaches_the_agent() -> None:
    assert settings()["ExecReload"] == "/bin/kill -HUP $MAINPID"


@pytest.mark.parametrize("name", CLOSING)
def test_nothing_is_closed_that_a_check_looks_at(name: str) -> None:
    assert name not in settings()


def test_what_checks_do_as_root_stays_allowed() -> None:
    """Other users' processes, the kernel log, raw disks, the BMC, and reading as a job's user."""
    bounding = settings()["CapabilityBoundingSet"]
    assert bounding.startswith("~")
    needed = {"SYS_PTRACE", "SYSLOG", "SYS_RAWIO", "SYS_ADMIN", "SETUID", "SETGID", "DAC_READ_SEARCH", "NET_ADMIN"}
    assert not {f"CAP_{name}" for name in needed} & set(bounding[1:].split())
