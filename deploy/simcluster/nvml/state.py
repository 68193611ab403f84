"""The state file of one host's NVML stand-in; its grammar stands in stand_in.h."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterable, Mapping
from pathlib import Path

HEADER = "# simulated NVML: no GPU answers here\n"


class NvmlState:
    """Keys and values that the stand-in reads; every change replaces the file at once by rename."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def read(self) -> dict[str, str]:
        """Return all keys and values in force."""
        pairs = {}
        for line in self.path.read_text().splitlines():
            key, space, value = line.partition(" ")
            if space and not line.startswith("#"):
                pairs[key] = value
        return pairs

    def write(self, pairs: Mapping[str, str | int]) -> None:
        """Put exactly these pairs in force."""
        for key, value in pairs.items():
            if not key or any(sign in f"{key}" for sign in " \n#") or "\n" in str(value):
                raise ValueError(f"key {key!r} with value {value!r} does not fit on one line of the state file")
        text = HEADER + "".join(f"{key} {value}\n" for key, value in pairs.items())
        handle, name = tempfile.mkstemp(dir=self.path.parent, prefix=f".{self.path.name}.")
        with os.fdopen(handle, "w") as file:
            file.write(text)
            os.fchmod(file.fileno(), 0o644)
        os.replace(name, self.path)

    def change(self, pairs: Mapping[str, str | int], *, remove: Iterable[str] = ()) -> None:
        """Set ``pairs`` and drop the keys in ``remove``; the rest stays."""
        gone = set(remove)
        kept: dict[str, str | int] = {key: value for key, value in self.read().items() if key not in gone}
        self.write({**kept, **pairs})
