"""Every rule of the doctor is tried over what four releases say of themselves, changed in one line."""

from __future__ import annotations

import re
from datetime import datetime, timedelta, timezone

import pytest

from slurm.doctor import Advice, Program, Running, job_rules, limit_rules, program_rules, worst
from slurm.doctor.limits import clock
from slurm.errors import BadAnswer
from tests.slurm.recorded import RELEASES, text

NEW = ("24.11", "26.05")
HOOKS = "/usr/libexec/nodevet/nodevet-"


def running(release: str, **changed: str) -> Running:
    """The recorded configuration with some settings replaced, or added where the release has none."""
    recorded = text(release, "cmd/show-config.txt")
    for key, value in changed.items():
        line = f"{key} = {value}"
        recorded, count = re.subn(rf"(?m)^{key}(\[0\])?\s+=.*$", line.replace("\\", r"\\"), recorded)
        if not count:
            recorded += f"\n{line}\n"
    return Running.read(recorded)


def advice(release: str, **changed: str) -> dict[str, Advice]:
    """Everything that time and job rules say of a changed configuration, the worst of each subject."""
    deadline = float(changed.pop("deadline", "8"))
    found = running(release, **changed)
    assert found.at is not None
    said = [*limit_rules(found, deadline, found.at), *job_rules(found)]
    return {a.about: a for a in reversed(worst(said))}


@pytest.mark.parametrize("release", RELEASES)
def test_a_prepared_cluster_has_nothing_to_mend(release: str) -> None:
    said = advice(
        release,
        SchedulerParameters="nohold_on_prolog_fail",
        AuthInfo="(null)",
        HealthCheckProgram=HOOKS + "health",
        HealthCheckInterval="120 sec",
    )
    assert {a.about: a.level for a in said.values() if a.level != "ok"} == {}


@pytest.mark.parametrize("release", RELEASES)
def test_reads_the_moment_of_the_answer(release: str) -> None:
    at = running(release).at
    assert at is not None and at.tzinfo is timezone.utc and at.year == 2026


@pytest.mark.parametrize("release", RELEASES)
@pytest.mark.parametrize(
    ("setting", "value", "about", "level", "write"),
    [
        ("PrologEpilogTimeout", "5", "PrologEpilogTimeout", "problem", "PrologEpilogTimeout=10"),
        ("PrologEpilogTimeout", "9", "PrologEpilogTimeout", "warning", "PrologEpilogTimeout=10"),
        ("PrologEpilogTimeout", "120", "PrologEpilogTimeout", "ok", ""),
        ("PrologEpilogTimeout", "65534", "PrologEpilogTimeout", "ok", ""),
        ("BatchStartTimeout", "3 sec", "BatchStartTimeout", "problem", "BatchStartTimeout=10"),
        ("BatchStartTimeout", "60 sec", "BatchStartTimeout", "ok", ""),
        ("Prolog", "/etc/slurm/prolog.d/*", "BatchStartTimeout", "warning", "BatchStartTimeout=60"),
        ("MessageTimeout", "8 sec", "MessageTimeout", "problem", "MessageTimeout=10"),
        ("AuthInfo", "socket=/a,cred_expire=5", "cred_expire", "problem", "AuthInfo=…,cred_expire=120"),
        ("AuthInfo", "cred_expire=9", "cred_expire", "warning", "AuthInfo=…,cred_expire=120"),
        (
            "SchedulerParameters",
            "(null)",
            "nohold_on_prolog_fail",
            "warning",
            "SchedulerParameters=nohold_on_prolog_fail",
        ),
        (
            "SchedulerParameters",
            "a=1",
            "nohold_on_prolog_fail",
            "warning",
            "SchedulerParameters=a=1,nohold_on_prolog_fail",
        ),
        ("PrologFlags", "(null)", "PrologFlags", "warning", "PrologFlags=Alloc"),
        ("PrologFlags", "Alloc,Serial", "PrologFlags", "warning", "PrologFlags=Alloc"),
        ("PrologFlags", "DeferBatch", "PrologFlags", "problem", "PrologFlags=Alloc,DeferBatch"),
        ("PrologFlags", "Alloc,DeferBatch", "PrologFlags", "ok", ""),
        ("PrologFlags", "Alloc,NoHold", "PrologFlags", "warning", "PrologFlags=Alloc"),
        ("ReturnToService", "0", "ReturnToService", "warning", "ReturnToService=1"),
        ("ReturnToService", "2", "ReturnToService", "ok", ""),
        ("MaxBatchRequeue", "1", "MaxBatchRequeue", "warning", "MaxBatchRequeue=5"),
    ],
)
def test_each_setting_has_its_advice(
    release: str, setting: str, value: str, about: str, level: str, write: str
) -> None:
    found = advice(release, **{setting: value})[about]
    assert found.level == level
    assert found.write.startswith(write)
    assert level == "ok" or (found.what and found.why and found.write)


