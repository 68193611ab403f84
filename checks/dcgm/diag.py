"""Every test of DCGM's diagnostic passes on the idle GPUs."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import cast

import msgspec

from checks.dcgm.ask import UNASKED, Unusable, answer, installed
from checks.dcgm.parts import Parts
from checks.dcgm.report import Diag, Error, Result, read_diag
from checks.declare import CODES, Code, Skip, check, code, ok
from checks.gpu.ask import answering, ask, opened
from checks.gpu.values import Gpu
from checks.host import Host
from checks.judge.policy import DcgmRule, usable
from checks.wire import Blame, Finding

_SEE = "Confirm: `dcgmi diag -r <level> -j` on the idle node. "
HARDWARE = code(
    "dcgm_diag_hardware",
    "fail",
    "node",
    "DCGM test {test}: {name}",
    explain="The test saw broken hardware itself: memory that did not keep what was written, a copy that arrived "
    "changed. " + _SEE + "Do: run NVIDIA's field diagnostic; replace the GPU.",
)
RESET = code(
    "dcgm_diag_reset",
    "fail",
    "node",
    "DCGM test {test}: {name}",
    explain="The GPU asks for a reset. " + _SEE + "Do: reset the GPU or reboot, run the diagnostic again.",
)
FAILED = code(
    "dcgm_diag_failed",
    "fail",
    "node",
    "DCGM test {test} failed: {name}",
    explain="The test failed without proof of a broken part: a rate below the limit of DCGM's table for this model "
    "(some of its limits are wrong), a program beside it, a library. Nothing follows by itself. " + _SEE + "Do: run it "
    "again on the idle node; compare the figures with other nodes of the kind.",
)
WARN = code(
    "dcgm_diag_warn",
    "warn",
    "node",
    "DCGM test {test}: {name}",
    explain="Worth knowing; the check named in the evidence as `judge` looks at the present state. "
    + _SEE
    + "Do: nothing by itself; look again when the node is idle.",
)
CONFIG = code(
    "dcgm_diag_config",
    "warn",
    "config",
    "DCGM test {test}: {name}",
    explain="A setting, a permission or a package, not the hardware. " + _SEE + "Do: correct what is named.",
)
UNSURE = code(
    "dcgm_diag_unsure",
    "unknown",
    "self",
    "DCGM test {test} did not answer: {name}",
    explain="The diagnostic tripped over itself, or was not alone on the node. It says nothing about the hardware. "
    + _SEE
    + "Do: ask again when nothing else uses DCGM.",
)
_OURS = {c.name: c for c in (HARDWARE, RESET, FAILED, WARN, CONFIG, UNSURE)}
LIMITS = {1: 180.0, 2: 900.0, 3: 3600.0, 4: 7000.0}
"""Seconds that a diagnostic of each level may take; NVIDIA speaks of seconds, 2, 30 and 60 to 120 minutes."""
_NO_TIME = re.compile(r"violations? totaling 0(?:\.0*)? seconds", re.IGNORECASE)
_UNNAMED = "no error is named"


@check(lane="dcgm", cost="deep", interval=86400, timeout=7200.0, codes=(*_OURS.values(), UNASKED))
def dcgm_diag(
    host: Host, *, level: int = 1, command: str = "dcgmi", policy_dir: str = "/etc/nodevet/policy.d"
) -> Iterator[Finding]:
    """``dcgmi diag -r LEVEL -j``, judged by the error numbers and severities in the policy's table ``dcgm``.

    ``level`` 1 takes seconds, 4 up to two hours. Nothing is run while a process computes on one of the GPUs or with MIG
    on; the exit status never makes a fault. Asked by hand or by order only.
    Confirm by hand: ``nodevet check dcgm_diag --level 3``.

    ``command``: the program, by name or path. ``policy_dir``: where the site's tables lie; the agent's own unless
    set.
    """
    if level not in LIMITS:
        raise ValueError(f"level {level}: expected 1, 2, 3 or 4")
    argv = [installed(host, command), "diag", "-r", str(level), "-j"]
    gpus = _chosen(host)
    if host.job is not None:
        argv += ["-i", ",".join(str(g.index) for g in gpus)]
    try:
        ended = answer(host, argv, LIMITS[level])
        diag = read_diag(ended.output)
    except Unusable as error:
        yield UNASKED("node", error=str(error))
        return
    found = list(_judged(diag, Parts(host, diag.serials), usable(policy_dir).dcgm))
    if late := _busy(host, gpus):
        found = [UNSURE(f.target, test="all", name=f"{late} began beside it; {f.code} was seen") for f in found]
    yield from found
    bad = [r for r in diag.results if r.status in ("fail", "unknown")]
    if ended.status != 0 and not bad:
        yield UNASKED("node", error=f"dcgmi ended with {ended.status} although no test failed")
    run = sorted({r.test for r in diag.results if r.status != "skip"})
    if not run:
        yield UNASKED("node", error=f"all {len(diag.results)} tests were skipped")
    yield ok("node", f"level {level}, {len(run)} tests run", level=level, tests=len(run), version=diag.version[:32])


def _chosen(host: Host) -> list[Gpu]:
    """The GPUs to be tested; raises Skip where they must not be disturbed or cannot be tested."""
    try:
        every = answering(opened(host))
    except Skip:
        if host.redirected and host.job is None:
            return []  # a captured tree: what was recorded was run already
        raise
    job = host.job
    minors = None if job is None else job.gpu_minors
    gpus = every if job is None else [g for g in every if minors and g.minor in minors]
    if not gpus:
        raise Skip("no GPU to test" if job is None else "job has no GPU that is known here")
    trouble: list[Finding] = []
    if any(ask(host.nvml().mig, g, trouble) for g in gpus):
        raise Skip("MIG is on, and the diagnostic does not test parts of a GPU")
    if holders := _busy(host, gpus):
        raise Skip(f"not run beside {holders}")
    return gpus


def _busy(host: Host, gpus: list[Gpu]) -> str:
    """Whose processes compute on one of these GPUs, empty when nobody's."""
    trouble: list[Finding] = []
    pids = {
        pid for gpu in gpus for pid in ask(host.nvml().processes, gpu, trouble) or () if not _engines_own(host, pid)
    }
    return f"{len(pids)} processes on the GPUs" if pids else "GPUs that do not answer" if trouble else ""


