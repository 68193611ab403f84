"""Faults of RDMA adapters, Ethernet interfaces and the networks behind them."""

from __future__ import annotations

from deploy.simcluster.faults import WARNING, Effects, Site, fault
from deploy.simcluster.tree import Content, pci, rdma
from deploy.simcluster.tree.makers import CLASSIC

ONE = ""
"""Where no adapter is named the first one is struck."""


@fault
def ib_down(site: Site, *, hca: str = ONE) -> Effects:
    """A port is down: link lost, polling for a partner."""
    hca = site.board.hca(hca)
    says = f"{site.board.maker.function[4]} {site.board.hca_bdf(hca)}: Port module event"
    return Effects(
        files=rdma.port_files(site.board, hca, rdma.DOWN),
        kernel=[(WARNING, f"{says}[error]: module 0, Cable error, Bus stuck")],
        kernel_healed=[(WARNING, f"{says}: module 0, Cable plugged")],
        wear={f"{rdma.port(hca)}/counters/link_downed": 1} if _counts(site) else {},
    )


@fault
def ib_slow(site: Site, *, hca: str = ONE, gbps: int = 200) -> Effects:
    """A port came up at a lower rate than it can do."""
    return Effects(files=rdma.port_files(site.board, site.board.hca(hca), {**rdma.UP, "rate": rdma.RATES[gbps]}))


@fault
def ib_training(site: Site, *, hca: str = ONE) -> Effects:
    """A link trains again while its port is ACTIVE."""
    status = {**rdma.UP, "phys_state": "6: LinkErrorRecovery"}
    return Effects(files=rdma.port_files(site.board, site.board.hca(hca), status))


@fault
def ib_unmanaged(site: Site, *, hca: str = ONE) -> Effects:
    """No subnet manager has configured a port: the link is up, the port waits."""
    hca = site.board.hca(hca)
    status = {**rdma.UP, "state": "2: INIT"}
    return Effects(files={**rdma.port_files(site.board, hca, status), f"{rdma.port(hca)}/sm_lid": "0x0\n"})


@fault
def ib_manager_lost(site: Site) -> Effects:
    """The subnet manager is gone: what is set up stays, and nobody knows it any more."""
    names = [site.board.maker.name(index) for index in range(len(site.board.hcas))]
    return Effects(files={f"{rdma.port(hca)}/sm_lid": "0x0\n" for hca in names})


@fault
def ib_lid(site: Site, *, hca: str = ONE, lid: int = 0) -> Effects:
    """A port has another address than before, or none."""
    return Effects(files={f"{rdma.port(site.board.hca(hca))}/lid": f"0x{lid:x}\n"})


@fault
def hca_flap(site: Site, *, hca: str = ONE, times: int = 1) -> Effects:
    """A link went down and came back; only its counters tell."""
    if not _counts(site):
        raise ValueError(f"adapters of the kind {site.board.network} do not count it")
    counters = f"{rdma.port(site.board.hca(hca))}/counters"
    return Effects(wear={f"{counters}/link_downed": times, f"{counters}/link_error_recovery": times})


@fault
def hca_errors(site: Site, *, hca: str = ONE, counter: str = "symbol_error", count: int = 1000) -> Effects:
    """An error counter of a port grows."""
    maker = site.board.maker
    if counter in maker.hardware:
        folder = "hw_counters"
    elif _counts(site) and counter in CLASSIC:
        folder = "counters"
    else:
        raise ValueError(f"counter is {counter!r}, one of {', '.join((*maker.hardware, *CLASSIC))}")
    return Effects(wear={f"{rdma.port(site.board.hca(hca))}/{folder}/{counter}": count})


@fault
def hca_lost(site: Site, *, hca: str = ONE) -> Effects:
    """An adapter no longer answers on the bus."""
    hca = site.board.hca(hca)
    return Effects(files={**rdma.port_files(site.board, hca, rdma.DOWN), **pci.lost(site.board.hca_bdf(hca))})


@fault
def hca_unprobed(site: Site, *, hca: str = ONE) -> Effects:
    """The driver failed to start an adapter at boot: it is on the bus and nowhere else."""
    hca = site.board.hca(hca)
    address, driver = site.board.hca_bdf(hca), site.board.maker.function[4]
    return Effects(
        gone=_rdma_half(site, hca) | {f"sys/bus/pci/devices/{address}/driver"},
        kernel=[(WARNING, f"{driver}: probe of {address} failed with error -110")],
    )


@fault
def hca_mute(site: Site, *, hca: str = ONE) -> Effects:
    """The driver of an adapter runs and its RDMA half did not start."""
    return Effects(gone=_rdma_half(site, site.board.hca(hca)))


