"""The slurmrestd backend keeps the contract with every version of the API and turns each trouble into its own error."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from slurm import errors
from slurm.proof import prove_writes
from slurm.rest.backend import Rest
from tests.slurm.contract import OURS, Contract
from tests.slurm.fake import FakeJob, FakeSlurm
from tests.slurm.fake_rest import TOKEN, VERSIONS, FakeRest, Reply, serving
from tests.slurm.recorded import raw

PAIRS = [(release, version) for release, versions in VERSIONS.items() for version in versions]
WRITING = [pair for pair in PAIRS if pair[1] != "v0.0.38"]


def token() -> str:
    return TOKEN


@dataclass
class RestWorld:
    """A stand-in of one version of the API."""

    slurm: FakeSlurm
    rest: FakeRest
    backend: Rest
    node: str = "n2"

    def admin_drain(self, reason: str) -> None:
        node = self.slurm.nodes[self.node]
        node.flags, node.reason, node.user = ["DRAIN"], reason, "root"

    def running_job(self) -> int:
        self.slurm.jobs[7] = FakeJob()
        return 7


@contextmanager
def world_of(release: str, version: str, *, beside: bool = True, at: Path | None = None) -> Iterator[RestWorld]:
    slurm = FakeSlurm(release)
    rest = FakeRest(slurm, (version,))
    with serving(rest, at) as url:
        yield RestWorld(slurm, rest, Rest(url, token=token, user="root", beside=slurm.backend if beside else None))


class TestStandIn(Contract):
    @pytest.fixture(params=WRITING, ids="-".join)
    def world(self, request: pytest.FixtureRequest) -> Iterator[RestWorld]:
        with world_of(*request.param) as world:
            yield world


class TestUnixSocket(Contract):
    @pytest.fixture
    def world(self, tmp_path: Path) -> Iterator[RestWorld]:
        with world_of("26.05", "v0.0.45", at=tmp_path / "r") as world:
            yield world


@pytest.fixture
def old() -> Iterator[RestWorld]:
    with world_of("22.05", "v0.0.38", beside=False) as world:
        yield world


@pytest.fixture
def new() -> Iterator[RestWorld]:
    with world_of("26.05", "v0.0.45", beside=False) as world:
        yield world


def test_the_oldest_version_reads_and_says_that_it_cannot_write(old: RestWorld) -> None:
    """A drain that cannot be done is known at the start, and costs no question."""
    assert old.backend.node("n1").base == "IDLE"
    assert sorted(old.backend.nodes()) == ["n1", "n2", "n3"]
    assert old.backend.ping() is True
    job = old.backend.job(old.running_job())
    assert job is not None
    assert (job.running, job.batch, job.restart_count, job.nodelist) == (True, True, 0, "n[1-2]")
    assert old.backend.job(99999) is None
    with pytest.raises(errors.NotFound):
        old.backend.node("zz")
    calls: list[Callable[[], None]] = [
        lambda: old.backend.drain("n1", OURS),
        lambda: old.backend.set_reason("n1", OURS),
        lambda: old.backend.resume("n1"),
        lambda: prove_writes(old.backend),
    ]
    for call in calls:
        with pytest.raises(errors.ReadOnly, match=r"v0\.0\.38"):
            call()
    assert not any(asked.startswith("POST") for asked in old.rest.asked)


@pytest.mark.parametrize(("release", "version"), [pair for pair in PAIRS if pair[1] != "v0.0.45"])
def test_what_a_version_lacks_is_not_made_up(release: str, version: str) -> None:
    with world_of(release, version, beside=False) as world:
        with pytest.raises(errors.Unsupported, match="cannot requeue"):
            world.backend.requeue(7)
        limits = world.backend.limits()
        assert limits.version is not None
        assert (limits.version[0], limits.prolog_flags, limits.alloc) == (int(release[:2]), None, False)


def test_asks_for_the_newest_version_once() -> None:
    """E122: few calls."""
    rest = FakeRest(FakeSlurm("24.11"), VERSIONS["24.11"])
    with serving(rest) as url:
        backend = Rest(url, token=token)
        for _ in range(2):
            backend.node("n1")
    pings = [f"GET /slurm/v0.0.{number}/ping" for number in (45, 44, 43, 42)]
    assert rest.asked == [*pings, "GET /slurm/v0.0.42/node/n1", "GET /slurm/v0.0.42/node/n1"]


def test_finds_the_version_again_when_slurmrestd_was_replaced() -> None:
    rest = FakeRest(FakeSlurm("24.11"), ("v0.0.42",))
    with serving(rest) as url:
        backend = Rest(url, token=token)
        backend.node("n1")
        rest.offers = ("v0.0.40",)
        with pytest.raises(errors.Unsupported):
            backend.node("n1")
        assert backend.node("n1").base == "IDLE"
        rest.offers = ()
        with pytest.raises(errors.Unsupported):
            backend.node("n1")
        with pytest.raises(errors.Unsupported, match=r"v0\.0\.38 to v0\.0\.45"):
            backend.node("n1")


def test_a_fixed_version_is_not_looked_for() -> None:
    rest = FakeRest(FakeSlurm("24.11"), VERSIONS["24.11"])
    with serving(rest) as url:
        Rest(url, token=token, version="v0.0.40").node("n1")
    assert rest.asked == ["GET /slurm/v0.0.40/node/n1"]
    with pytest.raises(ValueError, match=r"v0\.0\.39"):
        Rest(url, token=token, version="v0.0.39")


@pytest.mark.parametrize(("release", "version"), PAIRS)
def test_a_token_that_is_not_accepted(release: str, version: str) -> None:
    rest = FakeRest(FakeSlurm(release), (version,))
    with serving(rest) as url:
        with pytest.raises(
            errors.Unreachable if version == "v0.0.38" else errors.PermissionDenied, match=r"token|auth"
        ):
            Rest(url, token=lambda: "a.b.c", user="root").node("n1")
        past = base64.urlsafe_b64encode(json.dumps({"exp": 1}).encode()).decode().rstrip("=")
        with pytest.raises(errors.PermissionDenied, match="the token has expired"):
            Rest(url, token=lambda: f"a.{past}.c", user="root").node("n1")


def _said(words: str, number: int, about: str = "Failure to update node n1") -> dict[str, object]:
    return {"errors": [{"description": about, "error_number": number, "error": words}]}


@pytest.mark.parametrize(
    ("reply", "kind"),
    [
        ((401, "Authentication failure"), errors.PermissionDenied),
        ((403, "no"), errors.PermissionDenied),
        ((511, _said("Protocol authentication error", 1007)), errors.PermissionDenied),
        ((500, _said("Protocol authentication error", 1007)), errors.PermissionDenied),
        ((500, _said("Invalid user id", 2010)), errors.PermissionDenied),
        ((422, _said("Invalid user id", 2010)), errors.PermissionDenied),
        ((422, _said("Invalid node name specified", 2018)), errors.NotFound),
        ((422, _said("Invalid node state transition", 2180)), errors.InvalidTransition),
        ((500, _said("RPC rate limit exceeded, retry later", 1020)), errors.Busy),
        ((429, "slow down"), errors.Busy),
        ((503, "no"), errors.Busy),
        ((504, _said("anything", 7)), errors.Busy),
        ((500, _said("Socket timed out on send/recv operation", 5004)), errors.Busy),
        ((502, _said("Unable to contact slurm controller (connect failure)", 1800)), errors.Unreachable),
        ((502, "<html>Bad Gateway</html>"), errors.Unreachable),
        ((500, _said("Unspecified error", -1)), errors.Unreachable),
        ((511, _said("Expired credential", 6002)), errors.ClockSkew),
        ((200, _said("Invalid user id", 2010)), errors.PermissionDenied),
        ((200, _said("Something new", 4711)), errors.SlurmError),
        ((500, ""), errors.SlurmError),
        ((405, "not defined"), errors.Unsupported),
        ((302, ""), errors.BadAnswer),
        ((200, "nonsense"), errors.BadAnswer),
        ((200, []), errors.BadAnswer),
    ],
)
def test_status_and_words_become_one_error(new: RestWorld, reply: Reply, kind: type[errors.SlurmError]) -> None:
    """E118, E122: none is the node's fault, and errors inside a 200 are errors."""
    new.backend.api()
    new.rest.refuse = lambda method, path: reply
    with pytest.raises(errors.SlurmError, match="slurmrestd drain: ") as caught:
        new.backend.drain("n1", OURS)
    assert type(caught.value) is kind


