"""Run as a program: asks every check of one tree, under every profile, and tells what was touched outside of it."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from checks import Host
from checks import host as host_module
from checks.catalog import load
from checks.profile import profiles, typed_options
from checks.runner import run_check

Settings = dict[str, dict[str, object]]
ACTS = {
    "subprocess.Popen", "os.system", "os.exec", "os.posix_spawn", "os.fork", "os.forkpty", "os.kill", "ctypes.dlopen",
    "socket.connect", "socket.bind", "socket.sendto", "socket.getaddrinfo", "os.remove", "os.rename", "os.mkdir",
    "os.rmdir", "os.chmod", "os.symlink", "os.link", "os.truncate",
}  # fmt: skip
PLACES = {"open", "os.listdir", "os.scandir"}
WRAPPED = ("stat", "lstat", "readlink", "statvfs", "access")
# Our own files, the interpreter's, and the site's policy are no part of the node that is looked at.
OWN = tuple({str(Path(p).resolve()) for p in (sys.prefix, sys.base_prefix, Path(__file__).parents[2])})
POLICY = "/etc/nodevet/"
# Where a file that was opened lies is asked to prove that it lies inside.
PROVEN = "readlink /proc/self/fd/"


def main(root: Path, choices: Settings, chosen: str, hidden: list[str]) -> None:
    """Ask all, under the ``chosen`` profile or under every one, of the tree without each part that is to be hidden."""
    root = root.resolve()
    home = str(root)
    touched: dict[str, str] = {}
    asking = [""]

    def outside(event: str, path: object) -> None:
        text = os.fsdecode(path) if isinstance(path, str | bytes | os.PathLike) else ""
        within = text == home or text.startswith(home + "/") or home.startswith(text.rstrip("/") + "/")
        if f"{event} {text}".startswith(PROVEN):
            return
        if asking[0] and text.startswith("/") and not within and not text.startswith((*OWN, POLICY)):
            touched.setdefault(f"{asking[0]}: {event} {text}", "")

    def heard(event: str, args: tuple[object, ...]) -> None:
        if event in ACTS and asking[0]:
            touched.setdefault(f"{asking[0]}: {event} {args!r:.200}", "")
        elif event in PLACES:
            outside(event, args[0])

    for name in WRAPPED:
        setattr(os, name, _watched(name, getattr(os, name), outside))
    sys.addaudithook(heard)
    parts = {}
    for part in hidden or [""]:
        aside = root.parent / "aside"
        if part:
            (root / part).rename(aside)
        parts[part] = [*_ask_all(root, choices, chosen, asking)]
        if part:
            aside.rename(root / part)
    asking[0] = "control"
    with open("/proc/self/comm") as file:
        file.read()
    asking[0] = ""
    sys.stdout.write(json.dumps({"touched": sorted(touched), "fails": parts}))


def _ask_all(root: Path, choices: Settings, chosen: str, asking: list[str]) -> Iterator[list[str]]:
    """What is not well of one tree: profile, check, status, code, blame, message."""
    for profile in profiles().values():
        if chosen not in ("", profile.name):
            continue
        host = Host(root=root)
        host_module._KEPT.clear()
        for name, declared in load().items():
            settings = {**choices.get(name, {}), **profile.checks.get(name, {})}
            options = typed_options(name, settings, where=profile.name)
            asking[0] = name
            for found in run_check(declared, host, options).findings:
                if found.status in ("fail", "warn"):
                    yield [profile.name, name, found.status, found.code, str(found.blame), found.message]
            asking[0] = ""


def _watched(name: str, real: Any, outside: Any) -> Any:
    def asked(path: Any, *args: Any, **more: Any) -> Any:
        if "dir_fd" not in more:
            outside(name, path)
        return real(path, *args, **more)

    return asked


if __name__ == "__main__":
    main(Path(sys.argv[1]), json.loads(sys.argv[2]), sys.argv[3], json.loads(sys.argv[4]))