@fault
def hca_no_verbs(site: Site, *, hca: str = ONE) -> Effects:
    """An adapter has its ports and no uverbs device: no program can open it."""
    return Effects(gone=_verbs(site, site.board.hca(hca)))


@fault
def hca_no_file(site: Site, *, hca: str = ONE) -> Effects:
    """An adapter's file in /dev/infiniband was not made."""
    return Effects(gone=frozenset({f"dev/infiniband/uverbs{site.board.hca_index(site.board.hca(hca))}"}))


@fault
def hca_firmware(site: Site, *, hca: str = ONE, version: str = "28.39.1002") -> Effects:
    """An adapter has other firmware than its neighbours."""
    if site.board.maker.told is None:
        raise ValueError(f"adapters of the kind {site.board.network} do not tell their firmware")
    return Effects(files={f"sys/class/infiniband/{site.board.hca(hca)}/fw_ver": f"{version}\n"})


@fault
def roce_no_address(site: Site, *, hca: str = ONE) -> Effects:
    """The interface of a RoCE port has lost its IP address, and the port the RoCE addresses that go with it."""
    hca = site.board.hca(hca)
    if site.board.maker.layer != "Ethernet":
        raise ValueError(f"adapters of the kind {site.board.network} speak no RoCE")
    none: dict[str, Content] = {f"{rdma.port(hca)}/gids/{at}": f"{rdma.NO_ADDRESS}\n" for at in (2, 3)}
    return Effects(files=none, gone=frozenset(f"{rdma.port(hca)}/gid_attrs/types/{at}" for at in (2, 3)))


@fault
def interface_mtu(site: Site, *, interface: str = "eno1", mtu: int = 1280) -> Effects:
    """Somebody set another MTU."""
    return Effects(files={f"{_interface(site, interface)}/mtu": f"{mtu}\n"})


@fault
def ethernet_down(site: Site, *, interface: str = "eno1") -> Effects:
    """An interface has no carrier."""
    home = _interface(site, interface)
    return Effects(
        files={f"{home}/operstate": "down\n", f"{home}/carrier": "0\n", f"{home}/speed": "-1\n"},
        wear={f"{home}/carrier_changes": 1},
    )


@fault
def ethernet_flap(site: Site, *, interface: str = "eno1", times: int = 4) -> Effects:
    """An interface lost its carrier a few times and has it again."""
    return Effects(wear={f"{_interface(site, interface)}/carrier_changes": 2 * times})


@fault
def ethernet_errors(
    site: Site, *, interface: str = "eno1", counter: str = "rx_crc_errors", count: int = 1000
) -> Effects:
    """An error counter of an interface grows."""
    return Effects(wear={f"{_interface(site, interface)}/statistics/{counter}": count})


@fault
def bond_degraded(site: Site, *, member: str = rdma.MEMBERS[1]) -> Effects:
    """One member of the bond is down."""
    return Effects(files=_bond(site, rdma.bond(down=_member(member))))


@fault
def bond_alone(site: Site, *, member: str = rdma.MEMBERS[1]) -> Effects:
    """The switch speaks no LACP with one member of the bond."""
    return Effects(files=_bond(site, rdma.bond(alone=_member(member))))


def _bond(site: Site, text: str) -> dict[str, Content]:
    if not site.board.beside:
        raise ValueError("this board has no bond")
    return {rdma.BOND: text}


def _member(name: str) -> str:
    if name not in rdma.MEMBERS:
        raise ValueError(f"member is {name!r}, one of {', '.join(rdma.MEMBERS)}")
    return name


def _interface(site: Site, name: str) -> str:
    """Return where an interface of this board stands."""
    rails = [rdma.interface(site.board, site.board.maker.name(index)) for index in range(len(site.board.hcas))]
    known = ["eno1", *filter(None, rails), *(rdma.MEMBERS if site.board.beside else ())]
    if name not in known:
        raise ValueError(f"interface is {name!r}, one of {', '.join(known)}")
    return f"sys/class/net/{name}"


def _counts(site: Site) -> bool:
    return site.board.maker.classic and not site.board.maker.mute


def _verbs(site: Site, hca: str) -> frozenset[str]:
    index = site.board.hca_index(hca)
    return frozenset({f"sys/class/infiniband_verbs/uverbs{index}", f"dev/infiniband/uverbs{index}"})


def _rdma_half(site: Site, hca: str) -> frozenset[str]:
    return _verbs(site, hca) | {f"sys/class/infiniband/{hca}"}
