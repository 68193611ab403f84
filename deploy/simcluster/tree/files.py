"""A tree is a set of files and links below one root, written so that a reader never sees half a file."""

from __future__ import annotations

import os
import shutil
import stat
import tempfile
from pathlib import Path

from deploy.simcluster.tree import commands, controller, dcgm, firmware, groups, pci, proc, rdma, storage
from deploy.simcluster.tree.board import DRIVER, Board, Identity, bdf
from deploy.simcluster.tree.proc import NVIDIA_MAJORS

Content = str | bytes
LABEL = "etc/nodevet-simulated"


def baseline(board: Board, identity: Identity) -> dict[str, Content]:
    """Return every regular file of a healthy node by its path below the root."""
    return {
        **pci.files(board),
        **rdma.files(board, identity),
        **proc.files(board, identity),
        **firmware.files(board),
        **groups.files(),
        **storage.files(identity),
        LABEL: f"{identity.name}: this node's hardware is simulated\n",
        "etc/hostname": f"{identity.name}\n",
        "etc/machine-id": f"{identity.machine_id}\n",
        "etc/os-release": 'NAME="Simulated Linux"\nID=simulated\nPRETTY_NAME="Simulated node"\n',
        "etc/fstab": "".join(
            f"{source} {where} {kind} {options} 0 0\n"
            for _, _, _, where, options, kind, source in proc.MOUNTS
            if where in {"/", "/home", "/scratch"}
        ),
        "etc/slurm/gres.conf": f"NodeName={identity.name} Name=gpu File=/dev/nvidia[0-{len(board.gpus) - 1}]\n",
        "sys/class/dmi/id/sys_vendor": "Nodevet simulation\n",
        "sys/class/dmi/id/product_name": "HGX H100 (simulated)\n",
        "sys/class/dmi/id/bios_version": "1.4.2-sim\n",
        "sys/class/dmi/id/product_serial": f"SIM-{identity.name}\n",
        **commands.chrony(commands.IN_STEP),
        **commands.units(frozenset()),
        **controller.bmc(),
        **dcgm.recordings(board, identity),
    }


def directories(board: Board) -> list[str]:
    """Return the folders that exist although no file makes them."""
    drivers = [f"sys/bus/pci/drivers/{driver}" for driver in sorted(pci.drivers(board))]
    return ["dev/shm", "dev/infiniband", "home", "scratch", "tmp", "run", "var/log", "var/tmp", *drivers]


def put(root: Path, path: str, content: Content) -> None:
    """Write one file below the root, whole or not at all."""
    target = root / path
    target.parent.mkdir(parents=True, exist_ok=True)
    data = content.encode() if isinstance(content, str) else content
    handle, fresh = tempfile.mkstemp(dir=target.parent, prefix=".new-")
    with os.fdopen(handle, "wb") as file:
        file.write(data)
        os.fchmod(file.fileno(), 0o644)
    os.replace(fresh, target)


def hide(root: Path, store: Path, wanted: set[str]) -> None:
    """Move what faults take away out of the tree, and back what they no longer do."""
    store.mkdir(exist_ok=True)
    for kept in store.iterdir():
        path = kept.name.replace("!", "/")
        if path not in wanted:
            _remove(root / path)
            (root / path).parent.mkdir(parents=True, exist_ok=True)
            kept.rename(root / path)
    for path in sorted(wanted):
        kept = store / path.replace("/", "!")
        if os.path.lexists(kept):
            _remove(root / path)
        elif os.path.lexists(root / path):
            (root / path).rename(kept)


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def write_tree(root: Path, board: Board, identity: Identity) -> None:
    """Write the whole tree of a healthy node below ``root``; what is there already is replaced."""
    for folder in directories(board):
        (root / folder).mkdir(parents=True, exist_ok=True)
    for shared in ("tmp", "var/tmp", "dev/shm"):
        (root / shared).chmod(0o1777)
    for path, content in baseline(board, identity).items():
        target = root / path
        target.parent.mkdir(parents=True, exist_ok=True)
        data = content.encode() if isinstance(content, str) else content
        target.write_bytes(data)
    for path, to in {**pci.links(board), **rdma.links(board)}.items():
        link = root / path
        if not link.is_symlink():
            link.symlink_to(to)
    device_files(root, board)
    boot_messages(root, board)


def device_files(root: Path, board: Board) -> None:
    """Make the device files that are missing."""
    names = {f"nvidia{minor}": (NVIDIA_MAJORS["nvidia"], minor) for minor in board.minors}
    names["nvidiactl"] = NVIDIA_MAJORS["nvidiactl"], 255
    names["nvidia-uvm"], names["nvidia-uvm-tools"] = ((NVIDIA_MAJORS["nvidia-uvm"], minor) for minor in (0, 1))
    for name, (major, minor) in names.items():
        device = root / "dev" / name
        if device.exists():
            continue
        if may_make_devices():
            # The right numbers lead nowhere: no driver on this machine answers to them.
            os.mknod(device, 0o666 | stat.S_IFCHR, os.makedev(major, minor))
            device.chmod(0o666)
        else:
            device.touch(mode=0o666)
    for index in range(len(board.hcas)):
        (root / f"dev/infiniband/uverbs{index}").touch()


def may_make_devices() -> bool:
    """Whether device files with NVIDIA's major numbers can be made and would reach no real device."""
    drivers = Path("/proc/devices").read_text().split()
    return os.geteuid() == 0 and not {str(major) for major in NVIDIA_MAJORS.values()} & set(drivers)


def boot_messages(root: Path, board: Board) -> None:
    """Begin a new kernel log, as a boot does."""
    lines = ["Linux version 6.8.0-simulated (nodevet simulation)", f"NVRM: loading NVIDIA UNIX driver {DRIVER}"]
    maker = board.maker
    for bus in board.hcas if maker.told else ():
        lines.append(f"{maker.function[4]} {bdf(bus)}: firmware version: {maker.told[0] if maker.told else ''}")
    records = "".join(f"6,{seq},{(seq + 1) * 250_000},-;{text}\n" for seq, text in enumerate(lines))
    put(root, "dev/kmsg", records)
