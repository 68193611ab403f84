"""The limits of the running Slurm are read from every release and bound the hook's time."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slurm.config import SlurmLimits, gate_possible, parse_limits
from slurm.errors import BadAnswer
from tests.slurm.recorded import RELEASES, text


@pytest.mark.parametrize("release", RELEASES)
def test_reads_the_running_configuration(release: str) -> None:
    limits = parse_limits(text(release, "cmd/show-config.txt"))
    assert limits.version is not None
    assert f"{limits.version[0]}.{limits.version[1]:02d}" == release
    assert (limits.message_timeout, limits.batch_start_timeout) == (10, 10)
    assert limits.prolog_epilog_timeout is None
    assert (limits.cluster, limits.slurm_user, limits.slurm_uid) == ("ci", "slurm", 64030)
    assert (limits.alloc, limits.serial, limits.deferbatch) == (True, False, False)
    assert gate_possible(limits) is None


def test_reads_what_the_site_changed() -> None:
    limits = parse_limits(text("22.05", "cmd/show-config.txt"))
    assert (limits.cred_expire, limits.health_check_interval, limits.nohold) == (5, 4, True)
    assert limits.budget() == 3
    plain = parse_limits(text("26.05", "cmd/show-config.txt"))
    assert (plain.cred_expire, plain.nohold) == (120, False)
    assert plain.budget() == 8


@pytest.mark.parametrize(
    ("setting", "budget"),
    [
        ("MessageTimeout = 100 sec", 8),
        ("MessageTimeout = 100 sec\nBatchStartTimeout = 60 sec", 58),
        ("MessageTimeout = 200 sec\nBatchStartTimeout = 200 sec\nAuthInfo = (null)", 118),
        ("MessageTimeout = 100 sec\nBatchStartTimeout = 60 sec\nPrologEpilogTimeout = 30 sec", 28),
        ("MessageTimeout = 100 sec\nBatchStartTimeout = 60 sec\nPrologEpilogTimeout = 65534", 58),
        ("MessageTimeout = 1 sec", 0),
        ("MessageTimeout = -5 sec", 8),
        ("MessageTimeout = $(reboot)\nBatchStartTimeout = 99999999999999999999 sec", 8),
        ("MessageTimeout = 100 sec\nBatchStartTimeout = 60 sec\nAuthInfo = socket=/a,cred_expire=x", 58),
        ("MessageTimeout = 0 sec\nBatchStartTimeout = 0 sec", 8),
    ],
)
def test_the_smallest_limit_bounds_the_hook(setting: str, budget: float) -> None:
    """E02: what cannot be read counts as Slurm's own default, never as no limit."""
    assert parse_limits(setting + "\n").budget() == budget


GOOD = SlurmLimits(prolog_flags=frozenset({"alloc"}))


@pytest.mark.parametrize(
    ("limits", "why_not"),
    [
        (GOOD, None),
        (replace(GOOD, prolog_flags=frozenset({"contain"})), None),
        (replace(GOOD, prolog_flags=None), "are not known"),
        (replace(GOOD, prolog_flags=frozenset()), "has no Alloc"),
        (replace(GOOD, prolog_flags=frozenset({"deferbatch"})), "has no Alloc"),
        (replace(GOOD, prolog_flags=frozenset({"alloc", "serial"})), "has Serial"),
        (replace(GOOD, prolog_flags=frozenset({"alloc", "deferbatch"})), None),
    ],
)
def test_holds_a_job_only_where_that_is_safe(limits: SlurmLimits, why_not: str | None) -> None:
    answer = gate_possible(limits)
    assert (answer is None) if why_not is None else (answer is not None and why_not in answer)


@pytest.mark.parametrize(
    ("release", "flags", "told"),
    [
        ("24.11.5", "Alloc,Contain,RunInJob", False),
        ("26.05.5", "Alloc,Contain,RunInJob", True),
        ("24.11.5", "Alloc,Contain", True),
        ("22.05.8", "(null)", True),
    ],
)
def test_knows_where_hooks_are_not_told_their_gpus(release: str, flags: str, told: bool) -> None:
    assert parse_limits(f"SLURM_VERSION = {release}\nPrologFlags = {flags}\n").gpus_told is told


def test_flags_are_read_in_any_case() -> None:
    limits = parse_limits("SLURM_VERSION = 24.11.5\nPrologFlags = Alloc,Serial,X11\nSchedulerParameters = (null)\n")
    assert limits.prolog_flags == frozenset({"alloc", "serial", "x11"})
    assert limits.scheduler_parameters == frozenset()


def test_a_slurmctld_is_told_from_another_by_its_start() -> None:
    limits = parse_limits("SLURM_VERSION = 22.05.8\nBOOT_TIME               = 2026-12-01T05:02:42\n")
    assert limits.booted == datetime(2026, 12, 1, 5, 2, 42, tzinfo=timezone.utc)
    assert parse_limits("SLURM_VERSION = 22.05.8\nBOOT_TIME = Unknown\n").booted is None


@pytest.mark.parametrize("answer", ["", "slurm_load_ctl_conf error: Unable to contact slurm controller", "{}"])
def test_refuses_another_answer(answer: str) -> None:
    with pytest.raises(BadAnswer):
        parse_limits(answer)


@given(st.text(), st.text(), st.text())
def test_any_values_give_limits(one: str, two: str, three: str) -> None:
    limits = parse_limits(f"MessageTimeout = {one}\nAuthInfo = {two}\nSlurmUser = {three}\nSLURM_VERSION = {one}\n")
    assert 0 <= limits.budget() <= 118
