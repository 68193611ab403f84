"""Every reader of foreign input, with the errors that it declares and inputs to begin from."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import msgspec

from checks.bmc.ipmi import entries, sensors
from checks.dcgm.ask import Unusable
from checks.dcgm.report import read_diag
from checks.fs.mounts import mounts
from checks.host import Host
from checks.judge.policy import PolicyError, merge, read_pack
from checks.log.kept.forms import parse
from checks.log.kept.packed import unpacked
from checks.log.kmsg import KernelLog, Reading
from checks.log.xid import driver_loaded, parse_xid
from checks.profile import ProfileError, read_profile
from checks.site.answer import Garbled, understood
from checks.system.processors import cpu_list, spelled
from checks.wire import Batch, CheckReport, Finding, GateAnswer, PermitAnswer, PollAnswer, Report
from daemon.agent.attempt import attempt_of
from daemon.agent.frames import Unpacker
from daemon.config import ConfigError, parse_config
from daemon.lanes.wire import Reply, Request
from slurm import config as slurm_config
from slurm import hostlist, reason
from slurm.errors import SlurmError
from slurm.gres import GresError, parse_gres, promised_gpus, promised_parts
from slurm.jobenv import JobEnv
from slurm.nodes import nodes_from_json, nodes_from_text
from slurm.text import parse_config as slurm_text
from slurm.text import parse_records

XID = b"NVRM: Xid (PCI:0000:3b:00): 79, pid=4711, name=python3, GPU has fallen off the bus."
GRES = b"NodeName=n[1-8] Name=gpu Type=h100 File=/dev/nvidia[0-7] Cores=0-31\nAutoDetect=nvml\n"
NODE = b"NodeName=n1 Arch=x86_64\n   State=IDLE+DRAIN Gres=gpu:h100:8(S:0-1)\n   Reason=bad [root@2026]\n"
PROFILE = b'name = "x"\ntitle = "t"\n[match.pci]\n"10de:2330" = 8\n[checks.gpu_count]\nexpected = 8\n'
PACK = b'version = "1"\n[codes.gpu_lost]\nprolog = "refuse"\nconfirm = 2\n[xid.79]\ncode = "gpu_lost"\n'
CONFIG = b'[agent]\nnode = "n1"\n[checks.mount]\npaths = ["/scratch"]\ninterval = 30.0\n'
JOB = b"SLURM_JOB_ID=7\0SLURM_JOB_GPUS=0,1\0SLURM_JOB_NODELIST=n[1-8]\0SLURM_JOB_UID=1001\0"
DIAG = json.dumps(
    {"version": "3.3.5", "DCGM Diagnostic": {"test_categories": [{"category": "Hardware", "tests": [
        {"name": "Memory", "results": [{"gpu_id": "0", "status": "Fail", "warnings": [{"error_id": 78}]}]}]}]}}
).encode()  # fmt: skip
SENSOR = b"PSU1 Status,0x1,Power Supply,ok,10.1,Presence detected\nFAN1 | 30h | ok  | 29.1 | 7840 RPM\n"


@dataclass(frozen=True, slots=True)
class Parser:
    """``run`` takes any bytes and raises nothing but ``declared``."""

    name: str
    run: Callable[[bytes], object]
    declared: tuple[type[Exception], ...]
    seeds: tuple[bytes, ...]


def _text(function: Callable[[str], object]) -> Callable[[bytes], object]:
    return lambda data: function(data.decode("utf-8", "replace"))


def _kernel_records(data: bytes) -> Reading:
    reading = Reading()
    KernelLog(Path("/nowhere"))._take(data, reading)
    return reading


def _wire(kind: type[msgspec.Struct]) -> Callable[[bytes], object]:
    return lambda data: msgspec.json.decode(data, type=kind)


def _job(data: bytes) -> object:
    return attempt_of(JobEnv.parse(data), GRES.decode(), "n1")


def _frames(data: bytes) -> object:
    reader = Unpacker()
    return [*reader.feed(data[: len(data) // 2]), *reader.feed(data[len(data) // 2 :])]


def _site(data: bytes) -> object:
    return [understood("site_x", status, data, "config") for status in (0, 3)]


class Everywhere(Host):
    """A node whose every file, link and command says the same."""

    said: bytes = b""

    def read_bytes(self, path: str | Path, limit: int = 256) -> bytes:
        return self.said[:limit]

    def link(self, path: str | Path) -> str:
        return self.said.decode("utf-8", "replace")

    def run(self, argv: Sequence[str], *, timeout: float = 2.0) -> str:
        return self.said.decode("utf-8", "replace")

    def glob(self, pattern: str) -> list[Path]:
        return [self.root / pattern.lstrip("/").replace("*", name) for name in ("0", "1")]


def everywhere(data: bytes) -> Everywhere:
    """Such a node; its root is no folder, so that whoever lists one finds nothing."""
    host = Everywhere(root=Path("/dev/null/everywhere"), simulated=True)
    host.said = data
    return host


def _journal(text: str) -> bytes:
    return json.dumps({"MESSAGE": text, "__REALTIME_TIMESTAMP": "1764590000000000", "_TRANSPORT": "kernel"}).encode()


def _finding() -> bytes:
    return msgspec.json.encode(Finding(target="node", status="fail", code="gpu_lost", blame="node", message="m"))


PARSERS = (
    Parser("kept log", parse, (), (
        b"4,3,125500000,-;" + XID + b"\n SUBSYSTEM=pci\n", b"<4>[  125.500000] " + XID, b"[Dec 1 11:50] " + XID,
        b"kern  :warn  : [  +0.1] " + XID, b"Dec  1 11:50:01 n1 kernel: " + XID, _journal(XID.decode()),
        b"__CURSOR=s\n__REALTIME_TIMESTAMP=1\n_TRANSPORT=kernel\nMESSAGE\n\x04\0\0\0\0\0\0\0text\n\n",
        b"Tue 2026-12-01 11:50:01 UTC [s=1;i=2]\n    MESSAGE=x\n    _TRANSPORT=kernel\n",
        b"<4>1 2026-12-01T11:50:01Z n1 kernel - - - " + XID, b"1764590000.5 n1 kernel: " + XID)),
    Parser("packed log", unpacked, (OSError,), (b"\x1f\x8b\x08\0\0\0\0\0\0\3", b"BZh9", b"\xfd7zXZ\0")),
    Parser("kernel records", _kernel_records, (), (b"4,3,125500000,-;" + XID + b"\n",)),
    Parser("xid", _text(lambda t: (parse_xid(t), driver_loaded(t))), (), (
        XID, b"NVRM: Xid (PCI:0000:3b:00): 145, pid=1, name=a, RLW_REMAP Nonfatal XC0 i0 Link 03 (0x1 0x2)",
        b"NVRM: GPU at PCI:0000:3b:00: GPU-1 has fallen off the bus",
        b"NVRM: Xid (PCI:0000:3b:00): 154, GPU recovery action changed from 0x0 (None) to 0x2 (Reboot)")),
    Parser("mounts", lambda data: mounts(everywhere(data)), (ValueError, OSError), (
        b"22 1 8:2 / / rw,relatime - ext4 /dev/sda2 rw\n40 22 0:45 / /home rw - nfs4 s:/home rw\n",)),
    Parser("processor list", _text(lambda t: spelled(cpu_list(t))), (ValueError,), (b"0-3,8,10-11\n",)),
    Parser("gres", _text(parse_gres), (GresError,), (b"gpu:h100:8(S:0-1),gpu:a100:2(IDX:0-1)",)),
    Parser("gres.conf", _text(lambda t: (promised_gpus(t, "n1"), promised_parts(t, "n1"))), (ValueError,), (GRES,)),
    Parser("node text", _text(nodes_from_text), (SlurmError, ValueError), (NODE,)),
    Parser("node json", nodes_from_json, (SlurmError, ValueError), (
        b'{"nodes":[{"name":"n1","state":["IDLE","DRAIN"],"reason":"x","reason_changed_by_user":"root",'
        b'"reason_set_time":{"set":true,"number":1}}],"errors":[]}',)),
    Parser("records", _text(lambda t: parse_records(t, "NodeName")), (ValueError,), (NODE,)),
    Parser("slurm.conf", _text(lambda t: (slurm_text(t), slurm_config.parse_limits(t))), (SlurmError, ValueError), (
        b"Configuration data as of 2026\nMessageTimeout = 10 sec\nSLURM_VERSION = 22.05.8\nPrologFlags = Alloc\n",)),
    Parser("host list", _text(hostlist.expand), (hostlist.HostlistError,), (b"n[1-8,10],m1",)),
    Parser("reason", _text(lambda t: (reason.parse(t), reason.one_line(t), reason.needs_repair(t))), (), (
        b"nodevet: gpu_lost 0000:3b:00.0 [abc123]", b"Prolog error")),
    Parser("profile", _text(lambda t: read_profile(t, "x")), (ProfileError,), (PROFILE,)),
    Parser("policy", _text(lambda t: merge([("x", read_pack(t, "x"))])), (PolicyError,), (PACK,)),
    Parser("configuration", _text(lambda t: parse_config(t, None, {})), (ConfigError,), (CONFIG,)),
    Parser("site answer", _site, (Garbled,), (
        b'{"findings":[{"status":"warn","code":"x_y","message":"m"}]}', b"OK - all well | t=1;2;3")),
    Parser("dcgm report", _text(read_diag), (Unusable,), (DIAG,)),
    Parser("BMC", _text(lambda t: (sensors(t), entries(t))), (ValueError,), (SENSOR,)),
    Parser("hook's environment", _job, (), (JOB,)),
    Parser("frames", _frames, (ValueError, msgspec.MsgspecError), (b"\0\0\0\5hello", b"\xff" * 8)),
    *(Parser(kind.__name__, _wire(kind), (msgspec.MsgspecError,), (_finding(), b"{}"))
      for kind in (Finding, Report, Batch, CheckReport, PollAnswer, PermitAnswer, GateAnswer)),
    *(Parser(f"lane's {kind.__name__}", lambda data, kind=kind: msgspec.msgpack.decode(data, type=kind),  # type: ignore[misc]
             (msgspec.MsgspecError,), (b"\x81\xa2id\1",)) for kind in (Request, Reply)),
)  # fmt: skip
