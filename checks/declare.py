"""A check is a decorated function, a code a declared constant, and both are known under one name everywhere."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Literal

from checks.wire import Blame, Finding, Scalar, Status, clean

__all__ = ["CHECKS", "CODES", "Check", "Code", "Skip", "check", "clean", "code", "ok"]

Cost = Literal["passive", "active", "deep"]
Scope = Literal["node", "shared", "fabric"]
CheckFunction = Callable[..., Iterator[Finding]]

_NAME = re.compile(r"[a-z][a-z0-9_]{1,63}")


class Skip(Exception):
    """Raised by a check that does not apply here; the text says why."""


@dataclass(frozen=True, slots=True)
class Code:
    """A stable name for one kind of trouble; called with a target and values it makes a Finding."""

    name: str
    status: Status
    blame: Blame
    template: str
    explain: str = ""

    def __call__(self, target: str, **evidence: Scalar) -> Finding:
        """Make the finding of this code on ``target``; the values become its evidence."""
        try:
            message = self.template.format(**evidence)
        except (KeyError, IndexError, ValueError):
            message = self.template
        return Finding(
            target=clean(target, 128),
            status=self.status,
            code=self.name,
            blame=self.blame,
            message=clean(message),
            evidence={k: clean(v) if isinstance(v, str) else v for k, v in evidence.items()},
        )


@dataclass(frozen=True, slots=True)
class Check:
    """One declared question: the function and everything said about it in its decorator."""

    name: str
    function: CheckFunction
    title: str
    lane: str
    cost: Cost = "passive"
    scope: Scope = "node"
    interval: float = 60.0
    timeout: float = 2.0
    needs: tuple[str, ...] = ()
    codes: tuple[Code, ...] = ()
    required: bool = False
    per_job: bool = False
    each: str | None = None
    only_with: tuple[str, ...] = ()
    options: Mapping[str, inspect.Parameter] = field(default_factory=dict)

    @property
    def explain(self) -> str:
        """Meaning, how to confirm by hand and what to do, as written at the function."""
        return inspect.cleandoc(self.function.__doc__ or "")


CODES: dict[str, Code] = {}
CHECKS: dict[str, Check] = {}


def code(name: str, status: Status, blame: Blame, template: str, *, explain: str = "") -> Code:
    """Declare a code; a second declaration of the same name with other values is an error."""
    made = Code(name, status, blame, template, explain)
    if not _NAME.fullmatch(name):
        raise ValueError(f"code {name!r}: expected lower case words joined by _")
    if blame == "self" and status not in ("unknown", "skipped"):
        raise ValueError(f"code {name}: blame self goes with unknown only")
    if CODES.setdefault(name, made) != made:
        raise ValueError(f"code {name} declared twice")
    return made


def check(
    *,
    lane: str,
    cost: Cost = "passive",
    scope: Scope = "node",
    interval: float = 60.0,
    timeout: float = 2.0,
    needs: tuple[str, ...] = (),
    codes: tuple[Code, ...] = (),
    required: bool = False,
    per_job: bool = False,
    each: str | None = None,
    only_with: tuple[str, ...] = (),
) -> Callable[[CheckFunction], CheckFunction]:
    """Register the decorated function as a check under its own name.

    ``interval`` and ``timeout`` in seconds. ``needs``: ``root``. ``per_job``: asked at a hook about that job's
    devices only, never between jobs. ``each`` names a tuple option: one instance, in a lane of its own, per value.
    ``only_with`` names options without any of which it touches nothing, so that it needs no worker of its own.
    ``required``: a missing or stale answer makes the node's verdict unknown.
    """

    def register(function: CheckFunction) -> CheckFunction:
        name = function.__name__
        module = inspect.getmodule(function)
        title = (module.__doc__ or name).strip().splitlines()[0] if module else name
        options = {p.name: p for p in inspect.signature(function).parameters.values() if p.kind is p.KEYWORD_ONLY}
        made = Check(
            name=name,
            function=function,
            title=title,
            lane=lane,
            cost=cost,
            scope=scope,
            interval=interval,
            timeout=timeout,
            needs=needs,
            codes=codes,
            required=required,
            per_job=per_job,
            each=each,
            only_with=only_with,
            options=options,
        )
        known = CHECKS.setdefault(name, made)
        if known is not made and known.function.__code__.co_filename != function.__code__.co_filename:
            raise ValueError(f"check {name} declared twice")
        CHECKS[name] = made
        return function

    return register


def ok(target: str, message: str = "ok", **evidence: Scalar) -> Finding:
    """An ok finding, for a number worth keeping."""
    return Finding(target=clean(target, 128), status="ok", code="ok", message=clean(message), evidence=evidence)
