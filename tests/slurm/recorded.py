"""Answers recorded from real clusters of four Slurm releases."""

from __future__ import annotations

from pathlib import Path

DATA = Path(__file__).parent / "data"
RELEASES = ("20.11", "22.05", "24.11", "26.05")
MODERN = ("22.05", "24.11", "26.05")


def text(release: str, name: str) -> str:
    """Return one recorded answer as text."""
    return (DATA / release / name).read_text(encoding="utf-8")


def raw(release: str, name: str) -> bytes:
    """Return one recorded answer as it came."""
    return (DATA / release / name).read_bytes()


def hook(release: str, name: str) -> bytes:
    """Return a recorded hook environment the way the hook sends it: NUL between the settings."""
    lines = raw(release, f"env/{name}.env").split(b"\n")
    return b"\0".join(line for line in lines if b"=" in line and not line.startswith(b"#")) + b"\0"
