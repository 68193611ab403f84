"""A permit is granted only with the node out of service already; whatever goes wrong admits the job, loudly."""

from __future__ import annotations

import asyncio
import threading
from dataclasses import replace
from pathlib import Path

import msgspec

from checks.judge.guard import GuardLimits
from checks.wire import Decision
from slurm.job import JobState
from slurm.reason import Owner, owner_of
from slurm.state import NodeState
from tests.api.controller.fake_slurm import Bench, bench


def ready(b: Bench) -> None:
    """Let the controller know Slurm's nodes."""
    asyncio.run(b.tick())


def test_the_node_is_drained_before_the_permit_is_given(tmp_path: Path) -> None:
    with bench(tmp_path) as b:
        ready(b)
        answer = asyncio.run(b.control.permit(b.request("n2", 7, b.lost())))
        assert answer.granted and answer.drained and answer.permit
        assert owner_of(b.slurm.table["n2"]) is Owner.OURS_AUTOMATIC


def test_the_same_attempt_gets_the_same_permit(tmp_path: Path) -> None:
    with bench(tmp_path) as b:
        ready(b)
        first = asyncio.run(b.control.permit(b.request("n2", 7, b.lost())))
        again = asyncio.run(b.control.permit(b.request("n2", 7, b.lost())))
        assert again == first and len(b.slurm.writes) == 1


def test_findings_that_the_servers_policy_does_not_refuse_get_no_permit(tmp_path: Path) -> None:
    """An agent with a forged or outdated wish drains nothing."""
    with bench(tmp_path) as b:
        ready(b)
        for finding in (b.fine(), b.lost(blame="job"), b.lost(status="warn"), b.lost(code="shadowed")):
            answer = asyncio.run(b.control.permit(b.request("n2", 7, finding)))
            assert not answer.granted
        assert b.slurm.writes == [] and ("n2", "permit_denied") in b.incidents()


def test_a_job_that_would_be_cancelled_is_admitted_unless_a_device_is_lost(tmp_path: Path) -> None:
    with bench(tmp_path) as b:
        b.slurm.jobs[7] = JobState(7, "RUNNING", requeue=False)
        ready(b)
        answer = asyncio.run(b.control.permit(b.request("n2", 7, b.lost(code="ecc_old"))))
        assert not answer.granted and "drain" in answer.why
        assert asyncio.run(b.control.permit(b.request("n3", 7, b.lost()))).granted


def test_a_closed_guard_admits_the_job(tmp_path: Path) -> None:
    with bench(tmp_path, guard=GuardLimits(drained_least=0, drained_share=0)) as b:
        ready(b)
        answer = asyncio.run(b.control.permit(b.request("n2", 7, b.lost())))
        assert not answer.granted and answer.why.startswith("guard:")
        assert b.slurm.writes == [] and ("n2", "permit_denied") in b.incidents()


def test_a_dead_slurm_admits_the_job(tmp_path: Path) -> None:
    with bench(tmp_path) as b:
        ready(b)
        b.slurm.down()
        answer = asyncio.run(b.control.permit(b.request("n2", 7, b.lost())))
        assert not answer.granted and ("n2", "permit_denied") in b.incidents()


def test_a_slow_slurm_is_not_waited_for_and_the_late_drain_is_put_right(tmp_path: Path) -> None:
    with bench(tmp_path, permit_seconds=0.4) as b:
        b.slurm.jobs[7] = JobState(7, "RUNNING", restart_count=0)
        ready(b)
        go = threading.Event()
        real = b.slurm.drain

        def slow(name: str, reason: str) -> None:
            go.wait(20)
            real(name, reason)

        b.slurm.drain = slow  # type: ignore[method-assign]

        async def story() -> bool:
            answer = await b.control.permit(b.request("n2", 7, b.lost()))
            go.set()
            while not b.slurm.table["n2"].out_of_service:
                await asyncio.sleep(0.01)
            await b.tick()
            await b.tick()
            return answer.granted

        assert asyncio.run(story()) is False
        assert b.core.records.open_drains("sim")["n2"].state in ("draining", "drained")
        assert b.slurm.requeued == [7]


def test_a_node_that_a_person_drained_meanwhile_keeps_their_reason(tmp_path: Path) -> None:
    with bench(tmp_path) as b:
        ready(b)
        b.slurm.set("n2", "drain", "mine, bob", user="root")
        b.slurm.writes.clear()
        assert asyncio.run(b.control.permit(b.request("n2", 7, b.lost()))).granted
        assert b.slurm.writes == []


def test_many_prologs_at_once_do_not_pass_the_ceiling(tmp_path: Path) -> None:
    with bench(tmp_path, count=40, guard=GuardLimits(drained_least=3, alike_least=40, hourly_least=40)) as b:
        ready(b)

        async def storm() -> int:
            asked = [b.control.permit(b.request(f"n{i}", 7, b.lost())) for i in range(1, 21)]
            return sum(a.granted for a in await asyncio.gather(*asked))

        assert asyncio.run(storm()) == 4
        assert sum(owner_of(s) is Owner.OURS_AUTOMATIC for s in b.slurm.table.values()) == 4


def test_leases_stay_within_the_guards_room_and_small_clusters_have_none(tmp_path: Path) -> None:
    async def poll_all(b: Bench, count: int) -> int:
        for i in range(1, count + 1):
            await b.control.orders("sim", f"n{i}", 0.0)
        await b.tick()
        await b.tick()
        return sum(len(b.control.leases_for("sim", f"n{i}")) for i in range(1, count + 1))

    small, large = tmp_path / "small", tmp_path / "large"
    small.mkdir()
    large.mkdir()
    with bench(small) as b:
        assert asyncio.run(poll_all(b, 4)) == 0
    with bench(large, count=100) as b:
        assert asyncio.run(poll_all(b, 100)) == 1
        assert b.control.leases_for("other", "n1") == ()


def test_a_bare_prolog_error_is_ours_only_by_record(tmp_path: Path) -> None:
    """E108: the notice of a good prolog was lost; that is neither ours nor hardware."""
    with bench(tmp_path) as b:
        b.slurm.set("n2", "drain", "Prolog error")
        b.slurm.writes.clear()
        asyncio.run(b.tick())
        assert b.slurm.writes == [] and ("n2", "prolog_error_unexplained") in b.incidents()
        b.slurm.set("n3", "drain", "Prolog error")
        b.slurm.writes.clear()
        request = b.request("n3", 9, b.lost())
        decision = replace_allowed(request.decision)
        b.report("n3", b.lost(), occasion="prolog", decision=decision, job=request.job)
        asyncio.run(b.tick())
        reason = b.slurm.table["n3"].reason
        assert reason and reason.text.startswith("nodevet: gpu_lost")
        assert b.core.records.open_drains("sim")["n3"].codes == ("gpu_lost",)


def replace_allowed(decision: Decision) -> Decision:
    """The decision as an agent reports it after a refusal under a lease."""
    return msgspec.structs.replace(decision, allowed="refuse", reason="gpu_lost GPU 3: fell off the bus")


def test_a_node_that_went_to_maintenance_is_not_touched(tmp_path: Path) -> None:
    with bench(tmp_path) as b:
        ready(b)
        state: NodeState = b.slurm.table["n2"]
        b.slurm.table["n2"] = replace(state, flags=state.flags | {"MAINT"})
        assert not asyncio.run(b.control.permit(b.request("n2", 7, b.lost()))).granted
        assert b.slurm.writes == []
