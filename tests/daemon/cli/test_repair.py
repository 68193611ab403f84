"""repair, ready --wait and probation say what the service says, with the agreed exit codes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar

import pytest

from tests.daemon.cli.door import Answering, run, serving

LOOK = {"cluster": "c", "why": "said to be ready by ann", "actor": "ann", "wanted_at": "2026-12-01T09:00:00Z"}


class Door(Answering):
    """A service that has the looks of n1 and n2 answered at the second question."""

    asked = 0
    answers: ClassVar[dict[str, str]] = {"n1": "clean", "n2": "clean"}
    refused = False

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers.get("Content-Length", 0)))
        outcome = "refused" if Door.refused else "done"
        rows = [{"cluster": "c", "node": n, "outcome": outcome, "why": "x"} for n in ("n1", "n2")]
        self.say({"items": rows})

    def do_GET(self) -> None:
        if self.path.startswith("/api/v1/looks"):
            Door.asked += 1
            rows = [
                {"node": n, "state": s if Door.asked > 1 else "asked", "detail": "gpu_lost" * (s == "bad"), **LOOK}
                for n, s in Door.answers.items()
            ]
            self.say({"items": rows})
        elif self.path.startswith("/api/v1/swaps"):
            part = {"kind": "gpu", "slot": "0000:19:00.0", "serial": "2", "uuid": "GPU-2"}
            old = {**part, "serial": "", "uuid": "GPU-1"}
            told = {"drain": "gpu_lost", "verified": "pending", "came_from": "was in n7 until then"}
            self.say({"items": [{"node": "n1", "at": "2026-12-01T09:00:00Z", "old": old, "new": part, **told}]})
        else:
            row = {"node": "n1", "ticket": "4711", "actor": "ann", "reason": "swap", "state": "probation",
                   "probation_until": "2026-12-02T09:00:00Z", "created_at": "2026-12-01T09:00:00Z",
                   "strikes": [{"what": "gpu_lost", "drains": 1, "score": 0.5, "limit": 2.2}]}  # fmt: skip
            self.say({"items": [row]})


@pytest.fixture
def url() -> Iterator[str]:
    Door.asked, Door.refused, Door.answers = 0, False, {"n1": "clean", "n2": "clean"}
    with serving(Door) as where:
        yield where


def test_ready_waits_until_every_node_has_been_looked_at(url: str) -> None:
    code, text = run(url, "ready", "n[1-2]", "--wait", "--timeout", "60")
    assert code == 0 and "0 of 2 nodes looked at" in text and "2 of 2 nodes looked at" in text
    assert Door.asked == 2


def test_ready_says_which_node_is_not_clean(url: str) -> None:
    Door.answers = {"n1": "clean", "n2": "bad"}
    code, text = run(url, "ready", "n[1-2]", "--wait")
    assert code == 1 and "1 of 2 nodes are not clean" in text and "gpu_lost" in text


def test_ready_gives_up_in_time(url: str) -> None:
    Door.answers = {"n1": "asked", "n2": "clean"}
    code, text = run(url, "ready", "n[1-2]", "--wait", "--timeout", "1", "--json")
    assert code == 1 and '"state": "asked"' in text


def test_a_timeout_needs_wait(url: str) -> None:
    assert run(url, "ready", "n1", "--timeout", "60")[0] in (2, 64)


def test_repair_needs_ticket_and_reason_and_says_what_was_refused(url: str) -> None:
    assert run(url, "repair", "n1", "--reason", "x")[0] in (2, 64)
    assert run(url, "repair", "n[1-2]", "--ticket", "4711", "--reason", "x")[0] == 0
    Door.refused = True
    assert run(url, "repair", "n[1-2]", "--ticket", "4711", "--reason", "x")[0] == 1
    code, text = run(url, "repair")
    assert code == 0 and "4711" in text


def test_probation_shows_strikes_beside_their_limits(url: str) -> None:
    code, text = run(url, "probation")
    assert code == 0 and "gpu_lost 0.5 of 2.2" in text and "2026-12-02 09:00" in text


def test_swaps_say_which_part_took_which_place(url: str) -> None:
    code, text = run(url, "swaps", "n1", "--since", "7d")
    assert code == 0 and "GPU-1 -> 2" in text and "gpu_lost" in text and "was in n7 until then" in text
