"""Imports run downhill, files stay small, and no other distribution owns the names of our folders."""

from __future__ import annotations

import ast
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
FOLDERS = ("checks", "slurm", "daemon", "api", "deploy")
TESTS = ("tests", "benchmarks")
LONGEST_FILE = 300

MAY_IMPORT: dict[str, tuple[str, ...]] = {
    "checks.judge": ("checks.judge", "checks.wire", "checks.declare"),
    "checks": ("checks",),
    "slurm": ("slurm",),
    "daemon": ("daemon", "checks", "slurm"),
    # The server runs a site's executables by the very rules of the node's side.
    "api": ("api", "slurm", "checks.judge", "checks.wire", "checks.site.program", "checks.site.trust"),
    "deploy": ("deploy", "daemon", "api", "checks", "slurm"),
}
"""What of ours each package may import; the longest prefix that fits a module decides."""

WEB_AND_DATA = {"fastapi", "starlette", "uvicorn", "uvloop", "pydantic", "sqlalchemy", "alembic", "psycopg", "jinja2"}
MAY_NOT_IMPORT: dict[str, set[str]] = {
    "checks.judge": {"socket", "subprocess", "threading", "asyncio", "multiprocessing", "time"},
    "checks": {"h11", "psutil", "torch", "ClusterShell", "click", "socketserver", "http", "urllib"} | WEB_AND_DATA,
    "slurm": {"torch", "pynvml"} | WEB_AND_DATA,
    "daemon": {"torch"} | WEB_AND_DATA,
    "api": {"torch", "pynvml"},
}
"""What of others a package may not import: a compute node carries none of it, or the answer must not depend on it."""

EXCEPT = {"checks.bmc.redfish_client": {"http", "urllib"}}
"""A device that is asked over HTTP and in no other way: its one door may import what its folder may not."""

JUDGE_NEEDS_ONLY = {"msgspec", "tomli", "tomllib"}


@dataclass(frozen=True, slots=True)
class Module:
    """One Python file, with its dotted name and its syntax tree."""

    name: str
    path: Path
    tree: ast.Module

    def imports(self) -> Iterator[tuple[int, str]]:
        """Every module that is imported, inside functions too, with its line; ``from a import b`` counts as ``a.b``."""
        package = self.name.split(".")
        if self.path.name != "__init__.py":
            package = package[:-1]
        for node in ast.walk(self.tree):
            if isinstance(node, ast.Import):
                yield from ((node.lineno, alias.name) for alias in node.names)
            elif isinstance(node, ast.ImportFrom):
                base = package[: len(package) - node.level + 1] if node.level else []
                full = ".".join([*base, *([node.module] if node.module else [])])
                yield from ((node.lineno, f"{full}.{alias.name}") for alias in node.names)


def modules(root: Path, folders: tuple[str, ...] = FOLDERS) -> Iterator[Module]:
    """Every Python file below the folders of ``root``."""
    for folder in folders:
        for path in sorted((root / folder).rglob("*.py")):
            parts = path.relative_to(root).with_suffix("").parts
            name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
            yield Module(name, path, ast.parse(path.read_text(encoding="utf-8"), str(path)))


def within(name: str, package: str) -> bool:
    """True when ``name`` is ``package`` or lies in it."""
    return name == package or name.startswith(package + ".")


def rules(table: dict[str, tuple[str, ...]], name: str) -> tuple[str, ...]:
    """The entry of ``table`` whose package is the longest that holds ``name``."""
    return table[max((package for package in table if within(name, package)), key=len)]


def uphill(module: Module) -> Iterator[str]:
    """Imports of our own packages that run uphill or sideways."""
    allowed = rules(MAY_IMPORT, module.name)
    for line, imported in module.imports():
        ours = imported.partition(".")[0] in FOLDERS
        if ours and not any(within(imported, package) for package in allowed):
            yield f"{module.path}:{line}: {module.name} imports {imported}"


def forbidden(module: Module) -> Iterator[str]:
    """Imports of foreign packages that have no place in the module's folder."""
    for line, imported in module.imports():
        top = imported.partition(".")[0]
        for package, names in MAY_NOT_IMPORT.items():
            banned = names - EXCEPT.get(module.name, set())
            if within(module.name, package) and (top in banned or any(within(imported, name) for name in banned)):
                yield f"{module.path}:{line}: {module.name} imports {imported}"
        if within(module.name, "checks.judge") and top not in sys.stdlib_module_names | JUDGE_NEEDS_ONLY | {"checks"}:
            yield f"{module.path}:{line}: {module.name} imports {imported}"


def shells(module: Module) -> Iterator[str]:
    """Calls that hand text to a shell."""
    for node in ast.walk(module.tree):
        if not isinstance(node, ast.Call):
            continue
        name = ast.unparse(node.func)
        shell = any(word.arg == "shell" and ast.unparse(word.value) != "False" for word in node.keywords)
        if shell or name in {"os.system", "os.popen", "subprocess.getoutput", "asyncio.create_subprocess_shell"}:
            yield f"{module.path}:{node.lineno}: {name} goes through a shell"


