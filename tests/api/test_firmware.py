"""Versions are compared among the nodes of one profile, and to differ from most is a note."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec
from starlette.testclient import TestClient

from api.store import firmware
from api.store.firmware import FirmwareView
from api.store.store import Store
from checks.wire import Batch, Decision, NodeFacts, Part, Report
from tests.api.fakes import T0


def gpus(*versions: str) -> tuple[Part, ...]:
    return tuple(
        Part(kind="gpu", slot=f"0000:{n + 16:02x}:00.0", uuid=f"GPU-{n}", model="H100", firmware=version)
        for n, version in enumerate(versions)
    )


def shows(store: Store, node: str, cluster: str = "c", **facts: object) -> None:
    made = Report(
        cluster=cluster,
        node=node,
        incarnation="a",
        sequence=1,
        occasion="interval",
        started_at=T0,
        seconds=0.1,
        decision=Decision(verdict="healthy", wanted="admit"),
        facts=msgspec.structs.replace(NodeFacts(profile="hgx-h100", driver="580.95.05"), **facts),
    )
    store.ingest(Batch(cluster=cluster, node=node, incarnation="a", reports=(made,)), T0)


def compared(store: Store, **where: str) -> dict[str, FirmwareView]:
    with store.database.read() as connection:
        return {v.kind: v for v in firmware.compared(connection, **where)}


def odd(view: FirmwareView) -> Iterable[tuple[str, str]]:
    return [(o.node, o.version) for o in view.odd]


def test_a_node_that_runs_another_driver_than_most_is_named(store: Store) -> None:
    """E112: some nodes had an old driver since the first job."""
    for n in range(1, 6):
        shows(store, f"n{n}", driver="550.54.15" if n == 3 else "580.95.05")
    found = compared(store)["driver"]
    assert (found.usual, found.versions) == ("580.95.05", {"580.95.05": 4, "550.54.15": 1})
    assert odd(found) == [("n3", "550.54.15")]


def test_one_gpu_of_another_vbios_is_named_with_its_place(store: Store) -> None:
    for n in range(1, 4):
        shows(store, f"n{n}", parts=gpus("96.00.99", "96.00.74" if n == 2 else "96.00.99"))
    found = compared(store)["gpu"]
    assert (found.model, found.nodes, found.versions) == ("H100", 3, {"96.00.99": 3, "96.00.74": 1})
    assert [(o.node, o.slot) for o in found.odd] == [("n2", "0000:11:00.0")]


def test_nobody_differs_where_two_versions_are_as_frequent_or_few_tell(store: Store) -> None:
    for n in range(1, 5):
        shows(store, f"n{n}", driver="550" if n > 2 else "580")
    found = compared(store)["driver"]
    assert (found.usual, found.odd) == (None, [])
    shows(store, "m1", cluster="small", driver="1")
    shows(store, "m2", cluster="small", driver="1")
    assert compared(store, cluster="small")["driver"].usual is None


def test_another_profile_or_cluster_is_no_measure(store: Store) -> None:
    for n in range(1, 4):
        shows(store, f"n{n}")
        shows(store, f"a{n}", profile="hgx-a100", driver="550.54.15")
        shows(store, f"n{n}", cluster="other", driver="570.1")
    with store.database.read() as connection:
        every = firmware.compared(connection)
    assert sorted((v.cluster, v.profile, v.usual) for v in every if v.kind == "driver") == [
        ("c", "hgx-a100", "550.54.15"),
        ("c", "hgx-h100", "580.95.05"),
        ("other", "hgx-h100", "570.1"),
    ]
    assert not any(v.odd for v in every)


def test_what_a_node_does_not_tell_is_not_compared(store: Store) -> None:
    for n in range(1, 5):
        shows(store, f"n{n}", driver="" if n == 4 else "580.95.05", parts=gpus("" if n == 4 else "96"))
    assert compared(store)["driver"].nodes == 3
    assert compared(store)["gpu"].odd == []


def test_the_route_gives_what_differs_first(client: TestClient, viewer: dict[str, str], store: Store) -> None:
    for n in range(1, 4):
        shows(store, f"n{n}", kernel="6.8" if n == 1 else "6.5")
    items = client.get("/api/v1/firmware?profile=hgx-h100", headers=viewer).json()["items"]
    assert [(i["kind"], [o["node"] for o in i["odd"]]) for i in items] == [("kernel", ["n1"]), ("driver", [])]
    assert client.get("/api/v1/firmware?cluster=none", headers=viewer).json()["items"] == []
    assert client.get("/api/v1/incidents", headers=viewer).json()["items"] == []
