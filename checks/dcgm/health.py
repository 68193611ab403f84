"""DCGM's own background watches have seen nothing wrong."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from checks.dcgm.ask import UNASKED, NoEngine, Unusable, answer, installed
from checks.dcgm.parts import Parts
from checks.dcgm.report import document
from checks.declare import Skip, check, clean, code
from checks.host import Host
from checks.wire import Finding

FAILURE = code(
    "dcgm_health_failure",
    "warn",
    "node",
    "DCGM's watch of the {system} says failure: {text}",
    explain="DCGM keeps what it saw until its engine is restarted and gives no error number here, so this alone takes "
    "no node away: the check of that part asks the driver itself. Confirm: `dcgmi health -c`, `nvidia-smi -q`. Do: "
    "compare with the findings about that GPU; restart the engine after a repair.",
)
WARNING = code(
    "dcgm_health_warning",
    "warn",
    "node",
    "DCGM's watch of the {system} warns: {text}",
    explain="Confirm: `dcgmi health -c`. Do: watch the GPU; nothing follows from it.",
)
_NOTHING = re.compile(r"violations? totaling 0(?:\.0*)? seconds|for 0(?:\.0*)? seconds", re.IGNORECASE)
_UNSET = re.compile(r"watches not enabled|group is not found", re.IGNORECASE)
KEPT = 128


@check(lane="dcgm", interval=3600, timeout=45.0, codes=(FAILURE, WARNING, UNASKED))
def dcgm_health(host: Host, *, command: str = "dcgmi", ignore: tuple[str, ...] = ()) -> Iterator[Finding]:
    """What ``dcgmi health -c -j`` tells of the watches that somebody has set; Nodevet sets none.

    Left out are the systems in ``ignore`` (such as "Thermal system") and violations that lasted 0.0 seconds. Confirm
    by hand: ``dcgmi health -g 0 -f``, ``dcgmi health -g 0 -c``.

    ``command``: the program, by name or path.
    """
    argv = [installed(host, command), "health", "-c", "-j"]
    try:
        made = document(answer(host, argv, 30.0).output)
        found = list(_incidents(made))
    except NoEngine as error:
        raise Skip(f"{error}, see dcgm_engine") from error
    except Unusable as error:
        if _UNSET.search(str(error)):
            raise Skip("no watch of DCGM is set") from error
        yield UNASKED("node", error=str(error))
        return
    parts = Parts(host) if found else None
    for group, number, system, word, text in found:
        if system in ignore or _NOTHING.search(text):
            continue
        target = parts.gpu(number) if parts and group == "GPU" else clean(f"{group} {number}", 64)
        told = FAILURE if word == "failure" else WARNING
        yield told(target, system=system, text=text)


def _incidents(made: dict[str, Any]) -> Iterator[tuple[str, int, str, str, str]]:
    """Entity group, its number, system, word and text of each incident; raises Unusable where nothing is told."""
    body = made.get("body")
    overall = _word(body.get("Overall Health")) if isinstance(body, dict) else ""
    if not isinstance(body, dict) or overall not in ("healthy", "warning", "failure"):
        raise Unusable(f"overall health is {overall or 'not told'}")
    seen = 0
    for group, entities in body.items():
        for number, entity in _children(entities).items():
            for system, told in _children(_children(entity).get("Errors")).items():
                word = _word(told)
                if word in ("warning", "failure") and seen < KEPT:
                    seen += 1
                    lines = told.get("overflow")
                    text = " ".join(str(line) for line in lines) if isinstance(lines, list) else ""
                    yield (
                        str(group),
                        int(number) if number.isdecimal() else 0,
                        clean(system, 64),
                        word,
                        clean(text, 300),
                    )
    if overall != "healthy" and not seen:
        raise Unusable(f"overall health is {overall} and no incident is named")


def _children(node: object) -> dict[str, Any]:
    found = node.get("children") if isinstance(node, dict) else None
    return found if isinstance(found, dict) else {}


def _word(node: object) -> str:
    value = node.get("value") if isinstance(node, dict) else node
    return str(value or "").strip().lower()
