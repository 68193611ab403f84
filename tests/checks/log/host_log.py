"""A kernel log that a test writes while kernel_events listens to it."""

from __future__ import annotations

from pathlib import Path

from checks import Finding
from checks.log.kernel_events import kernel_events
from tests.fakes import Plant


class Log:
    """A host whose kernel log a test appends to; the first round has been read."""

    def __init__(self, plant: Plant, path: Path, before: str = "") -> None:
        self.path, self.sequence, self.seconds, self.clock = path, 100, 100.0, 1000.0
        path.write_text("6,1,1000000,-;Linux version 6.8\n" + before)
        tree = {"/proc/uptime": "9000.0 1.0", "/proc/sys/kernel/random/boot_id": "boot-1\n"}
        self.host = plant(tree | {"/proc/sys/kernel/tainted": "0\n"}, kmsg=path)
        self.host.clock = lambda: self.clock
        list(kernel_events(self.host))

    def write(self, *texts: str, priority: int = 4) -> None:
        with self.path.open("a") as file:
            for text in texts:
                self.sequence += 1
                file.write(f"{priority},{self.sequence},{int(self.seconds * 1e6)},-;{text}\n")

    def found(self) -> list[Finding]:
        return list(kernel_events(self.host))
