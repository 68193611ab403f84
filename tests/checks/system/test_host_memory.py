"""Modules, NUMA nodes and huge pages are judged by what is named, and a GPU's memory is nobody's missing module."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from checks import Finding, Host
from checks.catalog import load
from checks.runner import run_check
from checks.system.dmi import TABLE, memory_modules, structures
from checks.system.numa import NODES
from deploy.simcluster.tree import firmware
from deploy.simcluster.tree.board import Board
from tests.fakes import Plant

GIB = 1024 * 1024


def found(host: Host, check: str, **options: object) -> list[Finding]:
    return list(run_check(load()[check], host, options).findings)


def codes(seen: list[Finding]) -> list[str]:
    return [f.code for f in seen]


def numa_tree(*nodes: tuple[int, str]) -> dict[str, str | bytes]:
    """One NUMA node for each pair of GiB and processors."""
    tree: dict[str, str | bytes] = {}
    for number, (gib, cpus) in enumerate(nodes):
        tree[f"{NODES}/node{number}/meminfo"] = f"Node {number} MemTotal:       {gib * GIB} kB\n"
        tree[f"{NODES}/node{number}/cpulist"] = f"{cpus}\n"
    return tree


GB200 = numa_tree((478, "0-71"), (479, "72-143"), (186, ""), (0, ""), (186, ""), (0, ""), (186, ""), (186, ""))


@pytest.mark.parametrize(
    ("tree", "options", "expected"),
    [
        (numa_tree((1000, "0-55"), (1007, "56-111")), {"nodes": 2}, ["ok"]),
        (numa_tree((1000, "0-55"), (500, "56-111")), {}, ["numa_memory_uneven"]),
        (numa_tree((1000, "0-55"), (500, "56-111")), {"uneven_pct": 60.0}, ["ok"]),
        (numa_tree((1000, "0-55"), (0, "56-111")), {}, ["numa_memory_uneven"]),
        (numa_tree(*[(250, f"{n * 8}-{n * 8 + 7}") for n in range(8)]), {"nodes": 2}, ["numa_nodes_wrong", "ok"]),
        (numa_tree((64, "0-7")), {}, ["ok"]),
        (GB200, {"nodes": 2}, ["ok"]),
        (numa_tree((478, "0-71"), (239, "72-143"), (186, "")), {"nodes": 2}, ["numa_memory_uneven"]),
        ({}, {}, ["not_applicable"]),
        ({f"{NODES}/node0/meminfo": "nothing\n", f"{NODES}/node0/cpulist": "0\n"}, {}, ["check_error"]),
    ],
)
def test_numa_nodes_without_processors_are_no_sockets(
    plant: Plant, tree: dict[str, str | bytes], options: dict[str, object], expected: list[str]
) -> None:
    """On Grace each GPU's memory is a NUMA node, and those of absent MIG instances are empty: none lacks a module."""
    assert codes(found(plant(tree), "numa", **options)) == expected


def test_the_memory_of_gpus_does_not_hide_a_missing_module(plant: Plant) -> None:
    tree = numa_tree((478, "0-71"), (239, "72-143"), (186, ""), (186, ""), (186, ""), (186, ""))
    host = plant({**tree, "/proc/meminfo": f"MemTotal:       {(717 + 4 * 186) * GIB} kB\n"})
    assert codes(found(host, "memory", min_gib=950.0)) == ["ok"]
    (low,) = found(host, "memory", min_gib=950.0, beside_processors=True)
    assert (low.code, low.evidence["total_gib"]) == ("memory_low", 717.0)


def test_without_numa_nodes_the_memory_beside_processors_is_unknown(plant: Plant) -> None:
    host = plant({"/proc/meminfo": f"MemTotal:       {717 * GIB} kB\n"})
    assert codes(found(host, "memory", beside_processors=True)) == ["check_error"]


# ---- the firmware's table


