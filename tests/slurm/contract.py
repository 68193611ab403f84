"""What every backend promises, tried against stand-ins of four releases and against a real Slurm."""

from __future__ import annotations

from typing import Protocol

import pytest

from slurm.backend import Backend
from slurm.errors import BadRequest, InvalidTransition, NotFound
from slurm.ownership import OurRecord, Result, drain_if_free, replace_prolog_error, resume_if_ours
from slurm.proof import prove_writes
from slurm.reason import Owner, compose, compose_person, owner_of

OURS = compose("gpu_lost", "GPU 3 (0000:5d:00.0) fell off the bus; Xid 79", token="7f3a9c")
HOSTILE = compose("mount_hung", 'rock\'n "roll" $(reboot) `id` \\ | [x] = y; 50% überhitzt 温度', token="ab12")


class World(Protocol):
    """A Slurm, real or not, with a node that is idle at the start of every test."""

    backend: Backend
    node: str

    def admin_drain(self, reason: str) -> None: ...

    def running_job(self) -> int: ...


class Contract:
    """The suite; a subclass provides the fixture ``world``."""

    def test_reads_one_node_and_all(self, world: World) -> None:
        one, every = world.backend.node(world.node), world.backend.nodes()
        assert (one.base, one.out_of_service, one.known) == ("IDLE", False, True)
        assert len(every) >= 2
        assert every[world.node].base == "IDLE"
        assert every[world.node].partitions == one.partitions != ()

    def test_an_unknown_node_is_not_found(self, world: World) -> None:
        for call in (lambda: world.backend.node("zz"), lambda: world.backend.drain("zz", OURS)):
            with pytest.raises(NotFound):
                call()

    @pytest.mark.parametrize("name", ["ALL", "all", "n1,n2", "n[1-3]", "", "n1 state=down", "-h", "n1\n", "$(reboot)"])
    def test_one_name_reaches_one_node(self, world: World, name: str) -> None:
        """E14: five nodes resumed in one go put the bad one back; ALL would reach the whole cluster."""
        for call in (
            lambda: world.backend.node(name),
            lambda: world.backend.drain(name, OURS),
            lambda: world.backend.resume(name),
        ):
            with pytest.raises(BadRequest):
                call()

    @pytest.mark.parametrize("reason", ["", "two\nlines", "tab\there", '"quoted"', "'quoted'", " blank", "x" * 1001])
    def test_a_reason_that_slurm_would_alter_is_refused(self, world: World, reason: str) -> None:
        """E98, E99: what is stored must be what we wrote, or it is not recognised later."""
        with pytest.raises(BadRequest):
            world.backend.drain(world.node, reason)
        assert not world.backend.node(world.node).out_of_service

    @pytest.mark.parametrize("reason", [OURS, HOSTILE])
    def test_drains_with_the_reason_as_it_is(self, world: World, reason: str) -> None:
        """E98, E99: apostrophes, quotes, `$()`, signs and unicode are stored literally, without quotation marks."""
        world.backend.drain(world.node, reason)
        state = world.backend.node(world.node)
        assert state.drained
        assert state.reason is not None
        assert (state.reason.text, state.reason.user) == (reason, "root")
        assert state.reason.at is not None
        assert owner_of(state) is Owner.OURS_AUTOMATIC
        assert owner_of(world.backend.nodes()[world.node]) is Owner.OURS_AUTOMATIC

    def test_resumes(self, world: World) -> None:
        """E01: after a resume no reason is active, even where the release keeps its text."""
        world.backend.drain(world.node, OURS)
        world.backend.resume(world.node)
        assert world.backend.node(world.node).active_reason is None
        with pytest.raises(InvalidTransition):
            world.backend.resume(world.node)

    def test_changes_a_reason_alone(self, world: World) -> None:
        world.admin_drain("ticket 12")
        world.backend.set_reason(world.node, HOSTILE)
        reason = world.backend.node(world.node).reason
        assert reason is not None
        assert reason.text == HOSTILE

    def test_reads_and_requeues_a_job(self, world: World) -> None:
        job_id = world.running_job()
        job = world.backend.job(job_id)
        assert job is not None
        assert (job.running, job.batch, job.requeue, job.restart_count, job.held) == (True, True, True, 0, False)
        assert job.nodelist
        world.backend.requeue(job_id)
        again = world.backend.job(job_id)
        assert again is not None
        assert (again.job_id, again.running, again.ended) == (job_id, False, False)

    def test_an_unknown_job(self, world: World) -> None:
        assert world.backend.job(99999) is None
        with pytest.raises(NotFound):
            world.backend.requeue(99999)
        with pytest.raises(BadRequest):
            world.backend.job(-1)

    def test_proves_that_it_may_write_without_writing(self, world: World) -> None:
        """E07, E107: a drain that cannot be done must be known before it is needed."""
        prove_writes(world.backend)

    def test_reads_limits_and_pings(self, world: World) -> None:
        limits = world.backend.limits()
        assert limits.alloc
        assert limits.budget() > 0
        assert world.backend.ping() is True

    def test_drains_a_free_node_and_resumes_what_is_ours(self, world: World) -> None:
        seen: list[str] = []
        drained = drain_if_free(world.backend, world.node, OURS, store=lambda state: seen.append(state.name))
        assert (drained.result, drained.detail, seen) == (Result.WRITTEN, "", [world.node])
        assert drained.before is not None and drained.after is not None
        assert (drained.before.out_of_service, drained.after.drained) == (False, True)
        assert drained.gap_ms is not None and drained.window_ms is not None
        assert 0 <= drained.gap_ms <= drained.window_ms
        assert drain_if_free(world.backend, world.node, HOSTILE).result is Result.ALREADY_OURS
        resumed = resume_if_ours(world.backend, world.node, OurRecord(OURS))
        assert resumed.result is Result.WRITTEN
        assert resumed.after is not None and not resumed.after.out_of_service
        assert resume_if_ours(world.backend, world.node, OurRecord(OURS)).result is Result.IN_SERVICE

    @pytest.mark.parametrize("reason", ["ADMIN SHUTDOWN", 'don\'t touch "it" $(x)', "Kill task failed"])
    def test_leaves_an_administrators_drain_alone(self, world: World, reason: str) -> None:
        """E01, E15: never written over and never resumed, also when our record says the node was ours before."""
        world.admin_drain(reason)
        before = world.backend.node(world.node)
        for outcome in (
            drain_if_free(world.backend, world.node, OURS),
            resume_if_ours(world.backend, world.node, OurRecord(OURS)),
            resume_if_ours(world.backend, world.node, OurRecord(reason), by_person=True),
            replace_prolog_error(world.backend, world.node, OURS, we_refused=True),
        ):
            assert outcome.result is Result.KEPT
            assert reason in outcome.detail or repr(reason) in outcome.detail
        assert world.backend.node(world.node).reason == before.reason

    def test_resumes_only_the_drain_on_record(self, world: World) -> None:
        """E104: an old record of ours does not lift a newer drain of ours."""
        world.backend.drain(world.node, HOSTILE)
        assert resume_if_ours(world.backend, world.node, OurRecord(OURS)).result is Result.KEPT
        assert world.backend.node(world.node).drained

    def test_a_persons_drain_is_resumed_by_a_person(self, world: World) -> None:
        assert drain_if_free(world.backend, world.node, OURS).result is Result.WRITTEN
        person = compose_person("fan noise, ticket 12", token="ab12")
        assert drain_if_free(world.backend, world.node, person).result is Result.WRITTEN
        assert drain_if_free(world.backend, world.node, OURS).result is Result.KEPT
        assert resume_if_ours(world.backend, world.node, OurRecord(person)).result is Result.KEPT
        assert resume_if_ours(world.backend, world.node, OurRecord(person), by_person=True).result is Result.WRITTEN

    def test_a_bare_prolog_error_is_replaced_only_when_it_was_us(self, world: World) -> None:
        """E11, E108: without a refusal of ours on record it is somebody else's and stays."""
        world.admin_drain("Prolog error")
        kept = replace_prolog_error(world.backend, world.node, OURS, we_refused=False)
        assert (kept.result, kept.owner) == (Result.KEPT, Owner.SLURM)
        replaced = replace_prolog_error(world.backend, world.node, OURS, we_refused=True)
        assert replaced.result is Result.WRITTEN
        assert owner_of(world.backend.node(world.node)) is Owner.OURS_AUTOMATIC
        assert replace_prolog_error(world.backend, world.node, OURS, we_refused=True).result is Result.ALREADY_OURS