def untidy(module: Module) -> Iterator[str]:
    """What a file lacks: a first sentence, the one future import, a bearable length."""
    lines = len(module.path.read_text(encoding="utf-8").splitlines())
    if lines > LONGEST_FILE:
        yield f"{module.path}: {lines} lines of {LONGEST_FILE}"
    if not ast.get_docstring(module.tree):
        yield f"{module.path}: opens without a sentence"
    future = (node for node in module.tree.body if isinstance(node, ast.ImportFrom) and node.module == "__future__")
    code = any(not (isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)) for node in module.tree.body)
    if code and not any(alias.name == "annotations" for node in future for alias in node.names):
        yield f"{module.path}: from __future__ import annotations is missing"


def test_imports_run_downhill() -> None:
    wrong = [line for module in modules(ROOT) for line in uphill(module)]
    assert not wrong, "\n".join(wrong)


def test_no_folder_imports_what_it_must_do_without() -> None:
    wrong = [line for module in modules(ROOT) for line in forbidden(module)]
    assert not wrong, "\n".join(wrong)


def test_nothing_goes_through_a_shell() -> None:
    wrong = [line for module in modules(ROOT, FOLDERS + TESTS) for line in shells(module)]
    assert not wrong, "\n".join(wrong)


def test_every_file_is_tidy() -> None:
    wrong = [line for module in modules(ROOT, FOLDERS + TESTS) for line in untidy(module)]
    assert not wrong, "\n".join(wrong)


def test_no_other_distribution_owns_our_names() -> None:
    owners = packages_distributions()
    assert {name: set(owners.get(name, [])) - {"nodevet"} for name in FOLDERS} == {name: set() for name in FOLDERS}


def test_every_folder_is_looked_at() -> None:
    assert {module.name.partition(".")[0] for module in modules(ROOT)} == set(FOLDERS)


TIDY = '"""It is so."""\n\nfrom __future__ import annotations\n\n'
PLANTED: list[tuple[str, str, Callable[[Module], Iterator[str]]]] = [
    ("checks/x.py", "import slurm.reason", uphill),
    ("checks/x.py", "def late():\n    from daemon import agent", uphill),
    ("slurm/x.py", "from checks import Finding", uphill),
    ("daemon/x.py", "import api", uphill),
    ("daemon/x.py", "from deploy.simcluster import lab", uphill),
    ("api/x.py", "from checks import Finding", uphill),
    ("api/x.py", "from checks.gpu import nvml", uphill),
    ("api/routes/x.py", "from ...checks import gpu", uphill),
    ("checks/judge/x.py", "from checks.host import Host", uphill),
    ("checks/judge/x.py", "import yaml", forbidden),
    ("checks/judge/x.py", "import time", forbidden),
    ("checks/x.py", "import psutil", forbidden),
    ("daemon/x.py", "from fastapi import FastAPI", forbidden),
    ("daemon/deep/x.py", "def late():\n    import torch.distributed", forbidden),
    ("slurm/x.py", "import sqlalchemy", forbidden),
    ("slurm/x.py", "subprocess.run('id', shell=True)", shells),
    ("tests/x.py", "os.system('id')", shells),
    ("tests/x.py", TIDY + "\n" * LONGEST_FILE, untidy),
    ("tests/x.py", "from __future__ import annotations", untidy),
    ("tests/x.py", '"""It is so."""\nimport os', untidy),
]
"""Each of these breaks the rule beside it: a rule that lets one through looks at nothing."""


@pytest.mark.parametrize(("path", "text", "rule"), PLANTED)
def test_a_planted_violation_is_seen(
    path: str, text: str, rule: Callable[[Module], Iterator[str]], tmp_path: Path
) -> None:
    planted = tmp_path / path
    planted.parent.mkdir(parents=True)
    planted.write_text(text + "\n", encoding="utf-8")
    assert len([wrong for module in modules(tmp_path, FOLDERS + TESTS) for wrong in rule(module)]) == 1


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("checks/x.py", "from checks.host import Host\nimport pynvml"),
        ("checks/judge/x.py", "import msgspec\nfrom checks.wire import Finding\nfrom checks.judge import decide"),
        ("api/x.py", "from checks.judge.decide import decide\nfrom checks import wire\nimport fastapi\nimport slurm"),
        ("daemon/x.py", "from . import agent\nfrom checks import Finding\nimport h11"),
        ("deploy/simcluster/x.py", "import api.app\nimport daemon.agent\nfrom checks import wire"),
    ],
)
def test_what_is_allowed_is_not_accused(path: str, text: str, tmp_path: Path) -> None:
    planted = tmp_path / path
    planted.parent.mkdir(parents=True)
    planted.write_text(f"{TIDY}{text}\n", encoding="utf-8")
    rules_of = (uphill, forbidden, shells, untidy)
    assert [wrong for module in modules(tmp_path) for rule in rules_of for wrong in rule(module)] == []
