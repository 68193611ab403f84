"""Orders, changes and the agent's own words reach the service."""

from __future__ import annotations

from collections.abc import Callable

from checks.wire import Decision, Order, PollAnswer, Report
from deploy.simcluster.host import SimHost
from tests.daemon.agent.central_server import Service, until
from tests.daemon.agent.running import RunningAgent

MakeAgent = Callable[..., RunningAgent]


def started(make_agent: MakeAgent, service: Service, **sections: dict[str, object]) -> RunningAgent:
    agent = make_agent(service.url, **sections)
    agent.start()
    until(lambda: service.reports and service.polls, what="first report and poll")
    return agent


def with_note(service: Service, note: str) -> list[Report]:
    return [r for r in service.reports if note in r.notes]


def test_an_order_is_carried_out_once_reported_and_acknowledged(make_agent: MakeAgent, service: Service) -> None:
    started(make_agent, service)
    order = Order(id="o1", kind="verify", checks=("gpu_count",))
    service.push(PollAnswer(orders=(order,)))
    until(lambda: with_note(service, "order:o1"), what="report of the order")
    (report,) = with_note(service, "order:o1")
    assert report.occasion == "manual"
    assert {f.check for f in report.findings} == {"gpu_count"}
    assert report.decision is not None and report.decision.wanted == "admit"
    until(lambda: "o1" in service.polls[-1].done_orders, what="acknowledgement")
    service.push(PollAnswer(orders=(order,)))
    seen = len(service.polls)
    until(lambda: len(service.polls) > seen, what="next poll")
    assert len(with_note(service, "order:o1")) == 1


def test_an_order_without_names_asks_everything(make_agent: MakeAgent, service: Service) -> None:
    agent = started(make_agent, service)
    service.push(PollAnswer(orders=(Order(id="o2", kind="check"),)))
    until(lambda: with_note(service, "order:o2"), what="report of the order")
    asked = {c.name.partition(":")[0] for c in agent.status().checks}
    assert {f.check for f in with_note(service, "order:o2")[0].findings} == asked


def test_an_order_for_an_unknown_check_is_answered_and_not_repeated(make_agent: MakeAgent, service: Service) -> None:
    started(make_agent, service)
    service.push(PollAnswer(orders=(Order(id="o3", kind="check", checks=("no_such_check",)),)))
    until(lambda: with_note(service, "order:o3"), what="report of the order")
    assert any("no_such_check" in note for note in with_note(service, "order:o3")[0].notes)
    until(lambda: "o3" in service.polls[-1].done_orders, what="acknowledgement")


def test_a_fault_is_reported_within_seconds_of_its_round(
    make_agent: MakeAgent, service: Service, host: SimHost
) -> None:
    started(make_agent, service, checks={"gpu_health": {"interval": 1.0}})
    host.inject("gpu_lost", gpu=3)
    until(
        lambda: any(f.status == "fail" for r in service.reports if r.occasion == "interval" for f in r.findings),
        what="fault in a report",
    )
    last = [r for r in service.reports if any(f.status == "fail" for f in r.findings)][-1]
    assert last.decision is not None and last.decision.wanted == "drain"
    assert [r.sequence for r in service.reports] == sorted({r.sequence for r in service.reports})


def test_the_first_report_is_whole_and_says_what_the_node_is(make_agent: MakeAgent, service: Service) -> None:
    agent = started(make_agent, service)
    until(lambda: any(r.facts for r in service.reports), what="facts")
    facts = next(r.facts for r in service.reports if r.facts)
    assert (facts.profile, facts.simulated) == ("hgx-h100", True)
    assert facts.agent_version
    assert service.tokens[0] == "Bearer secret-token"
    until(lambda: agent.status().outbox.waiting == 0, what="acknowledged outbox")


def test_marks_of_hooks_are_reported_once_and_taken_away(make_agent: MakeAgent, service: Service) -> None:
    agent = make_agent(service.url)
    marks = agent.base / "marks"
    marks.mkdir()
    (marks / "prolog.17.0.4711").write_text("1796117822 deadline\n")
    (marks / "epilog.17.0.4712").write_text("garbage\n")
    (marks / "not a mark").write_text("x")
    agent.start()
    until(lambda: any(r.notes for r in service.reports), what="notes")
    report = next(r for r in service.reports if r.notes)
    assert "unanswered prolog of job 17: deadline" in report.notes
    found = [f for f in report.findings if f.code == "hook_unanswered"]
    assert [(f.status, f.blame, f.evidence["count"]) for f in found] == [("unknown", "self", 2)]
    assert [p.name for p in marks.iterdir()] == ["not a mark"]
    assert [(u.job_id, u.restart_count, u.cause) for r in service.reports for u in r.unvetted] == [
        (17, 0, "hook_deadline")
    ]


def test_a_node_without_a_name_learns_it_from_the_first_hook(make_agent: MakeAgent, service: Service) -> None:
    agent = make_agent(service.url)
    text = agent.config.read_text().replace('cluster = "lab"\n', "").replace('node = "n1"\n', "")
    agent.config.write_text(text)
    agent.start()
    assert "node_name_unknown" in agent.codes()
    assert agent.hook().exit == 0
    until(lambda: service.reports, what="reports")
    assert (service.reports[0].cluster, service.reports[0].node) == ("lab", "n1")
    agent.stop()
    agent.start()
    assert agent.status().node == "n1"
    assert "node_name_unknown" not in agent.codes()


def test_a_fault_is_reported_by_its_best_name_whichever_check_saw_it_first(
    make_agent: MakeAgent, service: Service, host: SimHost
) -> None:
    slow = {name: {"interval": 300.0} for name in ("gpu_health", "kernel_xid", "gpu_driver")}
    started(make_agent, service, checks={"gpu_count": {"interval": 1.0}, **slow})
    host.inject("gpu_lost", gpu=3)
    # gpu_health would not be asked for minutes: it is asked because another check saw a fault. On a busy machine its
    # answer may come a report later.
    until(
        lambda: any(d.codes[0] == "gpu_lost" and d.reason.startswith("gpu_lost 0000:5d:00.0") for d in drains(service)),
        what="a wish to drain by the best name",
    )


def drains(service: Service) -> list[Decision]:
    return [r.decision for r in service.reports if r.decision and r.decision.wanted == "drain"]
