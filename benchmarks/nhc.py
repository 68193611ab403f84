"""Sixteen checks of NHC, where it is installed, beside one whole answer of ours."""

from __future__ import annotations

import os
from pathlib import Path

from benchmarks.ground import Ground, job_env
from benchmarks.measure import Spread, once
from benchmarks.table import Line

NHC = Path("/usr/sbin/nhc")
PART_OF = 20
CHECKS = (
    "check_hw_cpuinfo", "check_hw_physmem_free 1kB", "check_hw_swap_free 0kB", "check_hw_mem_free 1kB",
    "check_fs_mount_rw -f /", "check_fs_mount_rw -f /proc", "check_fs_free / 1%", "check_fs_ifree / 1%",
    "check_fs_used / 100%", "check_file_test -r /etc/passwd", "check_file_test -d /tmp", "check_file_test -x /bin/sh",
    "check_file_contents /etc/passwd '/^root:/'", "check_ps_unauth_users log", "check_ps_loadavg 10000",
    "check_file_test -r /etc/group",
)  # fmt: skip


def measure(ground: Ground, rounds: int) -> list[Line]:
    """NHC and our hook in turn, our agent warm and with nothing due."""
    if not os.access(NHC, os.X_OK):
        absent = "NHC is not installed here"
        return [Line(part="nhc", what="whole answer beside 16 checks of NHC", measured=absent, simulated=False)]
    conf = ground.base / "nhc.conf"
    conf.write_text("".join(f"* || {check}\n" for check in CHECKS))
    argv = [
        str(NHC),
        "MARK_OFFLINE=0",
        "DETACHED_MODE=0",
        "-t",
        "0",
        "-c",
        str(conf),
        "-l",
        str(ground.base / "nhc.log"),
    ]
    node, theirs, ours = "alone", [], []
    ground.agent(node)
    ground.wait_warm([node])
    for number in range(rounds):
        theirs.append(once(argv, {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "HOSTNAME": node}))
        ours.append(once([ground.prolog], job_env(node, 900_000 + number, gpus=True)))
    ground.end(f"agent-{node}")
    nhc, own = Spread.of([s.wall for s in theirs]), Spread.of([s.wall for s in ours])
    failed = f", {sum(s.exit != 0 for s in theirs)} of {rounds} not clean" if any(s.exit for s in theirs) else ""
    return [
        Line(
            part="nhc",
            what="whole answer beside 16 checks of NHC",
            measured=own.text(),
            beside=f"NHC {nhc.text()}{failed}",
            ratio=f"1/{nhc.median / own.median:.0f}",
            target=f"<= 1/{PART_OF}",
            met=own.median * PART_OF <= nhc.median,
            n=rounds,
            values={"ratio": own.median / nhc.median, "nhc_ms": nhc.median, "median_ms": own.median},
        )
    ]