def test_a_hook_with_a_longer_deadline_needs_longer_limits() -> None:
    """Group runs in the prolog: 90 s must fit into everything."""
    said = advice("24.11", deadline="90")
    assert (said["BatchStartTimeout"].level, said["BatchStartTimeout"].write) == ("problem", "BatchStartTimeout=100")
    assert said["MessageTimeout"].level == "problem"
    assert advice("24.11", deadline="90", BatchStartTimeout="100 sec")["BatchStartTimeout"].level == "ok"


@pytest.mark.parametrize(
    ("release", "write"),
    [("20.11", "JobRequeue=1"), ("22.05", "JobRequeue=1"), *((r, "PrologFlags=Alloc,ForceRequeueOnFail") for r in NEW)],
)
def test_a_cancelled_job_is_foreseen(release: str, write: str) -> None:
    said = advice(release, JobRequeue="0")["JobRequeue"]
    assert (said.level, said.write) == ("warning", write)
    assert "JobRequeue" not in advice(release, JobRequeue="0", PrologFlags="Alloc,ForceRequeueOnFail")


@pytest.mark.parametrize(
    ("release", "write"), [("22.05", "SuspendExcNodes="), *((r, "SuspendExcStates=DRAIN") for r in NEW)]
)
def test_power_saving_must_spare_drained_nodes(release: str, write: str) -> None:
    saving = {"SuspendProgram": "/usr/local/sbin/suspend", "SuspendTime": "600 sec"}
    said = advice(release, **saving)["SuspendExcStates"]
    assert said.level == "warning" and said.write.startswith(write)
    assert advice(release, **saving, SuspendExcStates="DOWN,DRAIN")["SuspendExcStates"].level == "ok"
    assert "SuspendExcStates" not in advice(release, SuspendProgram="/x", SuspendTime="INFINITE")


def test_the_wait_of_a_refused_job_is_told() -> None:
    old = advice("24.11", SchedulerParameters="nohold_on_prolog_fail")["cred_expire"]
    new = advice("26.05", SchedulerParameters="nohold_on_prolog_fail")["cred_expire"]
    assert (old.level, old.write) == ("ok", "") and "waits 121 s" in old.what
    assert new.write == "SchedulerParameters=…,requeue_delay=10"


@pytest.mark.parametrize(
    ("release", "interval", "about", "level"),
    [
        ("22.05", "0 sec", "HealthCheckInterval", "warning"),
        ("22.05", "30 sec", "HealthCheckInterval", "ok"),
        ("26.05", "30 sec", "HealthCheckTimeout", "warning"),
        ("26.05", "60 sec", "HealthCheckInterval", "ok"),
    ],
)
def test_health_interval(release: str, interval: str, about: str, level: str) -> None:
    assert advice(release, HealthCheckProgram="/x", HealthCheckInterval=interval)[about].level == level


@pytest.mark.parametrize(
    ("seconds", "level"), [(0, "ok"), (-5, "ok"), (7, "warning"), (-7, "warning"), (-90, "problem")]
)
def test_clock_against_the_controllers(seconds: float, level: str) -> None:
    at = datetime(2026, 12, 1, 5, 3, 38, tzinfo=timezone.utc)
    assert clock(at, at + timedelta(seconds=seconds)).level == level