def _engines_own(host: Host, pid: int) -> bool:
    """Whether it is DCGM's host engine itself; a name proves nothing unless root runs it."""
    try:
        place = host.path(f"/proc/{pid}")
        return place.stat().st_uid == 0 and host.read(f"/proc/{pid}/comm").strip() == "nv-hostengine"
    except OSError:
        return False


def _judged(diag: Diag, parts: Parts, table: Mapping[str, DcgmRule]) -> Iterator[Finding]:
    """What each test that did not pass means, each error once a target."""
    told: set[tuple[str, str, int | None]] = set()
    for result in diag.results:
        if result.status in ("pass", "skip"):
            continue
        for target in [parts.gpu(n) for n in result.gpus] or [result.part.replace("summary", "") or "node"]:
            for error in result.errors or (Error(_UNNAMED),):
                if (key := (target, result.test, error.id)) in told or _NO_TIME.search(error.text):
                    continue
                told.add(key)
                if finding := _finding(target, result, error, table):
                    yield finding


def _finding(target: str, result: Result, error: Error, table: Mapping[str, DcgmRule]) -> Finding | None:
    entry = table.get(str(error.id)) or table.get(f"severity-{error.severity}") or DcgmRule()
    if entry.off:
        return None
    made = _code(result.status, entry)
    name = entry.name or (f"error {error.id}" if error.id is not None else "see the text in the evidence")
    found = made(
        target, test=result.test, name=name, text=error.text, error=error.id, severity=error.severity,
        judge=entry.judge or "",
    )  # fmt: skip
    if found.blame == "self" or result.status == "warn":
        return found
    return msgspec.structs.replace(
        found, status=entry.status or found.status, blame=cast(Blame, entry.blame or found.blame)
    )


def _code(status: str, entry: DcgmRule) -> Code:
    """The entry's code; a test that only warned never makes a fault, one of unknown outcome nothing at all."""
    if status == "unknown":
        return UNSURE
    named = CODES.get(entry.code or "", FAILED)
    made = _OURS.get(named.name, FAILED)
    return WARN if status == "warn" and made.status == "fail" else made
