"""The parts of a node are told by serial number, GUID or address, and a part that does not answer is not gone."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from pathlib import Path

import msgspec

from checks import Host
from checks.wire import NodeFacts, Part
from daemon.agent import ground, parts
from daemon.lanes.pool import LaneError
from deploy.simcluster.host import SimHost


def told(value: object) -> dict[tuple[str, str], Part]:
    return {(p.kind, p.slot): p for p in msgspec.convert(value, list[Part])}


def test_a_simulated_node_names_board_adapters_and_cards(tmp_path: Path) -> None:
    host = SimHost(tmp_path / "n1", "n1").create()
    found = told(parts.others(Host(root=host.sysroot)))
    assert (found["board", "board"].serial, found["board", "board"].firmware) == ("SIM-n1", "1.4.2-sim")
    assert found["hca", "0000:1a:00.0"].firmware == "28.43.2026"
    assert found["hca", "0000:1a:00.0"].uuid == host.identity.guid(0)
    assert sum(kind == "hca" for kind, _ in found) == 8
    assert [p.uuid for (kind, _), p in found.items() if kind == "nic"] == [host.identity.address("eno1")]


def test_an_address_that_software_gave_is_no_card(tmp_path: Path) -> None:
    """The network of a BMC over USB has one address on every node of a make: no card that wanders."""
    host = SimHost(tmp_path / "n1", "n1").create()
    address = host.sysroot / "sys/class/net/eno1/address"
    for given in ("be:3a:f2:b6:05:9f\n", "00:00:00:00:00:00\n", "words\n"):
        address.write_text(given)
        assert [p for p in told(parts.others(Host(root=host.sysroot))).values() if p.kind == "nic"] == []


def test_no_two_simulated_nodes_have_a_part_in_common(tmp_path: Path) -> None:
    seen = [
        {(p.uuid, p.serial) for p in told(parts.others(Host(root=SimHost(tmp_path / n, n).create().sysroot))).values()}
        for n in ("n1", "n2")
    ]
    assert len(seen[0]) == len(seen[1]) == 10 and not seen[0] & seen[1]


def test_words_in_the_place_of_a_number_are_none(tmp_path: Path) -> None:
    folder = tmp_path / "sys/class/dmi/id"
    folder.mkdir(parents=True)
    (folder / "product_serial").write_text("To Be Filled By O.E.M.\n")
    assert parts.others(Host(root=tmp_path)) == []


class Lanes:
    """Answers for lanes; a text is a lane that does not come back."""

    def __init__(self, **answers: object) -> None:
        self.answers, self.asked = answers, list[str]()

    async def call(self, lane: str, function: str, arguments: Mapping[str, object] | None = None, *, timeout: float):  # type: ignore[no-untyped-def]
        self.asked.append(lane)
        answer = self.answers.get(lane, [])
        if isinstance(answer, str):
            raise LaneError(answer)
        return answer


GPU = {"kind": "gpu", "slot": "0000:19:00.0", "uuid": "GPU-1", "serial": "1", "model": "H100"}
BOARD = {"kind": "board", "slot": "board", "serial": "S"}


def test_a_lane_that_hangs_takes_no_part_away() -> None:
    async def story() -> None:
        first = await parts.seen(Lanes(nvml=[GPU], ground=[BOARD]), NodeFacts(driver="580"))  # type: ignore[arg-type]
        assert first.gpus == ("GPU-1",) and first.gpu_model == "H100" and len(first.parts) == 2
        again = await parts.seen(Lanes(nvml="does not come back", ground="busy"), first)  # type: ignore[arg-type]
        assert again == first

    asyncio.run(story())


def test_a_node_without_a_driver_opens_no_nvml() -> None:
    lanes = Lanes(ground=[BOARD])
    asyncio.run(parts.seen(lanes, NodeFacts()))  # type: ignore[arg-type]
    assert lanes.asked == ["ground"]


def test_the_open_kernel_modules_name_their_driver_as_well(tmp_path: Path) -> None:
    """Without it neither the guard nor the parts know that there is one."""
    host = SimHost(tmp_path / "n1", "n1").create()
    assert ground._driver(Host(root=host.sysroot)) == "580.95.05"
