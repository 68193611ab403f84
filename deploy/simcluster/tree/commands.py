"""Answers of read-only commands, which a redirected host takes from recordings instead of running them."""

from __future__ import annotations

IN_STEP = 0.000_021
"""Clock offset of a healthy node, seconds."""

UNITS = ("slurmd", "munge", "chronyd", "sshd", "nvidia-fabricmanager", "nvidia-persistenced", "nvidia-dcgm")


def recording(*argv: str) -> str:
    """Return where the output of a command stands below the root."""
    return "nodevet-commands/" + "_".join(argv).replace("/", ".")


def chrony(offset: float) -> dict[str, str | bytes]:
    """Return what chronyc says of a clock that is ``offset`` seconds fast (slow if negative)."""
    way = "fast" if offset >= 0 else "slow"
    text = (
        "Reference ID    : 0A000001 (time.cluster)\nStratum         : 3\n"
        f"System time     : {abs(offset):.9f} seconds {way} of NTP time\n"
        f"Last offset     : {offset:+.9f} seconds\nRMS offset      : {abs(offset):.9f} seconds\n"
        "Frequency       : 12.345 ppm slow\nLeap status     : Normal\n"
    )
    fields = ["0A000001", "10.0.0.1", "3", "1764580000.0", f"{offset:.9f}", f"{offset:.9f}", f"{abs(offset):.9f}"]
    fields += ["-12.345", "0.001", "0.012", "0.000412", "0.000087", "64.2", "Normal"]
    csv = ",".join(fields) + "\n"
    return {
        recording("chronyc", "tracking"): text,
        recording("chronyc", "-n", "tracking"): text,
        recording("chronyc", "-c", "tracking"): csv,
    }


def units(failed: frozenset[str]) -> dict[str, str | bytes]:
    """Return what systemctl says of each unit a node may need."""
    tree: dict[str, str | bytes] = {}
    for unit in sorted({*UNITS, *failed}):
        states = ("failed", "failed", "exit-code") if unit in failed else ("active", "running", "success")
        shown = {
            "Id": f"{unit}.service",
            "LoadState": "loaded",
            "ActiveState": states[0],
            "SubState": states[1],
            "Result": states[2],
            "NRestarts": "0",
            "UnitFileState": "enabled",
        }
        for name in (unit, f"{unit}.service"):
            asked = {key: shown[key] for key in ("LoadState", "ActiveState", "SubState")}
            tree[recording("systemctl", "show", "-p", ",".join(asked), name)] = _lines(asked)
            tree[recording("systemctl", "show", name)] = _lines(shown)
            tree[recording("systemctl", "is-active", name)] = f"{states[0]}\n"
    return tree


def _lines(values: dict[str, str]) -> str:
    return "".join(f"{key}={value}\n" for key, value in values.items())
