"""A reason tells whose drain it is, and ours can be composed and read back."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slurm.reason import MAX_CHARS, Owner, compose, compose_person, needs_repair, owner_of, parse
from slurm.state import NodeState, Reason

OURS = "nodevet: gpu_lost GPU 3 (0000:5d:00.0) fell off the bus; Xid 79 [7f3a9c]"


def _owner(reason: str, state: str = "IDLE+DRAIN") -> Owner | None:
    base, *flags = state.split("+")
    return owner_of(NodeState("n1", base, frozenset(flags), Reason(reason)))


def test_composes_one_plain_line() -> None:
    assert compose("gpu_lost", "GPU 3 (0000:5d:00.0) fell off the bus; Xid 79", token="7f3a9c") == OURS


def test_takes_ours_apart() -> None:
    ours = parse(OURS)
    assert ours is not None
    assert (ours.owner, ours.code, ours.token) == (Owner.OURS_AUTOMATIC, "gpu_lost", "7f3a9c")
    assert ours.detail == "GPU 3 (0000:5d:00.0) fell off the bus; Xid 79"


def test_ours_stays_ours_when_slurm_appends_to_it() -> None:
    """E05: a reboot adds " : reboot issued" to the reason that stands there."""
    ours = parse(OURS + " : reboot issued : reboot timed out")
    assert ours is not None
    assert (ours.token, ours.appended) == ("7f3a9c", " : reboot issued : reboot timed out")


def test_hostile_detail_becomes_one_harmless_line() -> None:
    """E99: line breaks, control characters and turned text are taken out; quotes and `$()` are only text."""
    reason = compose("mount_hung", 'rock\'n roll $(reboot) "x" \n\x1b[31m\u202e\x00 end', token="ab12")
    assert reason == 'nodevet: mount_hung rock\'n roll $(reboot) "x" [31m end [ab12]'


@pytest.mark.parametrize(
    ("detail", "public"),
    [
        ("job script /home/alice/run.sh hangs", "job script (path) hangs"),
        ("file:///scratch/bob/x", "file:(path)"),
        ("cwd=/lustre/p1 is gone", "cwd=(path) is gone"),
        ("mlx5_0/1 is DOWN, I/O error", "mlx5_0/1 is DOWN, I/O error"),
        ("/dev/nvidia3 does not answer", "/dev/nvidia3 does not answer"),
        ("/dev/shm/alice is full", "(path) is full"),
    ],
)
def test_keeps_paths_out_of_public_text(detail: str, public: str) -> None:
    assert compose("x", detail, token="ab12") == f"nodevet: x {public} [ab12]"


def test_cuts_a_long_detail_and_keeps_the_token() -> None:
    reason = compose("gpu_lost", "x" * 3000, token="7f3a9c")
    assert len(reason) == MAX_CHARS
    assert reason.endswith("... [7f3a9c]")


@pytest.mark.parametrize(("code", "token"), [("GPU", "ab12"), ("", "ab12"), ("a b", "ab12"), ("a", "zz"), ("a", "ab]")])
def test_refuses_a_code_or_token_that_would_not_read_back(code: str, token: str) -> None:
    with pytest.raises(ValueError, match="is not"):
        compose(code, "x", token=token)


@pytest.mark.parametrize(
    ("reason", "owner"),
    [
        (OURS, Owner.OURS_AUTOMATIC),
        (compose_person("fan noise, ticket 12", token="ab12"), Owner.PERSON_THROUGH_US),
        ("Prolog error", Owner.SLURM),
        ("Epilog error", Owner.SLURM),
        ("Kill task failed", Owner.SLURM),
        ("Not responding", Owner.SLURM),
        ("gres/gpu count reported lower than configured (2 < 4)", Owner.SLURM),
        ("Low RealMemory (reported:24105 < 100.00% of configured:9999999)", Owner.SLURM),
        ("Low socket*core*thread count, Low CPUs", Owner.SLURM),
        ("batch job complete failure", Owner.SLURM),
        ("Duplicate jobid", Owner.SLURM),
        ("Node unexpectedly rebooted", Owner.SLURM),
        ("Reboot ASAP : reboot complete", Owner.SLURM),
        ("ADMIN SHUTDOWN", Owner.OTHER),
        ("NHC: Watchdog timer unable to terminate hung NHC process", Owner.OTHER),
        ("see nodevet: gpu_lost x [7f3a9c]", Owner.OTHER),
        ("nodevet: gpu_lost typed by hand without a token", Owner.OTHER),
        (OURS + " do not touch, Bob", Owner.OTHER),
        ("", Owner.OTHER),
    ],
)
def test_names_the_owner(reason: str, owner: Owner) -> None:
    """E01, E15, E66, E104: ours word for word, Slurm's by its own words, everybody else's."""
    assert _owner(reason) is owner


def test_nobody_owns_a_node_in_service() -> None:
    """E01: a reason left over from an earlier drain (24.11) is not active."""
    assert _owner(OURS, "IDLE") is None
    assert _owner(OURS, "MIXED+NOT_RESPONDING") is None
    assert _owner(OURS, "DOWN") is Owner.OURS_AUTOMATIC
    assert _owner(OURS, "IDLE+FAIL") is Owner.OURS_AUTOMATIC


@pytest.mark.parametrize("stored", [f'"{OURS}"', f"'{OURS}'", f' "{OURS}" '])
def test_quoted_ours_is_to_be_repaired(stored: str) -> None:
    """E98: a writer that quotes leaves the quotation marks in; that text is not ours word for word."""
    assert needs_repair(stored)
    assert _owner(stored) is Owner.OTHER
    assert not needs_repair(OURS)
    assert not needs_repair('"ADMIN"')


@given(
    st.from_regex(r"[a-z][a-z0-9_]{0,63}", fullmatch=True), st.text(), st.from_regex(r"[0-9a-f]{4,32}", fullmatch=True)
)
def test_what_is_composed_reads_back_as_ours(code: str, detail: str, token: str) -> None:
    reason = compose(code, detail, token=token)
    ours = parse(reason)
    assert ours is not None
    assert (ours.code, ours.token, ours.owner) == (code, token, Owner.OURS_AUTOMATIC)
    assert len(reason) <= MAX_CHARS
    assert reason.isprintable()
    assert parse(compose_person(detail, token=token)) is not None


@given(st.text())
def test_any_text_has_an_owner(text: str) -> None:
    assert isinstance(_owner(text), Owner)
