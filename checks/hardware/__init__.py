"""What accelerators can do on paper and what has been reached with them, with where each figure comes from."""

from __future__ import annotations

import sys
from functools import cache
from importlib.resources import files

import msgspec

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib


class Rate(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Dense matrix products of one number type, in TFLOPS: by the data sheet, and the best that was measured."""

    peak: float | None = None
    reached: float | None = None


class Dcgm(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What DCGM's diagnostic asks of a model; ``doubt``: why the figure cannot be meant."""

    power_w: float
    stress_gflops: float | None = None
    bandwidth_mb_s: float
    doubt: str = ""


class Accelerator(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One model.

    ``pci``: its ids ``vendor:device``. ``memory_gb`` and ``bandwidth_tb_s``: device memory. ``links`` and
    ``link_gb_s``: NVLinks and all of them together, one way. ``rates``: by number type. ``allreduce_gb_s``: bus
    bandwidth reached on one node of eight (four where it has four) with large messages, by algorithm.
    """

    name: str
    pci: tuple[str, ...] = ()
    memory_gb: float
    bandwidth_tb_s: float
    links: int = 0
    link_gb_s: float = 0.0
    rates: dict[str, Rate] = {}
    allreduce_gb_s: dict[str, float] = {}
    source: str = ""
    dcgm: Dcgm | None = None


class Node(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One shape of node: ``count`` accelerators, ``ports`` to other nodes of ``port_gb_s`` Gb/s each."""

    title: str
    accelerator: str
    count: int
    ports: int
    port_gb_s: float
    sockets: int | None = None
    cores: int | None = None
    memory_gb: int | None = None
    source: str


class Collective(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """An all-reduce that was reached: bus bandwidth with messages of ``gib`` GiB."""

    accelerator: str
    gpus: int
    nodes: int
    algorithm: str
    gib: float
    busbw_gb_s: float
    source: str


class Floor(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A limit that somebody judges by; advisory here. ``doubt``: why it cannot be meant."""

    what: str
    accelerator: str = ""
    nodes: int
    value: float
    unit: str
    source: str
    doubt: str = ""


class Tables(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The whole file, with a version and where the figures come from."""

    version: str
    sources: dict[str, str]
    accelerator: dict[str, Accelerator]
    network: dict[str, float]
    node: dict[str, Node] = {}
    collective: dict[str, Collective] = {}
    floor: dict[str, Floor] = {}


@cache
def tables() -> Tables:
    """The tables that come with Nodevet."""
    text = files("checks.hardware").joinpath("tables.toml").read_text(encoding="utf-8")
    return msgspec.convert(tomllib.loads(text), Tables)
