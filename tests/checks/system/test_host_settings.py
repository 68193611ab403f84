"""Kernel settings, pressure and PCI express links are judged only by what is named, and never from one odd reading."""

from __future__ import annotations

import pytest

from checks import Finding, Host
from checks.catalog import load
from checks.runner import run_check
from tests.fakes import Plant

KERNEL: dict[str, str | bytes] = {
    "/proc/sys/kernel/osrelease": "6.8.0-60-generic\n",
    "/proc/cmdline": "BOOT_IMAGE=/vmlinuz root=/dev/sda2 ro iommu=pt\n",
    "/proc/modules": "nvidia_peermem 16384 0 - Live 0x0\nmlx5_core 1 2 - Live 0x0\n",
    "/proc/sys/net/core/rmem_max": "16777216\n",
    "/proc/sys/net/ipv4/tcp_rmem": "4096\t131072\t6291456\n",
    "/proc/sys/vm/nr_hugepages": "64\n",
    "/sys/devices/system/clocksource/clocksource0/current_clocksource": "hpet\n",
    "/sys/module/acpi_ipmi/initstate": "live\n",
}


def found(host: Host, check: str, **options: object) -> list[Finding]:
    return list(run_check(load()[check], host, options).findings)


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, ["not_applicable"]),
        ({"release": "6.8.0-60-generic"}, ["ok"]),
        ({"release": "6.8.0-61-generic"}, ["kernel_release_wrong"]),
        ({"arguments": ("iommu=pt",)}, ["ok"]),
        ({"arguments": ("iommu=p",)}, ["ok", "kernel_argument_wrong"]),
        ({"forbidden_arguments": ("ro",)}, ["ok", "kernel_argument_wrong"]),
        ({"sysctls": ("net.core.rmem_max = 16777216", "net.ipv4.tcp_rmem=4096 131072 6291456")}, ["ok"]),
        ({"sysctls": ("net.core.rmem_max=1",)}, ["ok", "sysctl_wrong"]),
        ({"sysctls": ("net.core.none=1",)}, ["ok", "sysctl_wrong"]),
        ({"sysctls": ("../../etc/passwd=1",)}, ["ok", "check_error"]),
        ({"modules": ("nvidia-peermem", "mlx5_core", "acpi_ipmi")}, ["ok"]),
        ({"modules": ("nvidia_fs",)}, ["ok", "kernel_module_absent"]),
        ({"clocksource": "tsc"}, ["ok", "clocksource_wrong"]),
        ({"hugepages": 64}, ["ok"]),
        ({"hugepages": 65}, ["ok", "hugepages_few"]),
    ],
)
def test_judges_the_kernel_by_what_is_named(plant: Plant, options: dict[str, object], expected: list[str]) -> None:
    seen = found(plant(KERNEL), "kernel_settings", **options)
    assert [f.code for f in seen] == expected
    assert {f.blame for f in seen if f.status == "warn"} <= {"config"}


def psi(full: str, swap_free: int = 100) -> dict[str, str | bytes]:
    return {
        "/proc/meminfo": f"MemTotal:       1000 kB\nSwapTotal:      100 kB\nSwapFree:       {swap_free} kB\n",
        "/proc/pressure/memory": f"some avg10=90.00 avg60=90.00 avg300=1.00 total=1\n{full}\n",
    }


@pytest.mark.parametrize(
    ("tree", "expected"),
    [
        (psi("full avg10=0.00 avg60=0.00 avg300=0.00 total=0"), ["ok"]),
        (psi("full avg10=0.00 avg60=35.50 avg300=0.00 total=0"), ["memory_pressure"]),
        (psi("full avg10=0.00 avg60=0.00 avg300=0.00 total=0", swap_free=10), ["swap_used", "ok"]),
        (psi("nonsense"), ["check_error"]),
        ({"/proc/meminfo": "MemTotal: 1000 kB\n"}, ["not_applicable"]),
    ],
)
def test_pressure_is_never_the_nodes(plant: Plant, tree: dict[str, str | bytes], expected: list[str]) -> None:
    seen = found(plant(tree), "pressure")
    assert [f.code for f in seen] == expected
    assert "node" not in {f.blame for f in seen}


def device(
    bdf: str, kind: str, width: object, *, vendor: str = "10de", most: int = 16, gts: str = "32.0 GT/s PCIe"
) -> dict[str, str | bytes]:
    base = f"/sys/bus/pci/devices/{bdf}"
    return {
        f"{base}/vendor": f"0x{vendor}\n",
        f"{base}/device": "0x2330\n",
        f"{base}/class": f"0x{kind}00\n",
        f"{base}/current_link_width": f"{width}\n",
        f"{base}/max_link_width": f"{most}\n",
        f"{base}/current_link_speed": f"{gts}\n",
    }


def gpus(*widths: object, **more: str) -> dict[str, str | bytes]:
    return {k: v for i, w in enumerate(widths) for k, v in device(f"0000:1{i}:00.0", "0302", w, **more).items()}  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("tree", "options", "expected"),
    [
        (gpus(16, 16, 16), {"gpu_width": 16}, ["ok"]),
        (gpus(16, 8, 16), {"gpu_width": 16}, ["pcie_width_low"]),
        (gpus(16, 8, 16), {}, ["pcie_width_odd"]),
        (gpus(8, 8, 8), {}, ["ok"]),
        (gpus(8, 8, 16, 16), {}, ["ok"]),
        (gpus(16, 16, 63), {"gpu_width": 16}, ["ok"]),
        (gpus(16, 16, 255), {"gpu_width": 16}, ["ok"]),
        (gpus(16, 16, "Unknown"), {"gpu_width": 16}, ["ok"]),
        (gpus(16, 16, gts="2.5 GT/s PCIe"), {"gpu_width": 16}, ["ok"]),
        (
            device("0000:5e:00.0", "0207", 16, vendor="15b3", gts="16.0 GT/s PCIe"),
            {"adapter_gts": 32.0},
            ["pcie_speed_low"],
        ),
        (device("0000:5e:00.0", "0207", 16, vendor="15b3", gts="Unknown"), {"adapter_gts": 32.0}, ["ok"]),
        (gpus(16, 8, gts="Unknown speed"), {"gpu_width": 16}, ["pcie_width_low"]),
        (device("0000:5e:00.0", "0108", 2, vendor="144d", most=4), {"disk_width": 4}, ["pcie_width_low"]),
        (device("0000:5e:00.0", "0200", 1, vendor="8086"), {"adapter_width": 16}, ["not_applicable"]),
        ({}, {}, ["not_applicable"]),
    ],
)
def test_judges_links(
    plant: Plant, tree: dict[str, str | bytes], options: dict[str, object], expected: list[str]
) -> None:
    """A GPU at rest slows down and a lost one answers with ones: neither is a narrow link."""
    assert [f.code for f in found(plant(tree), "pcie_link", **options)] == expected
