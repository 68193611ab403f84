"""A configuration that cannot be used still yields the paths by which the agent can say so."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from daemon.config import DEFAULT_PATH, SIZE_LIMIT, AgentSettings, CentralSettings, Config, HostSettings, SlurmSettings

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

T = TypeVar("T", bound=msgspec.Struct)
_LINE = re.compile(r"at line (\d+)")
_TRIES = 50


def rescue(path: Path | None, env: Mapping[str, str]) -> Config:
    """Every single setting that is good by itself, defaults for the others, and no check's settings at all."""
    raw = _tables(_text(path or Path(env.get("NODEVET_CONFIG") or DEFAULT_PATH)))
    agent = _good(AgentSettings, raw.get("agent"), "AGENT", env)
    if agent.node is None and env.get("SLURMD_NODENAME"):
        agent = msgspec.structs.replace(agent, node=env["SLURMD_NODENAME"])
    central = _good(CentralSettings, raw.get("central"), "CENTRAL", env)
    host = _good(HostSettings, raw.get("host"), "HOST", env)
    defaults = AgentSettings()
    budgets = {name: getattr(defaults, name) for name in defaults.__struct_fields__ if name.endswith("_budget")}
    return Config(msgspec.structs.replace(agent, **budgets), central, host, SlurmSettings(), {}, {}, path)


def _text(path: Path) -> str:
    """The file's text, nothing when others could have written it."""
    try:
        with path.open("rb") as file:
            seen = os.fstat(file.fileno())
            if seen.st_uid not in (0, os.geteuid()) or seen.st_mode & 0o022:
                return ""
            return file.read(SIZE_LIMIT).decode("utf-8", "replace")
    except OSError:
        return ""


def _tables(text: str) -> dict[str, Any]:
    """The TOML without the lines that its parser complains about."""
    lines = text.splitlines()
    for _ in range(_TRIES):
        try:
            return tomllib.loads("\n".join(lines))
        except tomllib.TOMLDecodeError as error:
            found = _LINE.search(str(error))
            number = int(found.group(1)) if found else len(lines)
            if not lines or number > len(lines):
                lines = lines[:-1]
                continue
            del lines[number - 1]
    return {}


def _good(kind: type[T], table: object, section: str, env: Mapping[str, str]) -> T:
    given = dict(table) if isinstance(table, dict) else {}
    for name in kind.__struct_fields__:
        if (value := env.get(f"NODEVET_{section}_{name.upper()}")) is not None:
            given[name] = value
    kept: dict[str, object] = {}
    for name, value in given.items():
        if name not in kind.__struct_fields__:
            continue
        try:
            kept[name] = getattr(msgspec.convert({name: value}, kind, strict=False), name)
        except msgspec.ValidationError:
            continue
    return msgspec.convert(kept, kind, strict=False)
