"""What can be wrong with an RDMA port or adapter, each with how to confirm it by hand and what to do."""

from __future__ import annotations

from checks.declare import code

DOWN = code(
    "ib_port_down",
    "fail",
    "node",
    "port state {state} ({physical}), expected ACTIVE",
    explain="Confirm: `ibstat`, `ibv_devinfo`; look at the cable, the transceiver and the switch port. Polling: nobody "
    "answers at the other end. Disabled: somebody switched the port off. "
    "Do: reseat or replace the cable; compare with the port at the other end.",
)
NO_SM = code(
    "ib_port_init",
    "fail",
    "fabric",
    "port state {state} with the link up, expected ACTIVE",
    explain="The cable is well and no subnet manager has configured the port. Confirm: `sminfo`, `ibstat`. "
    "Do: look at the subnet manager; many nodes at once point there.",
)
TRAINING = code(
    "ib_port_training",
    "warn",
    "fabric",
    "port is ACTIVE and its link is in {physical}",
    explain="The link trains again under traffic. Confirm: `ibstat` twice, the counter link_error_recovery. "
    "Do: reseat or replace the cable.",
)
SLOW = code(
    "ib_port_slow",
    "warn",
    "node",
    "rate {rate:g} of {min_gbps} Gb/s",
    explain="The link trained at a lower speed or width. Confirm: `ibstat`, `mlxlink -d <hca>`. "
    "Do: reseat or replace the cable.",
)
LAYER = code(
    "ib_port_layer",
    "warn",
    "config",
    "link layer is {layer}, expected {expected}",
    explain="The adapter's firmware is set to the other kind of network (LINK_TYPE_P1). Confirm: `ibstat`, "
    "`mlxconfig -d <hca> query LINK_TYPE_P1`. Do: set it and reboot, or correct the profile.",
)
FEW = code(
    "ib_port_count_low",
    "fail",
    "node",
    "{up} of {count} ports up; down: {down}",
    explain="Ports are missing and it cannot be told which of the others should be up. Confirm: `ibstat -l`, "
    "`lspci -d 15b3:`. Do: look for an adapter that did not start, then at cables.",
)
ABSENT = code("ib_port_absent", "fail", "node", "port is expected and does not exist", explain=FEW.explain)
RENAMED = code(
    "ib_port_renamed",
    "warn",
    "config",
    "none of the expected ports ({expected}) exists and as many others are up ({seen})",
    explain="Adapters get other names with another kernel or udev rule. Confirm: `ibstat -l`. "
    "Do: correct [checks.ib_port] expected, or promise a count instead.",
)
DEAD = code(
    "ib_adapter_dead",
    "fail",
    "node",
    "adapter is on the PCI bus and has no driver and no RDMA device",
    explain="Its driver failed to start it. Confirm: `lspci -k -s <pci id>`, `dmesg | grep <pci id>`. "
    "Do: let jobs end, power-cycle; replace the adapter if it stays.",
)
UNBOUND = code(
    "ib_adapter_unbound",
    "warn",
    "config",
    "adapter is on the PCI bus and no driver uses it",
    explain="Confirm: `lspci -k -s <target>`. Do: load the driver (`modprobe mlx5_core`), or name it in ``ignore``.",
)
MUTE = code(
    "ib_adapter_no_rdma",
    "warn",
    "node",
    "adapter has its driver {driver} and no RDMA device, and ports are missing",
    explain="The RDMA part of the driver did not start or is switched off for it. Confirm: `rdma link`, "
    "`devlink dev param show pci/<pci id>`, `dmesg | grep <pci id>`. Do: load the driver again, else reboot.",
)
LOST = code(
    "ib_adapter_lost",
    "fail",
    "node",
    "adapter at {pci} does not answer on the PCI bus",
    explain="Its configuration space reads as ones; what sysfs still shows of it is memory. Confirm: `lspci -s <pci "
    "id>` shows `rev ff`. Do: let jobs end, power-cycle; replace the adapter if it happens again.",
)
NO_SIGN = code(
    "ib_port_no_sign",
    "unknown",
    "self",
    "0 of {count} ports and no adapter on the PCI bus either",
    explain="None was found in any way: a blind check or a wrong profile, more often than so many dead adapters. "
    "Confirm: `lspci -d 15b3:`, `ibstat -l`."
    " Do: correct the profile, or see to the slots of the adapters.",
)
NO_VERBS = code(
    "ib_no_verbs",
    "fail",
    "node",
    "adapter has no uverbs device, others have",
    explain="No program can open it. Confirm: `ls /sys/class/infiniband_verbs`. Do: reload ib_uverbs, else reboot.",
)
NO_FILE = code(
    "ib_no_device_file",
    "warn",
    "node",
    "adapter has no file in /dev/infiniband, others have",
    explain="No program can open it. Confirm: `ls -l /dev/infiniband`, `udevadm test /sys/class/infiniband_verbs/"
    "uverbsN`. Do: `udevadm trigger`.",
)
EXTRA = code(
    "ib_port_unused",
    "warn",
    "config",
    "port is {state} and not expected; name it in the profile's ignore",
    explain="Confirm: `ibstat`. Do: name it in ``ignore``, or in ``expected`` if jobs shall use it.",
)
UNREADABLE = code(
    "ib_port_unreadable",
    "unknown",
    "node",
    "port cannot be read: {error}",
    explain="Confirm: `ls /sys/class/infiniband`, `ibstat`. Do: if it stays, read `dmesg | grep -i mlx5`.",
)
FLAPPING = code(
    "ib_port_flapping",
    "warn",
    "fabric",
    "link went down {growth} times in {seconds:.0f} s, limit {limit}",
    explain="Collectives stall whenever it does. Confirm: the counter link_downed. Do: cable, transceiver. It ends by "
    "itself when the link has been steady for as long.",
)
CAME_BACK = code(
    "ib_port_came_back",
    "warn",
    "fabric",
    "port was down until {seconds:.0f} s ago",
    explain="It passes by itself. Confirm: `dmesg | grep -i link`. Do: nothing once; look at cable and "
    "transceiver if it comes again.",
)
CODES = (
    DOWN,
    NO_SM,
    TRAINING,
    SLOW,
    LAYER,
    FEW,
    ABSENT,
    RENAMED,
    DEAD,
    UNBOUND,
    MUTE,
    LOST,
    NO_SIGN,
    NO_VERBS,
    NO_FILE,
    EXTRA,
    UNREADABLE,
    FLAPPING,
    CAME_BACK,
)
