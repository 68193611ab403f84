"""What a site's executable says is taken literally or not at all: what cannot be understood is never a pass."""

from __future__ import annotations

import re

import msgspec

from checks.declare import CODES, Code, clean, code
from checks.runner import NOT_APPLICABLE
from checks.wire import Blame, Finding, Scalar, Status

MOST_FINDINGS = 100
MOST_EVIDENCE = 32
NAGIOS: tuple[Status, ...] = ("ok", "warn", "fail", "unknown")
_CODE = re.compile(r"[a-z][a-z0-9_]{1,57}")
_CONFIRM = "What it means is the site's to say. Confirm: run the executable in checks.d by hand, as its user. "
WARN = code(
    "site_warn",
    "warn",
    "config",
    "site executable {name} warns: {text}",
    explain=_CONFIRM + "Do: what the site's own page says.",
)
FAIL = code(
    "site_fail",
    "fail",
    "config",
    "site executable {name} fails: {text}",
    explain=_CONFIRM + "A node is drained for it only where the site's sidecar or document says blame `node`."
    " Do: what the site's own page says.",
)
UNKNOWN = code(
    "site_unknown",
    "unknown",
    "self",
    "site executable {name} could not tell: {text}",
    explain=_CONFIRM + "Do: what the site's own page says.",
)
_OWN: dict[Status, Code] = {"warn": WARN, "fail": FAIL, "unknown": UNKNOWN}


class Garbled(Exception):
    """Output that is no answer; the text says why."""


class Said(msgspec.Struct, frozen=True, kw_only=True):
    """One finding as an executable writes it."""

    status: Status
    target: str = ""
    code: str = ""
    blame: Blame | None = None
    message: str = ""
    evidence: dict[str, Scalar] = {}


def understood(name: str, status: int, output: bytes, blame: Blame) -> list[Finding]:
    """The findings of one run; raises Garbled. ``blame`` is whom a warning or failure blames that names nobody."""
    if status < 0:
        raise Garbled(f"ended by signal {-status}")
    if status >= len(NAGIOS):
        raise Garbled(f"exit status {status}, expected 0 to {len(NAGIOS) - 1}")
    said = _document(output) if output.lstrip()[:1] in (b"{", b"[") else [_line(status, output)]
    worst = next(
        (n for n, word in ((2, "fail"), (3, "unknown"), (1, "warn")) if any(s.status == word for s in said)), 0
    )
    if status not in (0, worst):
        raise Garbled(f"exit status {status} contradicts the document, expected 0 or {worst}")
    found: dict[tuple[str, str], Finding] = {}
    for one in said:
        finding = _finding(name, one, blame)
        found.setdefault((finding.target, finding.code), finding)
    return list(found.values())


def _document(output: bytes) -> list[Said]:
    try:
        raw = msgspec.json.decode(output)
        items = raw["findings"] if isinstance(raw, dict) and "findings" in raw else raw
        said = msgspec.convert(items if isinstance(items, list) else [items], list[Said])
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise Garbled(f"document is not one: {str(error)[:200]}") from error
    if len(said) > MOST_FINDINGS or any(len(s.evidence) > MOST_EVIDENCE for s in said):
        raise Garbled(f"more than {MOST_FINDINGS} findings, or one of more than {MOST_EVIDENCE} values")
    return said


def _line(status: int, output: bytes) -> Said:
    """Nagios: the first line, without the figures behind its bar."""
    lines = output.decode("utf-8", "replace").strip().splitlines()
    text = clean(lines[0].partition("|")[0]) if lines else ""
    if not text:
        raise Garbled(f"exit status {status} without a line of text")
    return Said(status=NAGIOS[status], message=text)


def _finding(name: str, said: Said, blame: Blame) -> Finding:
    target = clean(f"{name}:{said.target}" if said.target else name, 128)
    text = clean(said.message) or "no message"
    if said.status == "skipped":
        return NOT_APPLICABLE(target, reason=text)
    evidence = {clean(k, 64): clean(v) if isinstance(v, str) else v for k, v in said.evidence.items()}
    if said.status == "ok":
        return Finding(target=target, status="ok", code="ok", message=clean(said.message) or "ok", evidence=evidence)
    if (said.blame == "self") != (said.status == "unknown") and said.blame is not None:
        raise Garbled(f"blame {said.blame} of a finding that is {said.status}")
    finding = _OWN[said.status](target, name=name, text=text)
    accused: Blame = "self" if said.status == "unknown" else said.blame or blame
    return msgspec.structs.replace(finding, code=_code(said), blame=accused, evidence=evidence)


def _code(said: Said) -> str:
    """Always of the form site_...: no executable may speak with one of our own codes."""
    own = _OWN[said.status].name
    if not said.code or said.code == own:
        return own
    if not _CODE.fullmatch(said.code):
        raise Garbled(f"code {clean(said.code, 64)!r}: expected lower case words joined by _")
    named = said.code if said.code.startswith("site_") else f"site_{said.code}"
    if named in CODES:
        raise Garbled(f"code {named} is one of Nodevet's own")
    return named
