"""The PCI bus is listed each time and read only when it has changed."""

from __future__ import annotations

import shutil

from checks.pci import Function, driver, functions
from tests.fakes import BDFS, Plant, pci_tree, write_tree


def test_reads_every_function(plant: Plant) -> None:
    host = plant(pci_tree(1, switches=0) | {f"/sys/bus/pci/devices/{BDFS[0]}/driver": "-> ../../drivers/nvidia"})
    assert functions(host) == (Function(BDFS[0], "10de", "2330", 0x0302, False),)
    assert driver(host, BDFS[0]) == "nvidia"
    assert driver(host, BDFS[1]) == ""


def test_follows_what_leaves_and_comes(plant: Plant) -> None:
    host = plant(pci_tree(2, switches=0))
    assert len(functions(host)) == 2
    shutil.rmtree(host.path(f"/sys/bus/pci/devices/{BDFS[1]}"))
    assert [f.bdf for f in functions(host)] == [BDFS[0]]
    write_tree(host.root, {k: v for k, v in pci_tree(3, switches=0).items() if BDFS[2] in k})
    assert [f.bdf for f in functions(host)] == [BDFS[0], BDFS[2]]


def test_an_unreadable_function_is_left_out(plant: Plant) -> None:
    host = plant(pci_tree(1, switches=0) | {"/sys/bus/pci/devices/0000:ff:00.0/vendor": "garbage"})
    assert [f.bdf for f in functions(host)] == [BDFS[0]]


def test_a_node_without_a_bus_has_no_functions(plant: Plant) -> None:
    assert functions(plant()) == ()
