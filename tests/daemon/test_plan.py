"""A plan is the profile under the site's settings, split where each value needs a lane of its own."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from pathlib import Path

import pytest

from checks import Check, Finding, Host
from checks.declare import check
from checks.profile import Profile, ProfileError
from daemon import plan as planning
from daemon.config import CheckSettings, Config, parse_config
from daemon.plan import Instance, plan


def _declared() -> dict[str, Check]:
    from checks.declare import CHECKS

    before = dict(CHECKS)

    @check(lane="fs", interval=60, timeout=2.0, each="paths")
    def plan_mount(host: Host, *, paths: tuple[str, ...] = (), floor: int = 1) -> Iterator[Finding]:
        yield from ()

    @check(lane="nvml", interval=30, timeout=3.0, per_job=True)
    def plan_gpu(host: Host, *, gres: int = 0, expected: int = 0, gres_mig: tuple[str, ...] = ()) -> Iterator[Finding]:
        yield from ()

    made = {"plan_mount": CHECKS["plan_mount"], "plan_gpu": CHECKS["plan_gpu"]}
    CHECKS.clear()
    CHECKS.update(before)
    return made


@pytest.fixture(autouse=True)
def two_checks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only the checks of this file are known."""
    known = _declared()
    monkeypatch.setattr(planning, "load", lambda: known)
    monkeypatch.setattr("checks.profile.load", lambda: known)


def _config(text: str = "") -> Config:
    return parse_config(text, Path("site.toml"), {})


def _named(instances: tuple[Instance, ...]) -> dict[str, Instance]:
    return {i.name: i for i in instances}


def test_as_declared() -> None:
    found = _named(plan(_config(), Profile(name="p")))
    assert list(found) == ["plan_mount", "plan_gpu"]
    assert found["plan_mount"].target == "node"
    assert found["plan_mount"].lane == "system", "without a path it touches nothing: no worker of its own"
    assert (found["plan_gpu"].interval, found["plan_gpu"].timeout, found["plan_gpu"].stale_after) == (30, 3.0, 60)
    assert found["plan_gpu"].hook_only and not found["plan_mount"].hook_only


def test_each_value_has_its_lane() -> None:
    profile = Profile(name="p", checks={"plan_mount": {"paths": ["/home", "/scratch", "/home"], "floor": 5}})
    found = _named(plan(_config(), profile))
    assert list(found) == ["plan_mount:/home", "plan_mount:/scratch", "plan_gpu"]
    scratch = found["plan_mount:/scratch"]
    assert (scratch.lane, scratch.target) == ("fs:/scratch", "/scratch")
    assert scratch.options == {"paths": ("/scratch",), "floor": 5}


def test_the_site_wins_over_the_profile() -> None:
    profile = Profile(name="p", checks={"plan_gpu": {"expected": 8, "gres": 8}}, skip=("plan_mount",))
    text = "[checks.plan_gpu]\nexpected = 4\ninterval = 10\ntimeout = 1\n"
    found = _named(plan(_config(text), profile, gres=2))
    assert list(found) == ["plan_gpu"]
    assert found["plan_gpu"].options == {"expected": 4, "gres": 8}
    assert (found["plan_gpu"].interval, found["plan_gpu"].timeout) == (10.0, 1.0)


def test_switched_on_and_off() -> None:
    profile = Profile(name="p", skip=("plan_mount",))
    text = "[checks.plan_mount]\nenabled = true\n[checks.plan_gpu]\nenabled = false\n"
    assert list(_named(plan(_config(text), profile))) == ["plan_mount"]


def test_gres_conf_fills_in_what_nobody_set() -> None:
    found = _named(plan(_config(), Profile(name="p"), gres=8))
    assert found["plan_gpu"].options == {"gres": 8} and found["plan_mount"].options == {}
    found = _named(plan(_config(), Profile(name="p"), mig=("0:", "1:1g.10gb")))
    assert found["plan_gpu"].options == {"gres_mig": ("0:", "1:1g.10gb")}


def test_checks_read_the_tables_of_the_agents_own_policy(monkeypatch: pytest.MonkeyPatch) -> None:
    """A site that keeps its policy elsewhere says so once."""
    monkeypatch.undo()
    found = _named(plan(_config('[agent]\npolicy_dir = "/opt/site/policy.d"\n'), Profile(name="p")))
    reading = {name: i.options["policy_dir"] for name, i in found.items() if "policy_dir" in i.check.options}
    assert {"kernel_xid", "kernel_events", "ib_counters", "dcgm_diag"} <= set(reading)
    assert set(reading.values()) == {"/opt/site/policy.d"}


def test_a_profile_that_does_not_fit_is_named() -> None:
    with pytest.raises(ProfileError, match="profile p: check plan_gpu has no setting 'expectd'; did you mean"):
        plan(_config(), Profile(name="p", checks={"plan_gpu": {"expectd": 1}}))
    assert CheckSettings().enabled is None


@pytest.mark.parametrize(("text", "lane"), [("", "system"), ('[checks.plan_names]\nnames = ["a", "b"]\n', "names")])
def test_what_needs_a_name_has_a_worker_only_with_one(monkeypatch: pytest.MonkeyPatch, text: str, lane: str) -> None:
    def plan_names(host: Host, *, names: tuple[str, ...] = ()) -> Iterator[Finding]:
        yield from ()

    options = {"names": inspect.signature(plan_names).parameters["names"]}
    declared = Check("plan_names", plan_names, "t", "names", interval=900, only_with=("names",), options=options)
    for module in ("daemon.plan", "checks.profile"):
        monkeypatch.setattr(f"{module}.load", lambda: {"plan_names": declared})
    monkeypatch.setattr("checks.profile.option_types", lambda check: {"names": tuple[str, ...]})
    (found,) = plan(_config(text), Profile(name="p"))
    assert (found.name, found.lane) == ("plan_names", lane)
