"""What every backend promises, tried against stand-ins of four releases and against a real Slurm."""

from __future__ import annotations

import time
from typing import Protocol

import pytest

from slurm.backend import Backend, Field
from slurm.batch import Batch
from slurm.errors import BadRequest, Exists, InvalidTransition, NotFound, Unsupported
from slurm.job import JobState
from slurm.notes import annotate, annotate_job
from slurm.ownership import OurRecord, Result, drain_if_free, replace_prolog_error, resume_if_ours
from slurm.proof import prove_writes
from slurm.reason import Owner, compose, compose_person, owner_of
from slurm.reservation import Reservation

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

    def test_notes_are_added_under_our_tag_and_taken_away_again(self, world: World) -> None:
        """DESIGN 6: comment and extra belong to others; their words stay byte for byte."""
        foreign = 'rack 7; don\'t "touch" $(x) = y; 温度 [other tool: 3]'
        for field in self._fields(world, foreign):
            first = annotate(world.backend, world.node, field, "finding", "gpu_lost GPU 3")
            assert (first.result, first.before) == (Result.WRITTEN, foreign)
            assert self._note(world, field) == f"{foreign} [nodevet finding: gpu_lost GPU 3]"
            assert annotate(world.backend, world.node, field, "finding", "gpu_lost GPU 3").result is Result.ALREADY_OURS
            assert annotate(world.backend, world.node, field, "finding", "healed").result is Result.WRITTEN
            assert self._note(world, field) == f"{foreign} [nodevet finding: healed]"
            assert annotate(world.backend, world.node, field, "finding", "").result is Result.WRITTEN
            assert self._note(world, field) == foreign
            world.backend.set_note(world.node, field, "")
            assert self._note(world, field) == ""
            assert annotate(world.backend, world.node, field, "finding", "").result is Result.ALREADY_OURS

    def _fields(self, world: World, text: str) -> list[Field]:
        """Write the text into both; 20.11 has no extra."""
        world.backend.set_note(world.node, "comment", text)
        try:
            world.backend.set_note(world.node, "extra", text)
        except Unsupported:
            version = world.backend.limits().version
            assert version is not None and version < (21, 8, 0)
            return ["comment"]
        return ["comment", "extra"]

    def _note(self, world: World, field: Field) -> str:
        one, among = world.backend.node(world.node), world.backend.nodes()[world.node]
        assert (one.comment, one.extra) == (among.comment, among.extra)
        return (one.comment if field == "comment" else one.extra) or ""

    def test_a_jobs_note(self, world: World) -> None:
        job_id = world.running_job()
        assert world.backend.job_note(job_id) == ""
        world.backend.set_job_note(job_id, "charged to project 7")
        assert annotate_job(world.backend, job_id, "requeue", "node n2 lost GPU 3").result is Result.WRITTEN
        assert world.backend.job_note(job_id) == "charged to project 7 [nodevet requeue: node n2 lost GPU 3]"
        assert annotate_job(world.backend, job_id, "requeue", "").result is Result.WRITTEN
        assert world.backend.job_note(job_id) == "charged to project 7"
        with pytest.raises(NotFound):
            world.backend.job_note(99999)
        assert annotate_job(world.backend, 99999, "requeue", "x").result is Result.FAILED

    @pytest.mark.parametrize("text", ["two\nlines", '"quoted"', "x" * 1001, " blank"])
    def test_a_note_that_slurm_would_alter_is_refused(self, world: World, text: str) -> None:
        with pytest.raises(BadRequest):
            world.backend.set_note(world.node, "comment", text)
        with pytest.raises(BadRequest):
            world.backend.set_job_note(7, text)

    def test_reserves_nodes_and_gives_them_back(self, world: World) -> None:
        wish = Reservation("nv-plain", (world.node,), 600, flags=("IGNORE_JOBS",))
        assert "nv-plain" not in world.backend.reservations()
        world.backend.create_reservation(wish)
        try:
            seen = world.backend.reservations()["nv-plain"]
            assert (seen.nodes, "IGNORE_JOBS" in seen.flags, "MAINT" in seen.flags) == ((world.node,), True, False)
            assert seen.start is not None and seen.end is not None
            assert (seen.end - seen.start).total_seconds() == 600
            assert seen.users == ("root",)
            with pytest.raises(Exists):
                world.backend.create_reservation(wish)
        finally:
            world.backend.delete_reservation("nv-plain")
        assert "nv-plain" not in world.backend.reservations()
        with pytest.raises(NotFound):
            world.backend.delete_reservation("nv-plain")

    @pytest.mark.parametrize(
        "wish",
        [
            Reservation("a b", ("n1",), 60),
            Reservation("a", (), 60),
            Reservation("a", ("ALL",), 60),
            Reservation("a", ("n1",), 0),
            Reservation("a", ("n1",), 60, users=()),
            Reservation("a", ("n1",), 60, flags=("DAILY",)),
        ],
    )
    def test_a_reservation_that_could_mean_more_is_refused(self, world: World, wish: Reservation) -> None:
        with pytest.raises(BadRequest):
            world.backend.create_reservation(wish)

    def test_submits_a_job_to_the_nodes_it_names_and_cancels_it(self, world: World) -> None:
        hostile = ("/bin/sh", "-c", "sleep 60", "$(reboot) 'x' \"y\"")
        job_id = world.backend.submit(Batch("nodevet-verify", hostile, (world.node,), 90))
        job = self._started(world, job_id)
        assert (job.nodelist, job.batch, job.num_nodes) == (world.node, True, job.num_nodes)
        world.backend.cancel(job_id)
        world.backend.cancel(job_id)
        gone = world.backend.job(job_id)
        assert gone is None or not gone.running
        for wrong in (
            Batch("x", ("true",), ("zz",), 60),
            Batch("x", ("true",), (world.node,), 60, reservation="none-such"),
        ):
            with pytest.raises(NotFound):
                world.backend.submit(wrong)
        for bad in (Batch("x y", ("true",), ("n1",), 60), Batch("x", (), ("n1",), 60), Batch("x", ("a",), (), 60)):
            with pytest.raises(BadRequest):
                world.backend.submit(bad)

    def _started(self, world: World, job_id: int) -> JobState:
        deadline = time.monotonic() + 60
        while (job := world.backend.job(job_id)) is None or not job.running:
            assert time.monotonic() < deadline, f"job {job_id} is {job}"
            time.sleep(0.1)
        return job

    def test_asks_for_a_reboot_and_takes_it_back(self, world: World) -> None:
        """E05: from the wish on nobody else touches the node; a running job holds it off."""
        world.running_job()
        busy = next(name for name, state in world.backend.nodes().items() if state.running_jobs or name == world.node)
        world.backend.reboot(busy, OURS, asap=True, then="resume")
        state = world.backend.node(busy)
        assert state.hands_off == "reboot requested"
        assert state.reason is not None and state.reason.text == OURS
        world.backend.cancel_reboot(busy)
        assert world.backend.node(busy).hands_off is None
        with pytest.raises(InvalidTransition):
            world.backend.cancel_reboot(busy)
        with pytest.raises(NotFound):
            world.backend.reboot("zz", OURS)
