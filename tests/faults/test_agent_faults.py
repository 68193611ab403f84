"""Bad input and broken surroundings cost the agent a finding or an answer, and never a node."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from deploy.simcluster import hang_fs
from deploy.simcluster.host import SimHost
from tests.daemon.agent.central_server import Service, until
from tests.daemon.agent.running import JOB, RunningAgent

MakeAgent = Callable[..., RunningAgent]
pytestmark = pytest.mark.faults
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="mounting needs root")


@contextmanager
def small_disk(where: Path, options: str = "size=256k") -> Iterator[None]:
    where.mkdir(exist_ok=True)
    try:
        hang_fs.mount("tmpfs", where, "tmpfs", options)
    except OSError as error:
        if error.errno in (errno.EPERM, errno.EACCES):
            pytest.skip("mounting is not allowed here")
        raise
    try:
        yield
    finally:
        hang_fs.unmount(where)


def refusing(make_agent: MakeAgent, service: Service, host: SimHost) -> RunningAgent:
    agent = make_agent(service.url)
    agent.start()
    until(lambda: agent.status().uplink.state == "connected", what="connection")
    host.inject("gpu_lost", gpu=3)
    agent.request("POST", "/v1/check")
    return agent


@needs_root
def test_a_full_disk_is_a_finding_and_decisions_stand(make_agent: MakeAgent, service: Service, host: SimHost) -> None:
    agent = make_agent()
    with small_disk(agent.base / "state"):
        agent = refusing(make_agent, service, host)
        (agent.base / "state" / "ballast").write_bytes(b"")
        with pytest.raises(OSError, match="No space"):
            (agent.base / "state" / "ballast").write_bytes(b"x" * 1024 * 1024)
        answer = agent.hook()
        assert answer.exit == 1
        until(lambda: "state_dir_failed" in agent.codes(), what="finding")
        assert "ENOSPC" in next(f.message for f in agent.status().findings if f.code == "state_dir_failed")
        until(lambda: any(r.occasion == "prolog" for r in service.reports), what="report from memory")
        (agent.base / "state" / "ballast").unlink()
        agent.hook(SLURM_JOB_ID="43")
        until(lambda: "state_dir_failed" not in agent.codes(), what="settled finding")
        agent.stop()


@needs_root
def test_a_read_only_state_directory_is_a_finding(make_agent: MakeAgent, service: Service) -> None:
    agent = make_agent(service.url)
    with small_disk(agent.base / "state", "size=1m,mode=700"):
        subprocess.run(["mount", "-o", "remount,ro", str(agent.base / "state")], check=True, timeout=20)
        agent.start()
        assert agent.hook().text == "nodevet: admitted"
        until(lambda: "state_dir_failed" in agent.codes(), what="finding")
        until(lambda: any(r.occasion == "prolog" for r in service.reports), what="report from memory")
        agent.stop()


@needs_root
@pytest.mark.skipif(hang_fs.cannot_run() is not None, reason=str(hang_fs.cannot_run()))
def test_a_hanging_state_directory_holds_up_nobody(make_agent: MakeAgent, service: Service) -> None:
    agent = make_agent(service.url)
    state = agent.base / "state"
    state.mkdir()
    pid = hang_fs.start(state)
    try:
        agent.start(wait=False)
        until(lambda: agent.socket.exists(), what="socket")
        until(agent.ready, 30, what="agent")
        answer = agent.hook()
        assert (answer.exit, answer.text) == (0, "nodevet: admitted")
        assert answer.seconds < 3
        until(lambda: agent.codes() & {"state_dir_hung", "state_dir_failed"}, 20, what="finding")
        until(lambda: any(r.occasion == "prolog" for r in service.reports), what="report from memory")
        assert agent.stop(timeout=30) == 0
    finally:
        hang_fs.stop(pid, state)


BROKEN = {
    "unknown key": "[agent]\nsokcet = 1\n",
    "no toml": "this is not toml at all [[[\n",
    "wrong type": '[agent]\nanswer_budget = "long"\n',
    "unknown check": "[checks.no_such_check]\ninterval = 1\n",
}


@pytest.mark.parametrize("kind", sorted(BROKEN))
def test_a_broken_configuration_admits_every_job_loudly(
    make_agent: MakeAgent, service: Service, host: SimHost, kind: str
) -> None:
    """E67: one bad roll-out of our own files must not walk over the cluster, node after node, as jobs arrive."""
    agent = make_agent(service.url)
    host.inject("gpu_lost", gpu=3)
    lines = BROKEN[kind].splitlines()
    text = agent.config.read_text()
    if kind == "no toml" or not lines[0].startswith("[agent]"):
        text += "\n" + BROKEN[kind]
    else:
        text = text.replace("[agent]\n", f"[agent]\n{lines[1]}\n", 1)
    agent.config.write_text(text)
    agent.start()
    answer = agent.hook()
    assert answer.exit == 0
    assert "nothing was judged" in answer.text
    assert "configuration is broken" in answer.text
    assert agent.status().config_error
    assert "event=config_broken" in agent.log
    assert service.permits == []
    until(
        lambda: any(f.code == "config_broken" for r in service.reports for f in r.findings),
        what="report of the broken configuration",
    )
    agent.configure()
    os.kill(agent.pid, signal.SIGHUP)
    until(lambda: _mended(agent), 30, what="mended agent")


def _mended(agent: RunningAgent) -> bool:
    try:
        return not agent.status().config_error and agent.ready()
    except OSError:
        return False


@pytest.mark.parametrize("where", ["policy.d/site.toml", "profiles.d/site.toml"])
def test_a_broken_site_file_admits_every_job_loudly(make_agent: MakeAgent, host: SimHost, where: str) -> None:
    agent = make_agent()
    path = agent.base / where
    path.parent.mkdir()
    path.write_text('version = "1"\n[codes.gpu_lost]\nprologue = "refuse"\n')
    agent.start()
    host.inject("gpu_lost", gpu=3)
    agent.request("POST", "/v1/check")
    assert agent.hook().exit == 0
    assert "config_broken" in agent.codes()


GARBLED: dict[str, dict[str, str]] = {
    "long comment": {"SLURM_JOB_COMMENT": "x" * 3000},
    "quotes and shell": {"SLURM_JOB_COMMENT": "'\"`$(touch /tmp/nv-owned)`; rm -rf /\n\nNodevet-Exit: 1\r\n"},
    "unicode": {"SLURM_JOB_COMMENT": "żółć \u202e\u2028 🧨 \udcff", "SLURM_JOB_USER": "ünï"},
    "newlines": {"SLURM_JOB_PARTITION": "gpu\nNodevet-Exit: 1", "SLURM_NODELIST": "n1\nn2"},
    "no number": {"SLURM_JOB_ID": "0x1F", "SLURM_JOBID": "seven"},
    "huge number": {"SLURM_JOB_ID": "9" * 400},
    "negative": {"SLURM_JOB_RESTART_COUNT": "-1", "SLURM_JOB_UID": "-0"},
    "garbled gpus": {"SLURM_JOB_GPUS": "0,,1,a-b,9999999"},
    "huge gpu range": {"SLURM_JOB_GPUS": "0-9999"},
    "100,000 names": {"SLURM_NODELIST": "n[1-100000]", "SLURM_JOB_NUM_NODES": "100000"},
    "more names than allowed": {"SLURM_NODELIST": "n[1-999999999]", "SLURM_JOB_NUM_NODES": "4"},
    "nested brackets": {"SLURM_NODELIST": "n[1-[2-3]]", "SLURM_JOB_NUM_NODES": "4"},
    "other node": {"SLURMD_NODENAME": "../../etc"},
}


def test_garbled_environments_are_admitted_in_time(agent: RunningAgent) -> None:
    for kind, changes in GARBLED.items():
        values = {**JOB, **changes}
        body = b"\0".join(f"{k}={v}".encode("utf-8", "surrogateescape") for k, v in values.items())
        answer = agent.raw("prolog", body)
        assert (answer.status, answer.exit) == (200, 0), kind
        assert "\n" not in answer.text, kind
        assert answer.seconds < 7, kind
    for body in (b"", b"\0" * 1000, b"=" * 1000, os.urandom(5000), b"SLURM_JOB_ID=1\0" * 10_000):
        for hook in ("prolog", "epilog", "health"):
            assert agent.raw(hook, body).exit == 0
    assert not Path("/tmp/nv-owned").exists()
    assert agent.hook(SLURM_JOB_ID="77").exit == 0


def test_hung_device_calls_neither_block_nor_refuse(make_agent: MakeAgent, host: SimHost) -> None:
    agent = make_agent()
    agent.start()
    host.inject("nvml_hang")
    started = time.monotonic()
    answers = [agent.hook(SLURM_JOB_ID=str(n)) for n in range(100, 103)]
    assert {a.exit for a in answers} == {0}
    assert time.monotonic() - started < 21
    assert agent.hook("health").seconds < 2
    until(lambda: agent.status().wedged_lanes == ("nvml",), 30, what="wedged lane")
    host.heal("nvml_hang")


def test_64_hooks_at_once_are_all_answered(agent: RunningAgent) -> None:
    from concurrent.futures import ThreadPoolExecutor

    with ThreadPoolExecutor(64) as pool:
        answers = list(pool.map(lambda n: agent.hook(SLURM_JOB_ID=str(n)), range(1000, 1064)))
    assert {a.exit for a in answers} == {0}
    assert agent.status().hooks["failed"] == 0
