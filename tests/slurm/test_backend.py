"""The commands backend keeps the contract with every release and turns each trouble into its own error."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slurm import errors, run
from slurm.commands import Commands
from slurm.job import job_from_columns, state_and_hold
from slurm.proof import prove_writes
from slurm.run import Ended
from tests.slurm.contract import OURS, Contract
from tests.slurm.fake import FakeJob, FakeSlurm
from tests.slurm.recorded import RELEASES


@dataclass
class FakeWorld:
    """A stand-in of one release."""

    slurm: FakeSlurm
    node: str = "n2"

    @property
    def backend(self) -> Commands:
        return self.slurm.backend

    def admin_drain(self, reason: str) -> None:
        node = self.slurm.nodes[self.node]
        node.flags, node.reason, node.user = ["DRAIN"], reason, "root"

    def running_job(self) -> int:
        self.slurm.jobs[7] = FakeJob()
        return 7


class TestStandIn(Contract):
    @pytest.fixture(params=RELEASES)
    def world(self, request: pytest.FixtureRequest) -> FakeWorld:
        return FakeWorld(FakeSlurm(request.param))


@pytest.fixture
def slurm() -> FakeSlurm:
    return FakeSlurm("22.05")


@pytest.mark.parametrize(
    ("message", "kind"),
    [
        ("slurm_load_node error: Unable to contact slurm controller (connect failure)", errors.Unreachable),
        ("slurm_load_node error: Socket timed out on send/recv operation", errors.Busy),
        (
            "slurm_update error: RPC rate limit exceeded by uid 0 with REQUEST_UPDATE_NODE, telling to back off",
            errors.Busy,
        ),
        ("slurm_update error: Invalid user id", errors.PermissionDenied),
        ("slurm_update error: Access/permission denied", errors.PermissionDenied),
        ("slurm_update error: Invalid node state specified", errors.InvalidTransition),
        ("slurm_update error: Invalid node state transition", errors.InvalidTransition),
        ("slurm_update error: Invalid node name specified", errors.NotFound),
        ("error: Munge decode failed: Expired credential", errors.ClockSkew),
        ("error: Munge decode failed: Rewound credential", errors.ClockSkew),
        ("Expired credential\nslurm_load_node error: Unable to contact slurm controller", errors.ClockSkew),
        ("scontrol: fatal: Could not establish a configuration source", errors.Unreachable),
        ("Failure to query node n1", errors.NotFound),
        ("Failure to query node n1 Unable to contact slurm controller (connect failure)", errors.Unreachable),
        ("Failure to query node n1: Access/permission denied", errors.PermissionDenied),
        ("slurm_load_node error: Slurm backup controller in standby mode", errors.Busy),
        ("error: Server telling us to back off", errors.Busy),
        ("slurm_update error: Slurm controller in recovery mode, please retry", errors.Busy),
        ("slurm_load_node error: Connection reset by peer", errors.Unreachable),
        ("slurm_update error: Transport endpoint is not connected", errors.Unreachable),
        ("something new", errors.SlurmError),
        ("", errors.SlurmError),
    ],
)
def test_slurms_words_become_one_error(slurm: FakeSlurm, message: str, kind: type[errors.SlurmError]) -> None:
    """E118: a refused credential means the clock; E122: "back off" means busy. None is the node's fault."""
    slurm.refuse["scontrol update"] = Ended(1, b"", message.encode())
    with pytest.raises(errors.SlurmError, match="scontrol update: ") as caught:
        slurm.backend.drain("n1", OURS)
    assert type(caught.value) is kind


def test_asks_for_json_where_the_release_has_it() -> None:
    """E89: scontrol has --json from 23.02 on, sinfo from 21.08 on; one bulk question either way."""
    asked = {}
    for release in RELEASES:
        slurm = FakeSlurm(release)
        slurm.backend.nodes()
        slurm.backend.node("n1")
        asked[release] = [" ".join(call) for call in slurm.calls if "--version" not in call]
    assert asked == {
        "20.11": ["scontrol --all show node", "scontrol show node n1"],
        "22.05": ["sinfo --all --json", "scontrol show node n1"],
        "24.11": ["scontrol --all show node --json", "scontrol show node n1 --json"],
        "26.05": ["scontrol --all show node --json", "scontrol show node n1 --json"],
    }


@pytest.mark.parametrize(
    "message",
    [
        "scontrol: unrecognized option '--json'",
        "sinfo: fatal: Unable to find plugin: serializer/json",
        "data_parser/v0.0.40",
    ],
)
@pytest.mark.parametrize("release", ["22.05", "24.11"])
def test_a_release_without_its_json_plugin_is_asked_for_text(release: str, message: str) -> None:
    slurm = FakeSlurm(release)
    answer = slurm.run

    def without_json(argv: Sequence[str], *, env: Mapping[str, str], timeout: float, step: str) -> Ended:
        ended = answer(argv, env=env, timeout=timeout, step=step)
        return Ended(1, b"", message.encode()) if "--json" in argv else ended

    backend = Commands(without_json)
    assert sorted(backend.nodes()) == ["n1", "n2", "n3"]
    assert backend.node("n1").base == "IDLE"
    assert sum("--json" in call for call in slurm.calls) == 1


