"""The request carries the job's variables unchanged, bounded, with what identifies the job first."""

from __future__ import annotations

import pytest

from tests.slurm.hook.agent import Request, answer, says, serving
from tests.slurm.hook.rig import JOB, Hook

BODY_MAX = 256 * 1024
VALUE_MAX = 64 * 1024


def sent(hook: Hook, env: dict[str, str]) -> Request:
    """Return the request of a hook that ran with ``env``."""
    with serving(hook.socket, says(answer())) as agent:
        result = hook.run(env=env)
    assert (result.code, hook.causes(), len(agent.requests)) == (0, [], 1)
    return agent.requests[0]


def test_only_the_jobs_variables_are_sent(hook: Hook) -> None:
    devices = {"GPU_DEVICE_ORDINAL": "0", "ROCR_VISIBLE_DEVICES": "1", "ZE_AFFINITY_MASK": "2"}
    others = {"SECRET": "x", "CUDA_VISIBLE_DEVICES_X": "x", "XSLURM_JOB_ID": "x", "SLURM": "x", "SLURMD": "x"}
    request = sent(hook, JOB | devices | others | {"SLURM_CONF": "/etc/slurm/slurm.conf", "SLURM_EMPTY": ""})
    assert request.environment() == JOB | devices | {"SLURM_CONF": "/etc/slurm/slurm.conf", "SLURM_EMPTY": ""}
    assert "nodevet-truncated" not in request.headers


def test_health_has_a_node_name_only(hook: Hook) -> None:
    assert sent(hook, {"SLURMD_NODENAME": "n1"}).environment() == {"SLURMD_NODENAME": "n1"}


def test_nothing_at_all(hook: Hook) -> None:
    assert sent(hook, {}).body == b""


@pytest.mark.parametrize(
    "value",
    [
        "two\nlines\r\nNodevet-Exit: 1\r\n\r\n",
        "\"quotes\" 'and' `ticks` $(reboot) ${IFS} ; | & \\",
        "grün 節点 \U0001f4a5 \u202e",
        "\udcff\udcfe not utf-8",
        "=a=b=",
        "\x1b[31m\x7f\x01",
        "c" * 3000,
        "n[1-100000]",
    ],
)
def test_hostile_values_are_data(hook: Hook, value: str) -> None:
    env = JOB | {"SLURM_JOB_COMMENT": value, "SLURM_NODELIST": value, "SLURM_JOB_GPUS": value}
    assert sent(hook, env).environment() == env


def test_identity_goes_first(hook: Hook) -> None:
    request = sent(hook, {"SLURM_AAA": "a", **dict(reversed(JOB.items()))})
    names = [item.partition(b"=")[0].decode() for item in request.body.split(b"\0")]
    assert names[:7] == [
        "SLURM_JOB_ID",
        "SLURM_JOBID",
        "SLURMD_NODENAME",
        "SLURM_CLUSTER_NAME",
        "SLURM_JOB_UID",
        "SLURM_JOB_GPUS",
        "SLURM_JOB_RESTART_COUNT",
    ]
    assert sorted(names) == sorted([*JOB, "SLURM_AAA"])


def test_long_value_is_cut_and_said_so(hook: Hook) -> None:
    names = ",".join(f"n{number}" for number in range(18_000))
    assert VALUE_MAX < len(names) < 128 * 1024
    request = sent(hook, JOB | {"SLURM_NODELIST": names})
    assert request.environment() == JOB | {"SLURM_NODELIST": names[:VALUE_MAX]}
    assert request.headers["nodevet-truncated"] == "1"


def test_value_of_exactly_the_bound_is_whole(hook: Hook) -> None:
    request = sent(hook, JOB | {"SLURM_NODELIST": "x" * VALUE_MAX})
    assert len(request.environment()["SLURM_NODELIST"]) == VALUE_MAX
    assert "nodevet-truncated" not in request.headers


def test_environment_over_the_bound_keeps_identity_and_what_fits(hook: Hook) -> None:
    big = {f"SLURM_BIG{number}": "x" * 60_000 for number in range(9)}
    request = sent(hook, big | {"SLURM_LAST": "small"} | JOB)
    environment = request.environment()
    assert len(request.body) <= BODY_MAX
    assert request.headers["nodevet-truncated"] == "1"
    assert environment.items() >= JOB.items()
    assert environment["SLURM_LAST"] == "small"
    assert sum(name.startswith("SLURM_BIG") for name in environment) == 4


def test_identity_itself_is_bounded(hook: Hook) -> None:
    request = sent(hook, {name: "9" * 100_000 for name in JOB})
    assert set(request.environment()) == set(JOB)
    assert request.headers["nodevet-truncated"] == "1"


def test_very_many_variables(hook: Hook) -> None:
    request = sent(hook, JOB | {f"SLURM_{number}": "" for number in range(60_000)})
    assert len(request.body) <= BODY_MAX
    assert request.environment().items() >= JOB.items()
    assert request.headers["nodevet-truncated"] == "1"
