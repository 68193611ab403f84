"""A simulated host is a directory: its tree, its NVML, its kernel log and the faults that are in force."""

from __future__ import annotations

import shutil
import time
import uuid
from contextlib import suppress
from datetime import datetime, timezone
from pathlib import Path

from deploy.simcluster import (  # noqa: F401 - modules of faults are imported so that their faults are known
    dcgm_faults,
    driver_faults,
    fabric_faults,
    gpu_faults,
    hang_fs,
    host_faults,
    net_faults,
    storage_faults,
)
from deploy.simcluster.faults import FAULTS, Effects, Site, Target
from deploy.simcluster.nvml.build import CUDA_SONAME, SONAME, build, build_cuda
from deploy.simcluster.nvml.state import NvmlState
from deploy.simcluster.record import ActiveFault, Boot, Record
from deploy.simcluster.tree import PROFILES, Content, Identity, baseline, proc, put, write_tree
from deploy.simcluster.tree import commands as recordings
from deploy.simcluster.tree.board import UPTIME
from deploy.simcluster.tree.files import boot_messages, device_files, hide


class UnknownFault(ValueError):
    """There is no such fault, or it does not take this target."""


class SimHost:
    """One node without hardware below ``folder``; several processes may use the same one at once.

    ``cache`` keeps the compiled NVML; it lies beside ``folder`` unless given.
    """

    def __init__(self, folder: Path, name: str, *, profile: str = "hgx-h100", cache: Path | None = None) -> None:
        self.folder = folder.resolve()
        self.name = name
        self.board = PROFILES[profile]
        self._record = Record(self.folder)
        self._cache = cache or self.folder.parent / "nvml-build"

    # -- where its parts lie

    @property
    def sysroot(self) -> Path:
        """The root of the generated tree."""
        return self.folder / "root"

    @property
    def kmsg(self) -> Path:
        """The growing file of kernel log records."""
        return self.sysroot / "dev/kmsg"

    @property
    def nvml_library(self) -> Path:
        """The library to load in place of the driver's; its state lies beside it."""
        return self.folder / "lib" / SONAME

    @property
    def nvml(self) -> NvmlState:
        """What the stand-in for NVML answers from."""
        return NvmlState(self.folder / "lib" / "nvml.state")

    @property
    def identity(self) -> Identity:
        """Name and current boot of the node."""
        boot = self._record.boot
        return Identity(name=self.name, boot_id=boot.boot_id, btime=boot.btime)

    # -- life

    def create(self) -> SimHost:
        """Write everything for a healthy node; an existing one keeps its boot and its faults."""
        (self.folder / "lib").mkdir(parents=True, exist_ok=True)
        with self._record.locked():
            # Copies, not links: a library finds its state beside itself even when a reader resolves links.
            for built, library in (
                (build(self._cache), self.nvml_library),
                (build_cuda(self._cache), self.nvml_library.with_name(CUDA_SONAME)),
            ):
                fresh = library.with_suffix(".new")
                shutil.copyfile(built, fresh)
                fresh.replace(library)
            if not self._record.exists:
                self._record.faults = []
                self._record.boot = Boot(boot_id=str(uuid.uuid4()), btime=int(time.time()) - UPTIME)
                write_tree(self.sysroot, self.board, self.identity)
                self._render([], [])
        return self

    def reboot(self) -> None:
        """Begin a new boot: new boot id and kernel log; faults stay in force until healed."""
        with self._record.locked():
            worn = self._record.boot.wear
            self._record.boot = Boot(boot_id=str(uuid.uuid4()), btime=int(time.time()))
            for path in ("proc/sys/kernel/random/boot_id", "proc/stat", *worn):
                put(self.sysroot, path, self._healthy()[path])
            put(self.sysroot, "proc/uptime", "1.00 1.00\n")
            boot_messages(self.sysroot, self.board)
            active = self._record.faults
            self._render(active, active)

    def close(self) -> None:
        """Take away the mounts of this host's faults; call it before the folder is removed."""
        with self._record.locked():
            active = self._record.faults
            for one in active:
                self._end_mount(one)
            self._record.faults = [one for one in active if not self._effects(one).mount]

    # -- faults

    def inject(self, fault: str, **target: Target) -> ActiveFault:
        """Put a fault in force and return it; the same fault on the same target replaces itself."""
        effects = _effects(fault, Site(self.board, self.identity), target)
        with self._record.locked():
            before = self._record.faults
            same = [one for one in before if (one.name, one.target) == (fault, target)]
            for one in same:
                self._end_mount(one)
            pid = self._begin_mount(effects)
            struck = ActiveFault(fault, dict(target), datetime.now(timezone.utc), pid)
            after = [one for one in before if one not in same] + [struck]
            self._record.faults = after
            self._wear(effects)
            self._render(before, after)
            for priority, text in effects.kernel:
                self._log(text, priority=priority)
        return struck

    def heal(self, fault: str | None = None, **target: Target) -> list[ActiveFault]:
        """End all faults, or those of one name, or the one on one target; return what was ended.

        What the kernel has logged and what counters have counted stays, as on hardware; a repair that the driver
        reports is logged behind it.
        """
        if fault is not None and fault not in FAULTS:
            raise UnknownFault(f"fault {fault!r} is not known; known: {', '.join(sorted(FAULTS))}")
        with self._record.locked():
            before = self._record.faults
            ended = [one for one in before if fault in {None, one.name} and (not target or one.target == target)]
            after = [one for one in before if one not in ended]
            for one in ended:
                self._end_mount(one)
            self._record.faults = after
            self._render(before, after)
            for priority, text in (line for one in ended for line in self._effects(one).kernel_healed):
                self._log(text, priority=priority)
        return ended

    def faults(self) -> list[ActiveFault]:
        """Return the faults in force, oldest first."""
        with self._record.locked():
            return self._record.faults

    def kernel_says(self, text: str, *, priority: int = 4, facility: int = 0) -> None:
        """Append a record to the kernel log; facility 1 is a user's line, which proves nothing."""
        with self._record.locked():
            self._log(text, priority=priority, facility=facility)

    # -- inside; everything below runs with the lock held

    def _healthy(self) -> dict[str, Content]:
        files = baseline(self.board, self.identity)
        for path, count in self._record.boot.wear.items():
            files[path] = worn(files.get(path), count)
        return files

    def _effects(self, one: ActiveFault) -> Effects:
        return _effects(one.name, Site(self.board, self.identity), one.target)

    def _render(self, before: list[ActiveFault], after: list[ActiveFault]) -> None:
        """Bring files and NVML from the old set of faults to the new one."""
        healthy, wanted = self._healthy(), self._overrides(after)
        for path in {**self._overrides(before), **wanted}:
            if path in wanted or path in healthy:
                put(self.sysroot, path, wanted.get(path, healthy.get(path, "")))
            else:
                gone = self.sysroot / path
                gone.unlink(missing_ok=True)
                with suppress(OSError):  # others are still in it
                    gone.parent.rmdir()
        device_files(self.sysroot, self.board)
        hide(self.sysroot, self.folder / "gone", {path for one in after for path in self._effects(one).gone})
        pairs = self._nvml_of_healthy()
        for one in after:
            for key, value in self._effects(one).nvml.items():
                joined = key.endswith(".processes") and key in pairs
                pairs[key] = f"{pairs[key]},{value}" if joined else value
        self.nvml.write(pairs)

    def _overrides(self, faults: list[ActiveFault]) -> dict[str, Content]:
        files: dict[str, Content] = {}
        failed: frozenset[str] = frozenset()
        mounted = []
        for one in faults:
            effects = self._effects(one)
            mounted += [effects.mount[1]] if effects.mount else []
            files.update(effects.files)
            failed |= effects.failed_units
        if failed:
            files.update(recordings.units(failed))
        return {**files, **proc.mounts(mounted)} if mounted else files

    def _nvml_of_healthy(self) -> dict[str, str | int]:
        pairs: dict[str, str | int] = {"count": len(self.board.gpus), "latency.scale": 1}
        for gpu in range(len(self.board.gpus)):
            pairs[f"gpu.{gpu}.uuid"] = self.identity.gpu_uuid(gpu)
            pairs[f"gpu.{gpu}.serial"] = self.identity.serial(gpu)
            pairs[f"gpu.{gpu}.bdf"] = self.board.gpu_bdf(gpu)
            pairs[f"gpu.{gpu}.minor"] = self.board.minors[gpu]
        return pairs

    def _wear(self, effects: Effects) -> None:
        boot = self._record.boot
        wear = {**boot.wear, **{path: boot.wear.get(path, 0) + more for path, more in effects.wear.items()}}
        new = baseline(self.board, self.identity)
        for path in effects.wear:
            put(self.sysroot, path, worn(new.get(path), wear[path]))
        self._record.boot = Boot(boot_id=boot.boot_id, btime=boot.btime, wear=wear)

    def _log(self, text: str, *, priority: int, facility: int = 0) -> None:
        since_boot = int((time.time() - self.identity.btime) * 1e6)
        with self.kmsg.open("rb+") as file:
            last = [line for line in file.read().split(b"\n") if line[:1].isdigit()]
            number = int(last[-1].split(b",")[1]) + 1 if last else 0
            line = f"{facility << 3 | priority},{number},{since_boot},-;{_escaped(text)}\n"
            file.write(line.encode())

    def _begin_mount(self, effects: Effects) -> int:
        if effects.mount is None:
            return 0
        kind, path, delay = effects.mount
        where = self.sysroot / path.lstrip("/")
        where.mkdir(parents=True, exist_ok=True)
        if kind == "full":
            hang_fs.mount("full", where, "tmpfs", "size=64k,mode=1777")
            (where / "filler").write_bytes(bytes(64 << 10))
            return 0
        return hang_fs.start(where, delay)

    def _end_mount(self, one: ActiveFault) -> None:
        if mounted := self._effects(one).mount:
            hang_fs.stop(one.pid, self.sysroot / mounted[1].lstrip("/"))


def _effects(name: str, site: Site, target: dict[str, Target]) -> Effects:
    if name not in FAULTS:
        raise UnknownFault(f"fault {name!r} is not known; known: {', '.join(sorted(FAULTS))}")
    try:
        return FAULTS[name](site, **target)
    except (TypeError, IndexError, KeyError, ValueError) as error:
        raise UnknownFault(f"fault {name} does not fit this target: {error}") from error


def worn(new: Content | None, count: int) -> str:
    """Return the text of a counter that has counted since it was new."""
    return f"{int(new or 0) + count}\n"


def _escaped(text: str) -> str:
    """Write what is not printable as the kernel does."""
    return "".join(char if char.isprintable() and char != "\\" else f"\\x{ord(char) & 0xFF:02x}" for char in text)
