"""What a slurmctld forgets when it dies is put right by us; what a person did meanwhile is never taken for that."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from api.controller.drain_record import DrainRecord
from api.controller.records import NewDrain, new_token
from slurm.errors import Timeout
from slurm.reason import compose
from tests.api.controller.fake_slurm import Bench, bench
from tests.api.controller.test_verify import answer_order, drained


async def returned(b: Bench, node: str = "n2") -> None:
    """Play the agent until the node is in service again."""
    for _ in range(6):
        await b.tick()
        await answer_order(b, node)
        if not b.slurm.table[node].out_of_service:
            return
    raise AssertionError(f"{node} is not given back")


def given_back(b: Bench, code: str = "gpu_lost") -> str:
    """n2 is drained by us, mended and given back by us; the reason that it had."""
    drained(b, code=code)
    b.slurm.save()
    reason = b.slurm.table["n2"].reason
    b.report("n2", b.fine())
    asyncio.run(returned(b))
    assert reason is not None
    return reason.text


def last(b: Bench, node: str = "n2") -> DrainRecord:
    record = b.core.records.last("sim", node)
    assert record is not None
    return record


def audited(b: Bench, node: str = "n2") -> list[str]:
    return [a.action for a in b.store.audit_log(limit=1000) if a.subject == node and a.action != "read before write"]


def test_a_resume_that_slurm_forgot_is_done_again_after_verification(tmp_path: Path) -> None:
    with bench(tmp_path) as b:
        reason = given_back(b)
        b.slurm.crash()
        now = b.slurm.table["n2"].reason
        assert now is not None and now.text == reason, "slurm shows our old reason again"
        asyncio.run(b.tick())
        assert last(b).state in ("drained", "verifying") and last(b).why.startswith("slurm forgot our resume")
        asyncio.run(returned(b))
        assert last(b).state == "resumed" and len(b.core.records.listing("sim", all_states=True)) == 1
        assert audited(b).count("drain reopened") == 1 and audited(b).count("drain") == 1


def test_a_fault_that_came_meanwhile_keeps_the_node_and_is_shown(tmp_path: Path) -> None:
    with bench(tmp_path) as b:
        given_back(b, code="ecc_old")
        b.report("n2", b.lost())
        b.slurm.crash()
        for _ in range(4):
            asyncio.run(b.tick())
        reason = b.slurm.table["n2"].reason
        assert b.slurm.table["n2"].out_of_service and reason is not None
        assert "gpu_lost" in reason.text and last(b).codes == ("gpu_lost", "ecc_old")


def test_a_resume_of_a_person_through_us_is_not_lost_either(tmp_path: Path) -> None:
    with bench(tmp_path) as b:
        asyncio.run(b.tick())
        asyncio.run(b.control.drain("n3", "swap the fan", "alice"))
        b.slurm.save()
        asyncio.run(b.tick())
        asyncio.run(b.control.resume("n3", "bob", verify=False))
        assert last(b, "n3").state == "resumed_unverified"
        b.slurm.crash()
        b.report("n3", b.fine())
        asyncio.run(returned(b, "n3"))
        assert last(b, "n3").state == "resumed" and last(b, "n3").owner == "person-through-us"


def test_our_old_reason_under_the_same_slurmctld_is_somebodys_drain(tmp_path: Path) -> None:
    """slurmrestd drains without a reason, and 24.11 keeps ours after a resume."""
    with bench(tmp_path) as b:
        reason = given_back(b)
        asyncio.run(b.tick())
        b.slurm.set("n2", "drain", reason, user="root")
        b.slurm.writes.clear()
        for _ in range(4):
            asyncio.run(b.tick())
            asyncio.run(answer_order(b, "n2"))
        assert b.slurm.writes == [] and ("n2", "drain_unowned") in b.incidents()
        assert last(b).state == "resumed"


def test_a_drain_under_our_old_reason_long_after_slurm_was_restarted_is_somebodys(tmp_path: Path) -> None:
    with bench(tmp_path) as b:
        reason = given_back(b)
        b.slurm.save()
        b.slurm.crash()
        for _ in range(2):
            asyncio.run(b.tick())
        b.slurm.set("n2", "drain", reason, user="root")
        b.slurm.writes.clear()
        for _ in range(3):
            asyncio.run(b.tick())
        assert b.slurm.writes == [] and ("n2", "drain_unowned") in b.incidents()


def test_a_drain_that_slurm_forgot_is_no_foreign_resume(tmp_path: Path) -> None:
    with bench(tmp_path) as b:
        for _ in range(4):
            drained(b, code="ecc_old")
            assert last(b).state == "drained"
            b.slurm.table["n2"] = b.slurm._disk["n2"]
            b.slurm.crash()
            b.slurm.writes.clear()
            asyncio.run(b.tick())
            assert [w[:2] for w in b.slurm.writes] == [("drain", "n2")], "drained again at once"
        assert len(b.core.records.listing("sim", all_states=True)) == 1
        assert ("n2", "contested") not in b.incidents() and "drain resumed outside" not in audited(b)
        assert audited(b).count("drain written again") == 4


def test_a_resume_by_hand_stays_one_though_slurm_was_restarted_before(tmp_path: Path) -> None:
    with bench(tmp_path) as b:
        drained(b, code="ecc_old")
        b.slurm.save()
        b.slurm.crash()
        asyncio.run(b.tick())
        b.slurm.resume("n2")
        asyncio.run(b.tick())
        assert last(b).state == "resumed_outside"
        assert not b.slurm.table["n2"].out_of_service


def test_a_drain_of_a_person_that_slurm_forgot_is_restored_over_ours_that_came_back(tmp_path: Path) -> None:
    with bench(tmp_path) as b:
        drained(b)
        b.slurm.save()
        asyncio.run(b.control.drain("n2", "swap GPU 3", "alice"))
        asyncio.run(b.tick())
        b.slurm.crash()
        b.report("n2", b.fine())
        for _ in range(4):
            asyncio.run(b.tick())
            assert not asyncio.run(answer_order(b, "n2")), "a person's drain is not verified by itself"
        reason = b.slurm.table["n2"].reason
        assert reason is not None and reason.text.startswith("nodevet/person: swap GPU 3 [")
        assert last(b).owner == "person-through-us" and last(b).open


def test_a_resume_by_somebody_else_that_slurm_forgot_leaves_the_drain_ours(tmp_path: Path) -> None:
    with bench(tmp_path) as b:
        drained(b, code="ecc_old")
        b.slurm.save()
        b.slurm.resume("n2")
        asyncio.run(b.tick())
        assert last(b).state == "resumed_outside"
        b.slurm.crash()
        b.report("n2", b.fine())
        asyncio.run(returned(b))
        assert last(b).state == "resumed" and len(b.core.records.listing("sim", all_states=True)) == 1


@pytest.mark.parametrize("prefix", ["nodevet: gpu_lost GPU 3: gone", "nodevet/person: fan"])
def test_a_reason_of_ours_that_no_record_knows_is_loud_and_goes_back_only_by_a_person(
    tmp_path: Path, prefix: str
) -> None:
    """The database was lost or restored from a backup."""
    with bench(tmp_path) as b:
        b.slurm.set("n2", "drain", f"{prefix} [0123abcd]")
        b.slurm.save()
        b.slurm.writes.clear()
        b.report("n2", b.fine())
        b.slurm.crash()
        for _ in range(3):
            asyncio.run(b.tick())
            assert not asyncio.run(answer_order(b, "n2"))
        incident = next(i for i in b.store.incidents(True) if i.code == "drain_unowned")
        assert "nodevet resume n2" in incident.message and b.slurm.writes == []
        assert asyncio.run(b.control.resume("n2", "alice", verify=False, force=True))[0].outcome == "refused"
        assert asyncio.run(b.control.resume("n2", "alice"))[0].outcome == "planned"
        asyncio.run(returned(b))
        assert ("n2", "drain_unowned") not in b.incidents() and "drain adopted" in audited(b)


def test_a_copied_reason_is_not_given_back_as_the_other_nodes(tmp_path: Path) -> None:
    with bench(tmp_path) as b:
        drained(b)
        reason = b.slurm.table["n2"].reason
        assert reason is not None
        b.slurm.set("n3", "drain", reason.text, user="root")
        asyncio.run(b.tick())
        assert ("n3", "drain_unowned") in b.incidents()
        assert asyncio.run(b.control.resume("n3", "alice"))[0].outcome == "refused"
        assert b.slurm.table["n3"].out_of_service and last(b).node == "n2" and last(b).open


def test_a_drain_that_landed_after_it_was_given_up_is_ours(tmp_path: Path) -> None:
    with bench(tmp_path) as b:
        real = b.slurm.drain

        def lost(name: str, reason: str) -> None:
            raise Timeout("scontrol update", 10.0)

        b.slurm.drain = lost  # type: ignore[method-assign]
        b.report("n2", b.lost(code="ecc_old"))
        asyncio.run(b.tick())
        assert last(b).state == "failed"
        b.report("n2", b.fine())
        real("n2", last(b).reason)
        asyncio.run(b.tick())
        assert last(b).open and last(b).why == "slurm took the drain after all"
        asyncio.run(returned(b))
        assert audited(b).count("drain reopened") == 1


def test_a_slurm_that_does_not_say_when_it_started_is_never_taken_for_forgetful(tmp_path: Path) -> None:
    with bench(tmp_path) as b:
        b.slurm.booted = None  # type: ignore[assignment]
        drained(b, code="ecc_old")
        b.slurm.resume("n2")
        asyncio.run(b.tick())
        assert last(b).state == "resumed_outside"


def test_a_resume_whose_answer_was_lost_is_ours_and_not_somebodys(tmp_path: Path) -> None:
    with bench(tmp_path) as b:
        drained(b)
        b.report("n2", b.fine())
        real = b.slurm.resume

        def landed(name: str) -> None:
            real(name)
            b.slurm.down()

        b.slurm.resume = landed  # type: ignore[method-assign]

        async def story() -> None:
            for _ in range(3):
                await b.tick()
                await answer_order(b, "n2")
            await b.tick()

        asyncio.run(story())
        assert last(b).state == "resuming"
        b.slurm.error = None
        asyncio.run(b.tick())
        assert last(b).state == "resumed" and audited(b).count("resume") == 1
        assert last(b).probation_until is not None


def test_an_adopted_record_lost_between_two_steps_is_found_again(tmp_path: Path) -> None:
    with bench(tmp_path) as b:
        token = new_token()
        reason = compose("gpu_lost", "GPU 3: gone", token=token)
        b.slurm.set("n2", "drain", reason)
        new = NewDrain(cluster="sim", node="n2", owner="ours-automatic", actor="unknown", codes=("gpu_lost",),
                       token=token, reason=reason, step="person")  # fmt: skip
        b.core.records.intend(new, b.now())
        asyncio.run(b.tick())
        assert last(b).state == "drained"
