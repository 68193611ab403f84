"""What the kernel's clients of shared file systems say of their servers and of themselves has three meanings."""

from __future__ import annotations

from checks.declare import code

SERVER = code(
    "file_server_silent",
    "warn",
    "shared",
    "{means}",
    explain="The file server or the way to it; many nodes will say the same. Confirm: `stat` a file there from another "
    "node. It drains no node."
    " Do: look at the server and the network first.",
)
EVICTED = code(
    "file_client_evicted",
    "warn",
    "shared",
    "{means}",
    explain="The server did not hear from this client in time: the mount is listed, open files give errors until the "
    "programs that hold them end. Confirm: `lfs check servers`, a read of a canary file. It drains no node."
    " Do: end those programs; if it comes again, look at the network and the load of the node.",
)
CLIENT = code(
    "file_client_broken",
    "warn",
    "node",
    "{means}",
    explain="A thread of the file system's client stands still for good; whoever needs what it holds waits with it. "
    "Confirm: `dmesg -T --level=emerg,alert,crit,err,warn`. Do: let jobs end, reboot; give the lines to its maker.",
)
