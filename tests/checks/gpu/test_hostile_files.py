"""Whatever stands in the driver's files, a container's description or a library, nothing breaks and nothing drains."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory

from hypothesis import given, settings
from hypothesis import strategies as st

from checks import Host
from checks.catalog import load
from checks.gpu.libraries import trouble_of
from checks.gpu.mig import gpu_mig, mig_state
from checks.runner import run_check
from checks.wire import Finding
from tests.checks.gpu.test_mig import SEVEN
from tests.fakes import h100s, pci_tree, write_tree

LINES = st.one_of(
    st.binary(max_size=200),
    st.sampled_from([b"Device Minor: ", b"Video BIOS: \t ??", b"GPU Excluded:\t Yes\n", b"kind: nvidia.com/gpu\n",
                     b"/dev/nvidia", b"99999999999999999999", b"libcuda.so.5", b"195 nvidia\n", b":::", b"0-99999999",
                     b"-1\n", b"spank_pyxis.so /x", b"\xff" * 9]),
)  # fmt: skip
TEXT = st.lists(LINES, max_size=6).map(b"".join)
FILES = (
    "/proc/devices", "/proc/driver/nvidia/params", "/proc/driver/nvidia/version", "/proc/modules",
    "/proc/driver/nvidia/gpus/0000:18:00.0/information", "/etc/cdi/nvidia.yaml", "/etc/slurm/plugstack.conf",
    "/proc/driver/nvidia/capabilities/gpu0/mig/gi1/access", "/sys/devices/system/cpu/online",
    "/sys/devices/system/cpu/present", "/sys/bus/pci/devices/0000:18:00.0/local_cpulist",
    "/sys/bus/pci/devices/0000:18:00.0/numa_node", "/sys/devices/system/node/node0/cpulist",
    "/proc/sys/kernel/osrelease",
)  # fmt: skip
ASKED: dict[str, dict[str, object]] = {
    "gpu_device_files": {"mode": "0666"},
    "gpu_peermem": {"expected": True, "gdrcopy": True},
    "gpu_affinity": {"nodes": 2},
    "gpu_containers": {"cdi": True, "enroot": True, "pyxis": True},
    "gpu_inventory": {},
}


@settings(max_examples=25, deadline=None)
@given(st.fixed_dictionaries({}, optional=dict.fromkeys(FILES, TEXT)))
def test_no_file_ends_a_check_or_drains_a_node(files: dict[str, bytes]) -> None:
    with TemporaryDirectory(prefix="nv-hostile-") as folder:
        root = Path(folder)
        write_tree(root, {**pci_tree(1), "/dev/nvidiactl": "", **files})
        host = Host(root=root, simulated=True)
        host._nvml = h100s(1)
        found: list[Finding] = []
        for name, options in ASKED.items():
            found += run_check(load()[name], host, options).findings
        # A file of the kernel's that is missing is our own trouble; nothing is a fault.
        assert not [f for f in found if f.status == "fail"]
        assert all(f.blame == "self" for f in found if f.status == "unknown")


@settings(max_examples=100, deadline=None)
@given(st.binary(max_size=200), st.booleans())
def test_any_bytes_are_a_library_or_none(content: bytes, magic: bool) -> None:
    with TemporaryDirectory(prefix="nv-hostile-") as folder:
        path = Path(folder) / "libcuda.so.1"
        path.write_bytes((b"\x7fELF\x02\x01" if magic else b"") + content)
        assert trouble_of(path) in ("", "has 0 bytes", "is no library") or "cut off" in trouble_of(path)


@settings(max_examples=100, deadline=None)
@given(st.text(alphabet="gpu:a100_1g.5b,()SIDX0123456789no_consume \n\x00", max_size=60))
def test_any_layout_is_understood_or_our_own_trouble(layout: str) -> None:
    nvml = h100s(1)
    nvml[0].told[mig_state] = SEVEN
    # Something speaks of a GPU, so the check looks; the tree is nowhere.
    host = Host(root=Path("/dev/null/nowhere"), nvml_library=Path("/dev/null/lib"), simulated=True)
    host._nvml = nvml
    assert all(f.blame in (None, "self", "config") for f in gpu_mig(host, layout=layout))
