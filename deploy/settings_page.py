"""docs/settings.md is made from the settings' own declarations, and a setting without words fails the making."""

from __future__ import annotations

import dataclasses
import inspect
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import get_args, get_type_hints

import msgspec

from api.alerts.settings import AlertSettings
from api.controller.core import ControllerSettings
from api.remedy.settings import RemedySettings
from api.settings import ServerSettings
from checks.catalog import load
from checks.judge.guard import GuardLimits
from daemon.config import AgentSettings, CentralSettings, CheckSettings, HostSettings, SlurmSettings
from daemon.config import RemedySettings as NodeRemedySettings
from deploy.settings_words import NODE, SERVER

PAGE = Path(__file__).resolve().parent.parent / "docs" / "settings.md"
SERVER_SECTIONS: dict[str, type] = {
    "server": ServerSettings,
    "controller": ControllerSettings,
    "guard": GuardLimits,
    "remedy": RemedySettings,
    "alerts": AlertSettings,
}
NODE_SECTIONS: dict[str, type] = {
    "agent": AgentSettings,
    "central": CentralSettings,
    "host": HostSettings,
    "slurm": SlurmSettings,
    "remedy": NodeRemedySettings,
    "checks.NAME": CheckSettings,
}
_ELSEWHERE = {
    "controller.cluster",
    "checks.NAME.options",
}  # not keys: [server] says the one, keys of their own the other
_HEAD = """<!-- made by python -m deploy.docs -->
# Settings

Every key of the two files, with its default. What is left out has its default, an unknown key is refused with the
nearest known name, times are in seconds. Both files belong to root (server.toml may be the service's own) and can be
written by nobody else. Rules are not settings: `nodevet policy show`; nor is what a node must have: `nodevet profile`.
"""
_SERVER_HEAD = """
## /etc/nodevet/server.toml: the central service

Read once, when `nodevet server` starts; its options (`nodevet server --help`) are stronger than the file.
"""
_NODE_HEAD = """
## /etc/nodevet/nodevet.toml: the node

Read once, when the agent starts. `NODEVET_<SECTION>_<KEY>`, such as NODEVET_AGENT_NODE, is stronger than the file, and
NODEVET_CONFIG names another file; `nodevet config show` prints what is in force and where it comes from, and
`nodevet config check FILE` proves a file.
"""
_CHECKS_HEAD = """
### Options of checks

A section `[checks.NAME]` also takes the check's own options; they are stronger than the profile's.
`nodevet explain NAME` says what they mean.
"""
_TAIL = """
## /etc/nodevet/hook.conf and the environment

[hook.conf](../slurm/hook/hook.conf) says each key of the hooks with its default. The command reads NODEVET_SERVER,
NODEVET_TOKEN, NODEVET_CENTRAL_CA_FILE and NO_COLOR.
"""


def keys(sections: Mapping[str, type]) -> Iterator[tuple[str, object]]:
    """Every key with its default; a section inside a section is gone into, a named one as NAME."""
    for name, kind in sections.items():
        hints = get_type_hints(kind)
        for key, default in _fields(kind):
            inner = _inner(hints[key])
            if f"{name}.{key}" in _ELSEWHERE:
                continue
            if inner is None:
                yield f"{name}.{key}", default
            else:
                yield from keys({f"{name}.{key}" + ("" if inner is hints[key] else ".NAME"): inner})


def _fields(kind: type) -> Iterator[tuple[str, object]]:
    if dataclasses.is_dataclass(kind):
        yield from ((field.name, field.default) for field in dataclasses.fields(kind))
        return
    for field in msgspec.structs.fields(kind):
        yield field.name, field.default


def _inner(hint: object) -> type | None:
    """The section that a value of this type is, or the one that its values are."""
    for kind in (hint, *get_args(hint)[1:]):
        if isinstance(kind, type) and issubclass(kind, msgspec.Struct):
            return kind
    return None


def value(default: object) -> str:
    """A default as TOML has it."""
    if default is None or default is inspect.Parameter.empty or default is msgspec.NODEFAULT:
        return "unset"
    if isinstance(default, Mapping):
        return "{}" if not default else "{" + ", ".join(f"{k} = {_toml(v)}" for k, v in default.items()) + "}"
    return _toml(default)


def _toml(default: object) -> str:
    if isinstance(default, tuple | list | frozenset):
        return "[" + ", ".join(_toml(v) for v in default) + "]"
    return f"{default:g}" if isinstance(default, float) and default < 1e6 else json.dumps(default)


def _table(sections: Mapping[str, type], words: Mapping[str, str]) -> Iterator[str]:
    section = ""
    for name, default in keys(sections):
        head, _, key = name.rpartition(".")
        if head != section:
            section = head
            yield from ("", f"### [{section}]", "", "| key | default | what |", "|---|---|---|")
        yield f"| `{key}` | `{value(default)}` | {words[name]} |"


def _options() -> Iterator[str]:
    yield from ("| check | options |", "|---|---|")
    for check in load().values():
        if check.options:
            told = (f"{key} = {value(p.default)}" for key, p in check.options.items())
            yield f"| `{check.name}` | {', '.join(f'`{text}`' for text in told)} |"


def page() -> str:
    """The whole page."""
    server, node = _table(SERVER_SECTIONS, SERVER), _table(NODE_SECTIONS, NODE)
    parts = [_HEAD + _SERVER_HEAD.rstrip("\n"), *server, _NODE_HEAD.rstrip("\n"), *node, _CHECKS_HEAD, *_options()]
    return "\n".join(parts) + "\n" + _TAIL
