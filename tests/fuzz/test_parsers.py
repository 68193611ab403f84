"""No bytes end a reader with anything but the errors it declares, and no text of a user drains a node."""

from __future__ import annotations

import contextlib
import random
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from checks import Host
from checks import host as host_module
from checks.catalog import load
from checks.judge.context import Context
from checks.judge.decide import decide
from checks.judge.policy import shipped
from checks.runner import run_check
from tests.fuzz.mutate import mutated
from tests.fuzz.parsers import PARSERS, XID, Parser, everywhere

BOUNDED = settings(max_examples=25, derandomize=True, deadline=None, database=None)
ROUNDS = 120
KERNEL = ("kernel_xid", "kernel_events", "kernel_oom")
LINES = (
    XID.decode(),
    "NVRM: Xid (PCI:0000:3b:00): 48, pid=1, name=x, DBE (double bit error)",
    "nvidia-nvswitch3: SXid (PCI:0000:07:00.0): 20034, Fatal, Link 30 LTSSM Fault Up",
    "mlx5_core 0000:1a:00.0: health_check: device's health compromised - reached miss count",
    "EXT4-fs error (device sda2): ext4_find_entry: reading directory",
    "nvme nvme0: Device not ready; aborting reset",
    "oom-kill:constraint=CONSTRAINT_NONE,nodemask=(null),cpuset=/,mems_allowed=0-1,global_oom,task=x,pid=1,uid=0",
)


@pytest.mark.parametrize("parser", PARSERS, ids=lambda p: p.name)
def test_no_bytes_end_it(parser: Parser) -> None:
    @BOUNDED
    @given(st.binary(max_size=200) | st.text(max_size=200).map(lambda t: t.encode("utf-8", "surrogatepass")))
    def asked(data: bytes) -> None:
        with contextlib.suppress(*parser.declared):
            parser.run(data)

    asked()


@pytest.mark.parametrize("parser", PARSERS, ids=lambda p: p.name)
def test_no_spoiled_input_ends_it(parser: Parser) -> None:
    """Most of a real answer, with something in it changed, doubled, cut out or put in."""
    dice = random.Random(parser.name)
    for _ in range(ROUNDS):
        data = mutated(dice.choice(parser.seeds), dice)
        try:
            parser.run(data)
        except parser.declared:
            continue
        except Exception as error:
            pytest.fail(f"{type(error).__name__}: {error} from {data!r}")


def wanted(host: Host) -> set[str]:
    """What the shipped policy wants of everything that the kernel log's checks say."""
    findings = [f for name in KERNEL for f in run_check(load()[name], host).findings]
    assert not [f for f in findings if f.code == "check_error"], findings
    return {decide(findings, shipped(), Context(occasion=o, now=host.now())).wanted for o in ("interval", "prolog")}


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("record", ["12,{n},{t},-;{line}", " {line}", "4,{n},{t};{line}", "<4>{line}", "{line}"])
def test_no_line_of_a_user_drains_a_node(tmp_path: Path, record: str, seed: int) -> None:
    """Rule 8, E101: a user's facility, a continuation line, or what is no record at all, with a real error in it."""
    dice = random.Random(seed)
    log = tmp_path / "kmsg"
    log.write_bytes(b"6,1,1000,-;Linux version\n")
    (tmp_path / "proc").mkdir()
    (tmp_path / "proc/uptime").write_text("100.0 100.0\n")
    host = Host(root=tmp_path, kmsg=log, simulated=True)
    assert wanted(host) == {"admit"}
    with log.open("ab") as file:
        for number in range(2, 40):
            line = dice.choice(LINES) if number % 2 else mutated(dice.choice(LINES).encode(), dice).decode("latin-1")
            text = record.format(n=number, t=99_000_000, line=line.replace("\n", " ").replace("\r", " "))
            file.write(text.encode() + b"\n")
    assert wanted(host) == {"admit"}


def test_the_same_line_of_the_kernel_does(tmp_path: Path) -> None:
    """What proves the test above: the judge is not deaf."""
    log = tmp_path / "kmsg"
    log.write_bytes(b"6,1,1000,-;Linux version\n")
    (tmp_path / "proc").mkdir()
    (tmp_path / "proc/uptime").write_text("100.0 100.0\n")
    host = Host(root=tmp_path, kmsg=log, simulated=True)
    wanted(host)
    with log.open("ab") as file:
        file.write(b"4,2,99000000,-;" + LINES[1].encode() + b"\n4,3,99000001,-;" + XID + b"\n")
    findings = run_check(load()["kernel_xid"], host).findings
    assert {f.status for f in findings} & {"fail", "warn"}


@BOUNDED
@given(st.lists(st.binary(max_size=120), max_size=12))
def test_noise_in_the_kernels_own_log_drains_nothing(
    tmp_path_factory: pytest.TempPathFactory, rows: list[bytes]
) -> None:
    """A driver may print anything; what is not known to be an error is none."""
    root = tmp_path_factory.mktemp("noise")
    log = root / "kmsg"
    text = b"".join(b"4,%d,99000000,-;" % n + row.replace(b"\n", b"") + b"\n" for n, row in enumerate(rows, 1))
    log.write_bytes(text)
    (root / "proc").mkdir()
    (root / "proc/uptime").write_text("100.0 100.0\n")
    assert wanted(Host(root=root, kmsg=log, simulated=True)) == {"admit"}


NUMBERS = ["-1", "9" * 30, "NaN", "1e999", "0x", "\u0663", "\u00b2", "true", "null", "{}", "[]", '{"a": [[]]}', "0", ""]
SHALLOW = sorted(name for name, declared in load().items() if declared.cost == "passive" and not declared.per_job)


@pytest.mark.parametrize("name", SHALLOW)
def test_one_nonsense_in_every_file_is_no_fault(name: str) -> None:
    """Rule 1: every file, link and command of the node says the same thing that makes no sense."""

    @settings(BOUNDED, max_examples=20)
    @given(st.sampled_from(NUMBERS) | st.text(max_size=60) | st.text("0:;,=-./ \n\tax", max_size=40))
    def asked(text: str) -> None:
        host_module._KEPT.clear()
        host = everywhere(text.encode("utf-8", "surrogatepass"))
        for _ in range(2):
            found = run_check(load()[name], host).findings
            assert [f for f in found if f.status == "fail" and f.blame == "node"] == []

    asked()
