"""Run as a program: spoils each file that a healthy node's checks read, one at a time, and tells what is then said."""

from __future__ import annotations

import errno
import json
import os
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from checks import Check, Host
from checks import host as host_module
from checks.catalog import load
from checks.profile import match_profile, profiles, typed_options
from checks.runner import run_check
from deploy.simcluster.host import SimHost

KINDS = ("removed", "emptied", "garbled", "numbers", "huge", "EACCES", "EIO")
CONTENT = {
    "emptied": b"", "garbled": b"\xff\x00;%s{}\n\x1b[31m<script>\n", "numbers": b"-1\n", "huge": b"9" * 40 + b"\n",
}  # fmt: skip
KEPT_APART = {"etc/nodevet-simulated"}


class Spoiled:
    """The tree in which at most one file cannot be opened; also remembers who opened what."""

    def __init__(self, root: Path) -> None:
        self.root = str(root)
        self.reading = ""
        self.readers: dict[str, set[str]] = {}
        self.broken: dict[str, int] = {}
        self._open = os.open
        os.open = self.open
        sys.addaudithook(self._heard)

    def open(self, path: Any, *args: Any, **more: Any) -> int:
        if number := self.broken.get(os.fsdecode(path)):
            raise OSError(number, os.strerror(number), path)
        return self._open(path, *args, **more)

    def _heard(self, event: str, args: tuple[Any, ...]) -> None:
        if event == "open" and self.reading and isinstance(args[0], str | bytes | os.PathLike):
            real = os.path.realpath(os.fsdecode(args[0]))
            if real.startswith(self.root + "/") and os.path.isfile(real):
                self.readers.setdefault(real, set()).add(self.reading)


class Node:
    """One healthy simulated node and all checks that may be asked of it beside a job."""

    def __init__(self, folder: Path) -> None:
        self.sim = SimHost(folder / "n1", "n1", cache=folder / "nvml").create()
        self.sim.nvml.change({"latency.scale": 0})
        self.spoiled = Spoiled(self.sim.sysroot)
        self.checks = {n: c for n, c in load().items() if c.cost == "passive" and not c.per_job}
        self.profile = match_profile(self.fresh(), profiles())
        self.host = self.fresh()
        self.look = 0

    def fresh(self) -> Host:
        return Host(
            root=self.sim.sysroot, kmsg=self.sim.kmsg, nvml_library=self.sim.nvml_library, simulated=True,
        )  # fmt: skip

    def ask(self, names: set[str]) -> Iterator[tuple[str, str, str, str]]:
        """What is wrong according to these checks: check, status, code, blame."""
        self.look += 1
        self.host.look = self.look
        for name in sorted(names & self.checks.keys()):
            self.spoiled.reading = name
            found = run_check(self.checks[name], self.host, self.options(self.checks[name])).findings
            self.spoiled.reading = ""
            yield from ((name, f.status, f.code, str(f.blame)) for f in found if f.status not in ("ok", "skipped"))

    def options(self, declared: Check) -> dict[str, object]:
        given = {"mount": {"paths": ["/scratch"]}, "services": {"units": ["munge.service"]}}.get(declared.name, {})
        return typed_options(declared.name, {**given, **self.profile.checks.get(declared.name, {})}, where="test")

    def anew(self, names: set[str]) -> list[tuple[str, str, str, str]]:
        """Forget everything, and look at the healthy node."""
        host_module._KEPT.clear()
        self.host.memory, self.host.keeps = {}, {}
        return list(self.ask(names))


def main(folder: Path) -> None:
    """Print what the healthy node and each spoiled one is told to have."""
    node = Node(folder)
    everyone = set(node.checks)
    healthy = [*node.anew(everyone), *node.ask(everyone)]
    told = []
    readers = {path: frozenset(names) for path, names in node.spoiled.readers.items()}
    chosen = _one_of_each(readers, str(node.sim.sysroot))
    for path in chosen:
        names = set(readers[path])
        for kind in KINDS:
            node.anew(names)
            with _Spoil(node.spoiled, Path(path), kind):
                said = {*node.ask(names), *node.ask(names)}
            told += [[os.path.relpath(path, node.sim.sysroot), kind, *one] for one in sorted(said)]
    sys.stdout.write(json.dumps({"healthy": healthy, "files": len(chosen), "all": len(readers), "told": told}))


class _Spoil:
    def __init__(self, spoiled: Spoiled, path: Path, kind: str) -> None:
        self._spoiled, self._path, self._kind = spoiled, path, kind
        self._before = path.read_bytes()

    def __enter__(self) -> None:
        if self._kind in CONTENT:
            self._path.write_bytes(CONTENT[self._kind])
        elif self._kind == "removed":
            self._path.unlink()
        else:
            self._spoiled.broken[str(self._path)] = getattr(errno, self._kind)

    def __exit__(self, *_: object) -> None:
        self._spoiled.broken.clear()
        self._path.write_bytes(self._before)


def _one_of_each(readers: dict[str, frozenset[str]], root: str) -> list[str]:
    """Of files that differ in a number only (adapters, GPUs, processors) the second: it is neither first nor last."""
    classes: dict[tuple[str, frozenset[str]], list[str]] = {}
    for path in sorted(readers):
        if os.path.relpath(path, root) not in KEPT_APART:
            classes.setdefault((re.sub(r"[0-9a-f]*\d[0-9a-f]*", "N", path[len(root) :]), readers[path]), []).append(
                path
            )
    return [paths[min(1, len(paths) - 1)] for paths in classes.values()]


if __name__ == "__main__":
    main(Path(sys.argv[1]))
