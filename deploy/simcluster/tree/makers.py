"""Kinds of RDMA adapters as their drivers show them in sysfs: names, words and counters differ from maker to maker."""

from __future__ import annotations

from dataclasses import dataclass

CLASSIC = (
    "VL15_dropped",
    "excessive_buffer_overrun_errors",
    "link_downed",
    "link_error_recovery",
    "local_link_integrity_errors",
    "multicast_rcv_packets",
    "multicast_xmit_packets",
    "port_rcv_constraint_errors",
    "port_rcv_errors",
    "port_rcv_remote_physical_errors",
    "port_rcv_switch_relay_errors",
    "port_xmit_constraint_errors",
    "port_xmit_discards",
    "port_xmit_wait",
    "symbol_error",
    "unicast_rcv_packets",
    "unicast_xmit_packets",
)
"""Below counters; drivers without a performance agent write words there."""
_MLX5 = (
    "duplicate_request",
    "implied_nak_seq_err",
    "lifespan",
    "local_ack_timeout_err",
    "out_of_buffer",
    "out_of_sequence",
    "packet_seq_err",
    "req_cqe_error",
    "req_remote_access_errors",
    "req_transport_retries_exceeded",
    "resp_cqe_error",
    "rnr_nak_retry_err",
    "rx_read_requests",
    "rx_write_requests",
)
_ROCE = (
    "np_cnp_sent",
    "np_ecn_marked_roce_packets",
    "roce_adp_retrans",
    "roce_adp_retrans_to",
    "roce_slow_restart",
    "rp_cnp_handled",
    "rp_cnp_ignored",
    "rx_icrc_encapsulated",
)
_EFA = (
    "alloc_pd_err",
    "cmds_err",
    "completed_cmds",
    "impaired_remote_conn_events",
    "no_completion_cmds",
    "retrans_pkts",
    "retrans_timeout_events",
    "rx_bytes",
    "rx_drops",
    "tx_bytes",
    "unresponsive_remote_events",
)
_BNXT = (
    "max_retry_exceeded",
    "missing_resp",
    "oos_drop_count",
    "rnr_naks_rcvd",
    "rx_roce_discards",
    "rx_roce_errors",
    "seq_err_naks_rcvd",
    "to_retransmits",
    "unrecoverable_err",
)
_IRDMA = ("cnpHandled", "cnpIgnored", "cnpSent", "ip4InDiscards", "rxVlanErrors", "tcpInProtoErrors", "tcpRetransSegs")
_HFI1 = ("DmaInterrupt", "RcvBypassPackets,U", "RxDropped", "TxErr,4")
Function = tuple[int, int, tuple[int, int], int, str, float, int]


@dataclass(frozen=True, slots=True)
class Maker:
    """One kind: its names, PCI function (vendor, device, subsystem, class, driver, GT/s, lanes), words and counters.

    ``mute``: its files below counters say "N/A (no PMA)". ``told``: it tells board, model and firmware.
    """

    adapter: str
    interface: str
    function: Function
    layer: str
    rate: str
    hardware: tuple[str, ...]
    node_type: str = "1: CA"
    classic: bool = True
    mute: bool = False
    told: tuple[str, str, str] | None = None

    def name(self, index: int) -> str:
        """Return the name of one adapter."""
        return self.adapter.format(index)


_CONNECTX7 = ("28.43.2026", "MT4129", "MT_0000000838")
_NDR = "400 Gb/sec (4X NDR)"


def _nvidia(pci_class: int, device: int = 0x1021) -> Function:
    return (0x15B3, device, (0x15B3, 0x0041), pci_class, "mlx5_core", 32.0, 16)


MAKERS = {
    "infiniband": Maker("mlx5_{}", "ib{}", _nvidia(0x020700), "InfiniBand", _NDR, (*_MLX5, "roce_adp_retrans"),
                        told=_CONNECTX7),
    "roce": Maker("mlx5_{}", "rail{}", _nvidia(0x020000), "Ethernet", _NDR, (*_MLX5, *_ROCE), told=_CONNECTX7),
    "mlx4": Maker("mlx4_{}", "ib{}", (0x15B3, 0x1003, (0x15B3, 0x0049), 0x020700, "mlx4_core", 8.0, 8), "InfiniBand",
                  "40 Gb/sec (4X QDR)", (), told=("2.42.5000", "MT4099", "SM_1141000001000")),
    "efa": Maker("rdmap{}s0", "", (0x1D0F, 0xEFA2, (0x1D0F, 0xEFA2), 0x020000, "efa", 16.0, 8), "Unknown",
                 "100 Gb/sec (4X EDR)", _EFA, "7: <unknown>", classic=False),
    "bnxt": Maker("bnxt_re{}", "eth{}", (0x14E4, 0x1760, (0x14E4, 0x0000), 0x020000, "bnxt_en", 32.0, 16), "Ethernet",
                  _NDR, _BNXT, told=("230.2.52.0", "BCM57608", "")),
    "irdma": Maker("irdma{}", "eth{}", (0x8086, 0x1592, (0x8086, 0x0002), 0x020000, "ice", 16.0, 16), "Ethernet",
                   "100 Gb/sec (4X EDR)", _IRDMA, "4: RNIC", mute=True),
    "opa": Maker("hfi1_{}", "ib{}", (0x8086, 0x24F0, (0x8086, 0x2628), 0x020800, "hfi1", 8.0, 16), "InfiniBand",
                 "100 Gb/sec (4X EDR)", _HFI1, told=("1.27.0", "", "Intel Omni-Path Host Fabric Interface")),
}  # fmt: skip
"""By the name that a board's network has."""