@pytest.mark.parametrize(("release", "version"), [("24.11", "v0.0.42"), ("26.05", "v0.0.45")])
def test_a_controller_that_is_away_is_no_missing_node(release: str, version: str) -> None:
    """E02: recorded with slurmctld killed; "Failure to query node n1" stands there too."""
    with world_of(release, version) as world:
        world.backend.api()
        down = json.loads(raw(release, f"rest/{version}-node-down.json"))
        world.rest.refuse = lambda method, path: (502, down)
        with pytest.raises(errors.Unreachable, match="n1: Unable to contact slurm controller"):
            world.backend.node("n1")
        world.rest.refuse = lambda method, path: (200, json.loads(raw(release, f"rest/{version}-ping-down.json")))
        assert world.backend.ping() is False
        gone = _said("Unspecified error", -1, "Unable to query JobId=1")
        world.rest.refuse = lambda method, path: (500, gone)
        with pytest.raises(errors.Unreachable):
            world.backend.job(1)
        assert world.backend.ping() is False


@pytest.mark.parametrize("told", [{}, {"nodes": {}}, {"nodes": []}, {"nodes": [1, {"name": 2}]}])
def test_an_answer_without_nodes_is_our_trouble(new: RestWorld, told: object) -> None:
    new.backend.api()
    new.rest.refuse = lambda method, path: (200, told)
    with pytest.raises(errors.BadAnswer):
        new.backend.nodes()
    with pytest.raises((errors.BadAnswer, errors.NotFound)):
        new.backend.node("n1")
    for call in (lambda: new.backend.job(1), new.backend.limits, new.backend.ping):
        with pytest.raises(errors.BadAnswer):
            call()


def test_of_an_array_the_very_job_is_taken(new: RestWorld) -> None:
    told = json.loads(raw("26.05", "rest/v0.0.45-job.json"))
    plain = told["jobs"][0]
    told["jobs"] = [{**plain, "job_id": number, "name": "x\nJobState=FAILED"} for number in (2, 4, 3)]
    new.backend.api()
    new.rest.refuse = lambda method, path: (200, told)
    job = new.backend.job(3)
    assert job is not None
    assert (job.job_id, job.state) == (3, plain["job_state"][0])
    assert new.backend.job(5) is None