def test_other_text_is_no_configuration() -> None:
    with pytest.raises(BadAnswer):
        Running.read("slurm_load_ctl_conf error: Unable to contact slurm controller (connect failure)\n")


GOOD = Program(HOOKS + "prolog", ours=True, version="0.1.0")
OTHER = Program("/etc/slurm/prolog.d/50-site")


def said_of(key: str, programs: list[Program] | None, release: str = "24.11", **changed: str) -> list[tuple[str, str]]:
    """Level and line of all that is said about one hook setting."""
    here = None if programs is None else {key: programs}
    found = program_rules(running(release, **changed), here, "0.1.0")
    return [(a.level, a.write) for a in found if a.about == key and (a.level != "ok" or a.write == "")]


@pytest.mark.parametrize("release", RELEASES)
def test_arguments_in_a_hook_line_drain_nodes(release: str) -> None:
    """Measured on 22.05: `Prolog="/path/prolog --mode prolog"` drains the node."""
    for key in ("Prolog", "Epilog"):
        found = said_of(key, None, release, **{key: f"{HOOKS}{key.lower()} --mode x"})
        assert found == [("problem", f"{key}={HOOKS}{key.lower()}")]


@pytest.mark.parametrize("release", RELEASES)
def test_no_prolog_is_a_problem_and_the_optional_hooks_are_not(release: str) -> None:
    assert said_of("Prolog", None, release, Prolog="(null)") == [("problem", f"Prolog={HOOKS}prolog")]
    assert said_of("Prolog", [], release, Prolog="(null)") == [("problem", f"Prolog={HOOKS}prolog")]
    assert said_of("UnkillableStepProgram", [], release) == []


@pytest.mark.parametrize(
    ("key", "programs", "expected"),
    [
        ("Prolog", [GOOD], [("ok", "")]),
        ("Prolog", [OTHER, GOOD], [("ok", "")]),
        ("Prolog", [GOOD, OTHER], [("ok", ""), ("warning", "name ours with the highest number: 99-nodevet-prolog")]),
        ("Epilog", [GOOD, OTHER], [("ok", "")]),
        ("Epilog", [OTHER, GOOD], [("ok", ""), ("warning", "name ours with the lowest number: 00-nodevet-epilog")]),
        ("Prolog", [Program("/p/nodevet-prolog", True, version="0.0.9")], [("warning", "nodevet hook install")]),
        ("Prolog", [Program("/p/nodevet-prolog", True, version="")], [("warning", "nodevet hook install")]),
        (
            "Prolog",
            [Program("/p/nodevet-prolog", True, "No such file or directory")],
            [("problem", "nodevet hook install; ls -l /p/nodevet-prolog")],
        ),
    ],
)
def test_the_programs_of_a_line(key: str, programs: list[Program], expected: list[tuple[str, str]]) -> None:
    assert said_of(key, programs) == expected


@pytest.mark.parametrize(("key", "name"), [("Prolog", "99-nodevet-prolog"), ("Epilog", "00-nodevet-epilog")])
def test_what_a_site_runs_already_is_joined_and_never_replaced(key: str, name: str) -> None:
    """E119: advice that names only ours would have the site lose its own."""
    ((_, write),) = said_of(key, [Program("/opt/site/hook.sh")], **{key: "/opt/site/hook.sh"})
    assert write.startswith("keep it: ") and name in write and f"{key}=/etc/slurm/{key.lower()}.d/*" in write


@pytest.mark.parametrize("key", ["HealthCheckProgram", "UnkillableStepProgram", "TaskProlog"])
def test_a_hook_that_takes_one_program_only_calls_ours_as_well(key: str) -> None:
    """E119: such a setting knows no directory."""
    said = [
        a for a in program_rules(running("24.11", **{key: "/opt/site/x"}), {key: [Program("/opt/site/x")]}, "0.1.0")
    ]
    (write,) = [a.write for a in said if a.about == key and "does not run" in a.what]
    assert write.startswith("have it run ") and "as well" in write