def slots(**changes: object) -> dict[str, str | bytes]:
    return {f"/{path}": content for path, content in firmware.files(Board(), **changes).items()}  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("tree", "options", "expected"),
    [
        (slots(), {"count": 32, "size_gib": 64.0, "min_mts": 4800}, ["ok"]),
        (slots(), {}, ["ok"]),
        (slots(gone=[31]), {}, ["ok"]),
        (slots(gone=[31]), {"count": 32}, ["memory_modules_few"]),
        (slots(), {"count": 32, "size_gib": 96.0}, ["ok", *["memory_module_odd"] * 32]),
        (slots(slow={4: 4000}), {}, ["ok", "memory_module_slow"]),
        (slots(slow=dict.fromkeys(range(32), 4000)), {}, ["ok"]),
        (slots(slow=dict.fromkeys(range(32), 4000)), {"min_mts": 4400}, ["ok", *["memory_module_slow"] * 32]),
        (slots(slow=dict.fromkeys(range(16), 4000)), {}, ["ok"]),
        (slots(slow=dict.fromkeys(range(32), 0)), {"min_mts": 4400}, ["ok"]),
        ({}, {"count": 32}, ["not_applicable"]),
        ({TABLE: b""}, {"count": 32}, ["not_applicable"]),
        ({TABLE: b"\x11\x5c\x00\x11 cut"}, {"count": 32}, ["check_error"]),
        ({TABLE: b"\x11\x02\x00\x11\x00\x00"}, {"count": 32}, ["check_error"]),
    ],
)
def test_judges_modules(
    plant: Plant, tree: dict[str, str | bytes], options: dict[str, object], expected: list[str]
) -> None:
    seen = found(plant(tree), "memory_modules", **options)
    assert codes(seen) == expected
    assert "fail" not in {f.status for f in seen}


def test_a_missing_module_is_named_by_its_slot(plant: Plant) -> None:
    (few,) = found(plant(slots(gone=[31])), "memory_modules", count=32)
    assert few.message == "31 memory modules, expected 32; empty: P1_DIMM_P"


def test_sizes_of_every_form_are_read(plant: Plant) -> None:
    """Old firmware ends the structure early and gives MiB, or KiB by the highest bit; 0xffff is not known."""

    def old(size: int) -> bytes:
        return bytes([17, 0x15, 0, 0]) + bytes(8) + size.to_bytes(2, "little") + bytes(7) + b"\0\0"

    host = plant({TABLE: old(16384) + old(0x8000 | 2048) + old(0xFFFF) + old(0) + bytes([127, 4, 0, 0, 0, 0])})
    assert [(m.mib, m.mts, m.slot) for m in memory_modules(host)] == [
        (16384, 0, ""),
        (2, 0, ""),
        (None, 0, ""),
        (0, 0, ""),
    ]
    (seen,) = found(host, "memory_modules", count=3, size_gib=16.0)[:1]
    assert seen.evidence["modules"] == 3


@given(st.binary(max_size=400))
def test_no_table_does_more_than_be_refused(table: bytes) -> None:
    try:
        assert len(list(structures(table))) <= len(table)
    except ValueError as error:
        assert str(error).startswith("firmware table")


# ---- huge pages

PAGES: dict[str, str | bytes] = {
    "/sys/kernel/mm/hugepages/hugepages-1048576kB/nr_hugepages": "16\n",
    "/sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages": "0\n",
    "/sys/kernel/mm/transparent_hugepage/enabled": "always [madvise] never\n",
}


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, ["not_applicable"]),
        ({"pages": ("1G=16",), "transparent": "madvise"}, ["ok"]),
        ({"pages": ("1G=17", "2m = 1")}, ["huge_pages_few", "huge_pages_few"]),
        ({"pages": ("16G=1",)}, ["huge_pages_few"]),
        ({"pages": ("3G=1",)}, ["check_error"]),
        ({"transparent": "always"}, ["transparent_huge_pages_wrong"]),
    ],
)
def test_judges_huge_pages(plant: Plant, options: dict[str, object], expected: list[str]) -> None:
    assert codes(found(plant(PAGES), "huge_pages", **options)) == expected
