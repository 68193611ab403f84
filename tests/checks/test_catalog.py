"""Every check and code can be found, explained and afforded."""

from __future__ import annotations

import inspect
import re

import pytest

from checks import CODES, Check, Finding, Host, Skip, check, clean, code, ok
from checks.catalog import load, option_types
from checks.declare import CHECKS
from checks.runner import FINDINGS_LIMIT, run_check
from tests.fakes import Plant

KNOWN = load()
OURS = [c for c in KNOWN.values() if c.function.__module__.startswith("checks.")]


@pytest.mark.parametrize("declared", OURS, ids=lambda c: c.name)
def test_a_check_is_explained_and_affordable(declared: Check) -> None:
    assert "by hand" in declared.explain
    assert declared.title.endswith(".")
    assert 5 <= declared.interval <= (3600 if declared.cost != "deep" else 86400)
    # One that needs the device (cost active) may take as long as a driver that has to wake up, and one whose lane no
    # job ever waits for as long as the program it starts.
    waited_for = {c.lane for c in OURS if c.per_job or (c.cost == "passive" and c.interval < 600)}
    limit = 90 if declared.lane not in waited_for else 5 if declared.cost == "passive" else 30
    assert 0 < declared.timeout <= limit or declared.cost == "deep"
    assert declared.timeout < declared.interval
    assert declared.codes


@pytest.mark.parametrize("declared", OURS, ids=lambda c: c.name)
def test_the_function_name_is_its_name_and_its_options_are_typed(declared: Check) -> None:
    assert declared.function.__name__ == declared.name
    types = option_types(declared)
    assert all(p.default is not inspect.Parameter.empty for p in declared.options.values())
    assert all(isinstance(t, type) or getattr(t, "__origin__", None) is tuple for t in types.values())


@pytest.mark.parametrize("name", sorted(n for n, c in CODES.items() if c.status == "fail" and "test" not in n))
def test_a_failure_says_what_it_means_and_what_to_do(name: str) -> None:
    """A code that can drain a node can be confirmed by hand."""
    text = CODES[name].explain
    assert "Confirm" in text, name
    assert len(text) > 40, name


def test_every_code_of_a_check_is_explained_by_itself_or_its_check() -> None:
    for declared in OURS:
        for made in declared.codes:
            assert CODES[made.name] == made
            assert made.explain or declared.explain


def test_every_code_says_what_to_do_and_it_or_its_check_how_to_confirm() -> None:
    """No status is left without a next step, our own trouble neither."""
    for declared in OURS:
        for made in declared.codes:
            assert "Do: " in made.explain, made.name
            assert "Confirm" in made.explain or "onfirm by hand" in declared.explain, made.name
            assert "  " not in made.explain and not made.explain.startswith(" "), made.name


@pytest.mark.parametrize("declared", OURS, ids=lambda c: c.name)
def test_every_setting_of_a_check_is_spoken_of(declared: Check) -> None:
    """docs/settings.md sends its reader to ``nodevet explain`` for what a setting means."""
    named = re.findall(r"``([a-z_]+)(?: ?=[^`]*)?``", declared.explain)
    assert [name for name in declared.options if name not in named] == []


def test_a_per_job_check_is_never_asked_between_jobs() -> None:
    assert [c.name for c in OURS if c.per_job] == ["gpu_leftover"]


def test_blame_self_goes_with_unknown_only() -> None:
    """Rule 1."""
    assert {c.status for c in CODES.values() if c.blame == "self"} <= {"unknown", "skipped"}
    with pytest.raises(ValueError, match="blame self"):
        code("own_trouble", "fail", "self", "never")


def test_names_are_words_and_unique() -> None:
    with pytest.raises(ValueError, match="lower case"):
        code("Not A Name", "warn", "node", "x")
    with pytest.raises(ValueError, match="declared twice"):
        code("check_error", "warn", "node", "other")


def test_hostile_text_is_cleaned() -> None:
    made = CODES["check_error"]("n\x00o\nde", check="a\u202eb", error="x" * 5000)
    assert made.target == "n o de"
    assert "\u202e" not in made.message
    assert len(made.message) <= 512
    assert clean("a\r\n\tb\u2028c") == "a b c"


def test_a_template_that_lacks_a_value_still_gives_a_finding() -> None:
    assert CODES["check_error"]("node").message.startswith("check {check}")


def _declared(function: object, **more: object) -> Check:
    decorated = check(lane="system", **more)(function)  # type: ignore[arg-type]
    return CHECKS.pop(decorated.__name__)


def test_whatever_a_check_raises_is_our_own_trouble(plant: Plant) -> None:
    """Rule 1: unknown and self, and what was found before is kept."""

    def raising(host: Host):  # type: ignore[no-untyped-def]
        yield ok("a")
        raise ZeroDivisionError("no\x1b luck")

    outcome = run_check(_declared(raising), plant())
    assert [(f.status, f.blame) for f in outcome.findings] == [("ok", None), ("unknown", "self")]
    assert "\x1b" not in outcome.findings[1].message


class Unprivileged(Host):
    """The live node seen by an ordinary user."""

    privileged = False


@pytest.mark.parametrize(("manual", "expected"), [(True, ("skipped", "needs_root")), (False, ("unknown", "no_root"))])
def test_what_only_root_may_read_is_skipped_by_hand_and_unknown_to_the_agent(
    manual: bool, expected: tuple[str, str]
) -> None:
    """E43: DESIGN 4, run by an ordinary user."""

    def forbidden(host: Host):  # type: ignore[no-untyped-def]
        yield from ()
        raise PermissionError(13, "Permission denied")

    (found,) = run_check(_declared(forbidden), Unprivileged(), manual=manual).findings
    assert (found.status, found.code) == expected


def test_silence_is_ok_and_everything_is_stamped(plant: Plant) -> None:
    def silent(host: Host, *, paths: tuple[str, ...] = ()):  # type: ignore[no-untyped-def]
        yield from ()

    declared = _declared(silent, each="paths")
    (found,) = run_check(declared, plant()).findings
    assert (found.check, found.status, found.target) == ("silent", "ok", "node")
    assert found.observed_at is not None
    assert run_check(declared, plant(), {"paths": ("/x",)}).findings[0].target == "/x"


def test_a_split_check_names_its_value_when_it_skips(plant: Plant) -> None:
    def skipping(host: Host, *, paths: tuple[str, ...] = ()):  # type: ignore[no-untyped-def]
        if paths:
            raise Skip("not here")
        yield ok("never")

    (found,) = run_check(_declared(skipping, each="paths"), plant(), {"paths": ("/x",)}).findings
    assert (found.target, found.status, found.message) == ("/x", "skipped", "not here")


def test_a_flood_of_findings_is_bounded(plant: Plant) -> None:
    def flooding(host: Host):  # type: ignore[no-untyped-def]
        while True:
            yield ok("x")

    assert len(run_check(_declared(flooding), plant()).findings) == FINDINGS_LIMIT


def test_every_check_answers_on_an_empty_tree(plant: Plant) -> None:
    """A tree without anything is no faulty node."""
    host = plant()
    statuses: set[tuple[str, str]] = set()
    for declared in OURS:
        found: tuple[Finding, ...] = run_check(declared, host, manual=True).findings
        statuses |= {(f.status, declared.name) for f in found}
    assert not {name for status, name in statuses if status in ("fail", "warn")}
