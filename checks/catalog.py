"""Every module of every subject folder is imported once, so each check and code is known without a list."""

from __future__ import annotations

import importlib
import pkgutil
from functools import cache
from importlib.metadata import entry_points
from typing import Any

from checks.declare import CHECKS, Check

_NOT_SUBJECTS = {"judge"}


@cache
def load() -> dict[str, Check]:
    """All known checks by name, our own and those of installed ``nodevet.checks`` entry points."""
    import checks

    importlib.import_module("checks.hang")
    importlib.import_module("checks.runner")
    for subject in pkgutil.iter_modules(checks.__path__, "checks."):
        if not subject.ispkg or subject.name.rpartition(".")[2] in _NOT_SUBJECTS:
            continue
        package = importlib.import_module(subject.name)
        for module in pkgutil.iter_modules(package.__path__, subject.name + "."):
            importlib.import_module(module.name)
    for point in entry_points(group="nodevet.checks"):
        point.load()
    return dict(sorted(CHECKS.items()))


def option_types(declared: Check) -> dict[str, Any]:
    """The keyword-only options of a check with their evaluated types."""
    import typing

    hints = typing.get_type_hints(declared.function)
    return {name: hints.get(name, str) for name in declared.options}
