"""Every module of every subject folder is imported once, so each check and code is known without a list."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable
from functools import cache
from typing import Any

from checks.declare import CHECKS, CODES, Check, clean
from checks.installed import entry_points

_NOT_SUBJECTS = {"judge", "hardware"}
_BROKEN: dict[str, str] = {}


@cache
def load() -> dict[str, Check]:
    """All known checks by name, our own and those of installed ``nodevet.checks`` entry points.

    A site's entry point that cannot be used is left out whole and told by ``broken``; the others work.
    """
    import checks

    importlib.import_module("checks.hang")
    importlib.import_module("checks.runner")
    for subject in pkgutil.iter_modules(checks.__path__, "checks."):
        if not subject.ispkg or subject.name.rpartition(".")[2] in _NOT_SUBJECTS:
            continue
        package = importlib.import_module(subject.name)
        for module in pkgutil.iter_modules(package.__path__, subject.name + "."):
            importlib.import_module(module.name)
    for named, imported in entry_points("nodevet.checks"):
        # Python remembers a module that was imported: asked again, a bad one would look good.
        if (name := clean(named, 128)) not in _BROKEN:
            _take(name, imported)
    return dict(sorted(CHECKS.items()))


def broken() -> dict[str, str]:
    """The site's entry points that cannot be used, by module, each with why."""
    load()
    return dict(_BROKEN)


def _take(name: str, imported: Callable[[], object]) -> None:
    """Import one of the site's; what it declared before it failed is forgotten, it was never whole."""
    checks, codes = dict(CHECKS), dict(CODES)
    try:
        imported()
        for declared in CHECKS.values():
            if checks.get(declared.name) is not declared:
                _prove(declared)
    except (Exception, SystemExit) as error:
        _BROKEN[name] = clean(f"{type(error).__name__}: {error}", 400)
        for known, before in ((CHECKS, checks), (CODES, codes)):
            known.clear()
            known.update(before)  # type: ignore[arg-type]


def _prove(declared: Check) -> None:
    """Raise what would otherwise be raised when the agent makes its plan."""
    option_types(declared)
    for name, value in (("interval", declared.interval), ("timeout", declared.timeout)):
        if not 0 < value <= 86400:
            raise ValueError(f"check {declared.name}: {name} {value}, expected 0 to 86400 s")
    if declared.each is not None and declared.each not in declared.options:
        raise ValueError(f"check {declared.name}: no option {declared.each!r} to split by")
    for name in declared.only_with:
        if name not in declared.options:
            raise ValueError(f"check {declared.name}: no option {name!r} to be asked with")


def option_types(declared: Check) -> dict[str, Any]:
    """The keyword-only options of a check with their evaluated types."""
    import typing

    hints = typing.get_type_hints(declared.function)
    return {name: hints.get(name, str) for name in declared.options}
