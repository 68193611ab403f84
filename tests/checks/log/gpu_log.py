"""A kernel log that a test writes GPU errors to while kernel_xid listens to it."""

from __future__ import annotations

from pathlib import Path

from checks import Finding
from checks.log.kernel_xid import kernel_xid
from tests.fakes import BDFS, Plant, pci_tree

GPU = BDFS[3]
UPTIME = {"/proc/uptime": "9000.0 1.0", "/proc/sys/kernel/random/boot_id": "boot-1\n"}


class Log:
    """A host whose kernel log a test appends to; the first round has been read."""

    def __init__(
        self,
        plant: Plant,
        path: Path,
        tree: dict[str, str | bytes] | None = None,
        *,
        remembered: object = None,
        boot: str = "boot-1",
    ) -> None:
        self.path = path
        self.sequence = 100
        self.seconds = 100.0
        path.write_text("6,1,1000000,-;Linux version 6.8\n")
        booted = {"/proc/sys/kernel/random/boot_id": f"{boot}\n"}
        self.host = plant((pci_tree() if tree is None else tree) | UPTIME | booted, kmsg=path)
        self.host.memory = {"sightings": remembered}
        self.clock = 1000.0
        self.host.clock = lambda: self.clock
        list(kernel_xid(self.host))

    def write(self, *texts: str, priority: int = 4) -> None:
        with self.path.open("a") as file:
            for text in texts:
                self.sequence += 1
                file.write(f"{priority},{self.sequence},{int(self.seconds * 1e6)},-;{text}\n")

    def xid(self, number: int, text: str = "", *, pid: int | None = None, gpu: str = GPU) -> None:
        who = f"pid={pid}, name=python3" if pid else "pid='<unknown>', name=<unknown>"
        self.write(f"NVRM: Xid (PCI:{gpu[:-2]}): {number}, {who}, {text}")

    def found(self) -> list[Finding]:
        return list(kernel_xid(self.host))

    def brief(self) -> list[tuple[str, str, str | None]]:
        return [(f.code, f.status, f.blame) for f in self.found()]