def test_asks_for_the_version_once(slurm: FakeSlurm) -> None:
    """E122: few calls."""
    for _ in range(3):
        slurm.backend.node("n1")
    assert sum("--version" in call for call in slurm.calls) == 1


def test_sends_an_environment_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """E107: a hook has no PATH, and what root's shell exported must not change the answer."""
    monkeypatch.setenv("SLURM_TIME_FORMAT", "relative")
    slurm = FakeSlurm("22.05")
    Commands(slurm.run, conf=Path("/etc/other/slurm.conf")).node("n1")
    assert dict(slurm.env) == {
        "LC_ALL": "C",
        "TZ": "UTC",
        "PATH": run.SAFE_PATH,
        "SLURM_CONF": "/etc/other/slurm.conf",
    }


@pytest.mark.parametrize("answer", [b"", b"nonsense", b"{}", b'{"nodes": {}}', b'{"nodes": []}', b"\xff\xfe"])
@pytest.mark.parametrize("release", RELEASES)
def test_an_answer_of_another_shape_is_our_trouble(release: str, answer: bytes) -> None:
    slurm = FakeSlurm(release)
    for step in ("scontrol show node", "sinfo", "scontrol show config"):
        slurm.refuse[step] = Ended(0, answer, b"")
    for call in (slurm.backend.nodes, slurm.backend.limits):
        with pytest.raises(errors.BadAnswer):
            call()
    with pytest.raises((errors.BadAnswer, errors.NotFound)):
        slurm.backend.node("n1")


def test_a_version_that_is_none() -> None:
    slurm = FakeSlurm("22.05")
    slurm.refuse["scontrol --version"] = Ended(0, b"slurm unknown\n", b"")
    with pytest.raises(errors.BadAnswer, match="names no release"):
        slurm.backend.node("n1")


@pytest.mark.parametrize(
    ("out", "answer"),
    [
        (b"Slurmctld(primary) at vm is UP\nSlurmctld(backup1) at vm2 is DOWN\n", True),
        (b"Slurmctld(primary) at vm is DOWN\nSlurmctld(backup1) at vm2 is UP\n", True),
        (b"Slurmctld(primary) at UP is DOWN\n****\n** RESTORE SLURMCTLD DAEMON TO SERVICE **\n****\n", False),
    ],
)
def test_pings_primary_and_backup(slurm: FakeSlurm, out: bytes, answer: bool) -> None:
    slurm.refuse["scontrol ping"] = Ended(0 if answer else 1, out, b"")
    assert slurm.backend.ping() is answer


def test_a_ping_that_says_nothing(slurm: FakeSlurm) -> None:
    slurm.refuse["scontrol ping"] = Ended(1, b"", b"scontrol: fatal: Could not establish a configuration source")
    with pytest.raises(errors.Unreachable):
        slurm.backend.ping()


@given(st.text(max_size=300))
def test_any_columns_are_a_job_or_a_bad_answer(answer: str) -> None:
    try:
        job = job_from_columns(answer, 7)
    except errors.BadAnswer:
        return
    assert job is None or job.job_id == 7


@pytest.mark.parametrize(
    ("words", "priority", "expected"),
    [
        (["PENDING"], 5, ("PENDING", False)),
        (["PENDING"], 0, ("PENDING", True)),
        (["REQUEUE_HOLD"], 5, ("PENDING", True)),
        (["PENDING", "REQUEUE_HOLD"], None, ("PENDING", True)),
        (["SPECIAL_EXIT"], None, ("PENDING", True)),
        (["requeued"], 7, ("PENDING", False)),
        (["RUNNING", "COMPLETING"], None, ("COMPLETING", None)),
        ([""], None, ("UNKNOWN", None)),
    ],
)
def test_a_job_that_was_requeued_waits_and_may_be_held(
    words: list[str], priority: int | None, expected: tuple[str, bool | None]
) -> None:
    """After MaxBatchRequeue refusals 24.11 and 26.05 write REQUEUE_HOLD where an ordinary hold is PENDING."""
    assert state_and_hold(words, priority) == expected


def test_a_job_with_a_list_too_long_for_its_column() -> None:
    slurm = FakeSlurm("22.05")
    slurm.jobs[7] = FakeJob(nodelist=",".join(f"node{i}x" for i in range(3000)))
    job = slurm.backend.job(7)
    assert job is not None
    assert job.nodelist is None


def test_a_lack_of_rights_is_proved(slurm: FakeSlurm) -> None:
    """E07: an account that may not drain is told so at the start, not at the first bad node."""
    slurm.refuse["scontrol update"] = Ended(1, b"", b"slurm_update error: Invalid user id")
    with pytest.raises(errors.PermissionDenied):
        prove_writes(slurm.backend)
    slurm.refuse["scontrol update"] = Ended(0, b"", b"")
    with pytest.raises(errors.SlurmError, match="which should not exist"):
        prove_writes(slurm.backend)
