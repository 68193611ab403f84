"""jobs, coverage, lemons and node tell over a real server what happened to jobs, in words."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta, timezone

import msgspec
import pytest

from checks.wire import Decision, JobAttempt, Unvetted
from daemon.central import Central
from tests.api.fakes import batch, finding, good, report
from tests.api.test_server_process import ROOT, Server, environment, make_token

Verb = Callable[..., subprocess.CompletedProcess[str]]
REFUSED = Decision(verdict="faulty", wanted="refuse", allowed="refuse", codes=("gpu_lost",), reason="gpu_lost GPU 3")


def fill(central: Central) -> None:
    """Job 7 is refused, job 8 meets a new fault, job 9 finds no agent."""
    now = datetime.now(timezone.utc) - timedelta(seconds=60)
    seven, eight = JobAttempt(job_id=7, restart_count=0, nodes=1), JobAttempt(job_id=8, restart_count=0, nodes=1)
    fault = msgspec.structs.replace(finding("gpu_xid", code="gpu_xid_reset"), since=now + timedelta(seconds=20))
    mark = Unvetted(job_id=9, restart_count=0, cause="hook_no_agent", at=now)
    central.ingest(
        batch(
            report(1, occasion="prolog", job=seven, decision=REFUSED, at=now),
            report(2, good(), occasion="prolog", job=eight, at=now),
            msgspec.structs.replace(report(3, fault, at=now + timedelta(seconds=21)), unvetted=(mark,)),
            report(4, occasion="epilog", job=eight, at=now + timedelta(seconds=30)),
        )
    )


@pytest.fixture(scope="module")
def verb(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Verb]:
    """The command against a server of its own that has heard of three jobs."""
    folder = tmp_path_factory.mktemp("jobs")
    server = Server(folder)
    try:
        url = server.url()
        viewer = make_token(server, folder, "--role", "viewer")
        central = Central(url, make_token(server, folder, "--role", "agent", "--cluster", "c", "--node", "n1"))
        fill(central)
        central.close()
        env = {**environment(folder), "NODEVET_SERVER": url, "NODEVET_TOKEN": viewer}

        def run(*arguments: str) -> subprocess.CompletedProcess[str]:
            argv = [sys.executable, "-m", "daemon", "--config", os.devnull + "/none", *arguments]
            return subprocess.run(argv, cwd=ROOT, capture_output=True, text=True, env=env, timeout=60, check=False)

        yield run
    finally:
        server.end()


def told(done: subprocess.CompletedProcess[str]) -> str:
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_a_job_is_explained_to_user_and_operator(verb: Verb) -> None:
    seen = told(verb("jobs", "7"))
    assert "for the operator: refused on n1: gpu_lost GPU 3. slurm requeues" in seen
    assert "for the user: not started: node n1 was found faulty before the job began" in seen


def test_what_began_during_a_job_is_shown_with_job_and_node(verb: Verb) -> None:
    for seen in (told(verb("jobs", "8")), told(verb("node", "n1"))):
        assert "gpu_xid_reset" in seen and "a coincidence in time, no proof" in seen and "8.0" in seen


def test_a_job_that_only_a_hook_knows_of_is_explained(verb: Verb) -> None:
    assert "started; without a whole answer on n1 (hook_no_agent)" in told(verb("jobs", "9", "--cluster", "c"))


def test_lists_are_narrowed(verb: Verb) -> None:
    refused = told(verb("jobs", "--refused", "--since", "24h"))
    assert "7.0" in refused and "8.0" not in refused
    assert "7.0" not in told(verb("jobs", "--held"))
    assert verb("jobs", "--since", "yesterday").returncode == 64
    assert verb("jobs", "4711", "--cluster", "c").returncode == 1


def test_coverage_is_one_number_with_its_causes(verb: Verb) -> None:
    seen = told(verb("coverage", "--since", "1h"))
    assert seen.startswith("66.667 % of 3 starts of jobs on nodes were vetted: 1 admitted, 1 refused, 1 began unvetted")
    assert "hook_no_agent  no agent answered the hook" in seen


def test_lemons_say_when_there_is_too_little_data(verb: Verb) -> None:
    assert told(verb("lemons")).startswith("too little data: 3 starts of jobs")
