"""GPUs are reset only where nobody holds them, and their persistence mode is afterwards what it was before.

Called in a lane: nothing here runs in the agent's main process.
"""

from __future__ import annotations

import re
import time
from collections.abc import Sequence
from pathlib import Path

from checks import Host, clean
from checks.site.program import Ended, run_to_end
from checks.site.trust import NotTrusted, proven
from checks.wire import Outcome
from daemon.config import RemedySettings
from daemon.remedy.holders import holders, jobs, minor_of

PCI = re.compile(r"[0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]")
ASK_LIMIT = 15.0
_IN_USE = re.compile(r"in use by|being used|used by one or more|(?:still|currently) in use|\bbusy\b", re.IGNORECASE)
_NEEDS_ALL = re.compile(r"all GPUs|NVSwitch|NVLink|must be reset together", re.IGNORECASE)
Result = dict[str, object]


def reset(host: Host, *, nvidia_smi: str, gpus: Sequence[str], limit: float) -> Result:
    """Reset these GPUs by PCI id, or all; gives ``outcome`` and ``text``, and ``hung`` with what does not end."""
    if why := _forbidden(host, nvidia_smi, gpus):
        return _result("refused", why)
    if running := jobs(host):
        return _result("refused", f"job {', '.join(running[:4])} is on this node")
    minors = [m for m in (minor_of(host, g) for g in gpus) if m is not None]
    # A GPU whose minor is not told might be held under any of them.
    if held := holders(host, minors if gpus and len(minors) == len(gpus) else None):
        return _result("busy", f"GPU is held by {', '.join(held)}")
    return _Smi(nvidia_smi, gpus).reset(limit)


def _forbidden(host: Host, nvidia_smi: str, gpus: Sequence[str]) -> str:
    if host.redirected and nvidia_smi == RemedySettings().nvidia_smi:
        return "this node is simulated or captured, and nvidia_smi is this machine's own"
    if wrong := [g for g in gpus if not PCI.fullmatch(g)]:
        return f"{clean(wrong[0], 40)!r} is no PCI id"
    try:
        proven(Path(nvidia_smi))
    except FileNotFoundError as error:
        return f"nvidia_smi: {error.filename}: no such file"
    except (NotTrusted, OSError) as error:
        return f"nvidia_smi: {error}"
    return ""


class _Smi:
    """One nvidia-smi and the GPUs it is to speak to."""

    def __init__(self, path: str, gpus: Sequence[str]) -> None:
        self._path = path
        self._on = ["-i", ",".join(gpus)] if gpus else []

    def reset(self, limit: float) -> Result:
        """Switch persistence mode off where it is on, reset, and switch it on again whatever came of it."""
        kept = self._persistent()
        said: list[str] = []
        if kept and (wrong := self._persistence(kept, "0")):
            said.append(f"persistence mode was not switched off: {wrong}")
        started = time.monotonic()
        try:
            ended = run_to_end([self._path, "--gpu-reset", *self._on], limit=limit)
        except OSError as error:
            return _result("failed", f"nvidia-smi cannot be started: {error.strerror or error}")
        outcome, text = _judged(ended, time.monotonic() - started, limit)
        if outcome != "hung":
            if kept and (wrong := self._persistence(kept, "1")):
                said.append(f"persistence mode was NOT restored: {wrong}")
            if kept is None:
                said.append("persistence mode could not be asked before and was left alone")
        return {**_result(outcome, "; ".join([text, *said])), "hung": ended.left}

    def _persistent(self) -> list[str] | None:
        """The GPUs with persistence mode on; None where it cannot be asked, as where a GPU is lost."""
        asked = ["--query-gpu=pci.bus_id,persistence_mode", "--format=csv,noheader"]
        try:
            ended = run_to_end([self._path, *asked, *self._on], limit=ASK_LIMIT)
        except OSError:
            return None
        if ended.status != 0:
            return None
        rows = [line.split(",") for line in ended.output.splitlines()]
        return [row[0].strip() for row in rows if len(row) == 2 and row[1].strip() == "Enabled"]

    def _persistence(self, gpus: Sequence[str], mode: str) -> str:
        """What went wrong, empty when nothing did."""
        try:
            ended = run_to_end([self._path, "-pm", mode, "-i", ",".join(gpus)], limit=ASK_LIMIT)
        except OSError as error:
            return str(error)
        return "" if ended.status == 0 else _said(ended)


def _judged(ended: Ended, seconds: float, limit: float) -> tuple[Outcome, str]:
    """A refused reset says nothing about the GPU: somebody holds it."""
    if ended.left:
        return "hung", f"nvidia-smi ({ended.left}) did not end within {limit:g} s nor when asked to, and is not killed"
    if ended.why == "slow":
        return "failed", f"nvidia-smi did not end within {limit:g} s and was ended"
    if ended.status == 0:
        return "done", f"reset in {seconds:.1f} s"
    words = _said(ended)
    if _NEEDS_ALL.search(words) and not _IN_USE.search(words):
        return "failed", f"{words}; on this board all GPUs are reset together: scope = all"
    return ("busy" if _IN_USE.search(words) else "failed"), words


def _said(ended: Ended) -> str:
    return f"nvidia-smi ended with {ended.status}: {clean(ended.output, 240) or 'no word'}"


def _result(outcome: Outcome, text: str) -> Result:
    return {"outcome": outcome, "text": text}
