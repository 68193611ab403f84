"""The webhook hears of each event once, signed, also across restarts, and nothing else is ever called."""

from __future__ import annotations

import hashlib
import hmac
import threading
import time
from pathlib import Path

import pytest

from api.alerts.poster import NotSent, Poster
from api.alerts.sender import LONGEST_PAUSE, Wait, alerting
from api.alerts.settings import AlertSettings, Target, problem
from tests.api.alerts.receiver import Receiver, receiving


def test_opened_and_closed_are_told_once_also_by_a_server_that_starts_anew(tmp_path: Path) -> None:
    with receiving(tmp_path) as (ground, receiver):
        number = ground.opens("n1", "gpu_lost")
        for _ in range(3):
            ground.sender(hook=receiver.url + "/hook?site=a").round()
        ground.ends("n1", "gpu_lost")
        for _ in range(3):
            ground.sender(hook=receiver.url + "/hook?site=a").round()
        assert [path for path, _, _ in receiver.got] == ["/hook?site=a"] * 2
        events = receiver.documents()
        assert [e["event"] for e in events] == ["incident.opened", "incident.closed"]
        assert [e["id"] for e in events] == [f"c-{number}-1-opened", f"c-{number}-1-closed"]
        assert (events[1]["why_ended"], events[1]["ended_at"] is not None) == ("no longer seen", True)
        ground.opens("n1", "gpu_lost")
        ground.sender(hook=receiver.url).round()
        assert receiver.documents()[-1]["id"] == f"c-{number}-2-opened"


def test_an_end_of_which_nobody_heard_the_beginning_is_not_told(tmp_path: Path) -> None:
    with receiving(tmp_path) as (ground, receiver):
        ground.opens("n1", "gpu_lost")
        ground.ends("n1", "gpu_lost")
        ground.sender(hook=receiver.url).round()
        assert receiver.got == []


def test_the_body_is_signed_and_the_secret_header_comes_from_a_file(tmp_path: Path) -> None:
    key, token = tmp_path / "key", tmp_path / "token"
    for path, text in ((key, "k3y\n"), (token, "Bearer s3cret\n")):
        path.write_text(text)
        path.chmod(0o600)
    with receiving(tmp_path) as (ground, receiver):
        ground.opens("n1", "gpu_lost")
        files = {"key_file": str(key), "header": "X-Token", "header_file": str(token)}
        ground.sender(hook=receiver.url, webhook=files).round()
        ((_, headers, body),) = receiver.got
        assert headers["x-token"] == "Bearer s3cret"
        stamp, _, signed = headers["x-nodevet-signature"].removeprefix("t=").partition(",v1=")
        assert hmac.compare_digest(signed, hmac.new(b"k3y", f"{stamp}.".encode() + body, hashlib.sha256).hexdigest())
        key.chmod(0o644)
        ground.opens("n2", "gpu_lost")
        ground.sender(hook=receiver.url, webhook=files).round()
        assert len(receiver.got) == 1 and "others can read it" in ground.troubles[-1]


def test_a_server_that_fails_is_asked_again_and_nothing_is_lost(tmp_path: Path) -> None:
    with receiving(tmp_path) as (ground, receiver):
        ground.opens("n1", "gpu_lost")
        receiver.status = 503
        sender = ground.sender(hook=receiver.url)
        sender.round()
        sender.round()
        assert len(receiver.got) == 1, "it is left alone for a while"
        assert "answered 503" in ground.troubles[-1]
        receiver.status = 204
        ground.sender(hook=receiver.url).round()
        ground.sender(hook=receiver.url).round()
        assert [e["id"] for e in receiver.documents()] == ["c-1-1-opened"] * 2


def test_what_is_refused_for_good_is_not_repeated_for_ever(tmp_path: Path) -> None:
    with receiving(tmp_path) as (ground, receiver):
        ground.opens("n1", "gpu_lost")
        receiver.status = 400
        for _ in range(3):
            ground.sender(hook=receiver.url).round()
        assert len(receiver.got) == 1 and "answered 400" in ground.troubles[0]


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_a_redirect_is_not_followed(tmp_path: Path, status: int) -> None:
    inner = Receiver()
    try:
        with receiving(tmp_path) as (ground, receiver):
            receiver.status, receiver.location = status, inner.url + "/latest/meta-data"
            ground.opens("n1", "gpu_lost")
            ground.sender(hook=receiver.url).round()
            assert len(receiver.got) == 1 and inner.got == []
            assert f"answered {status}" in ground.troubles[-1]
    finally:
        inner.close()


def test_no_proxy_of_the_environment_is_asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    proxy = Receiver()
    try:
        with receiving(tmp_path) as (ground, receiver):
            monkeypatch.setenv("http_proxy", proxy.url)
            ground.opens("n1", "gpu_lost")
            ground.sender(hook=receiver.url).round()
            assert (len(receiver.got), proxy.got) == (1, [])
    finally:
        proxy.close()


def test_a_server_that_hangs_holds_nobody_but_its_own_thread(tmp_path: Path) -> None:
    with receiving(tmp_path) as (ground, receiver):
        receiver.hanging = True
        ground.opens("n1", "gpu_lost")
        loud = threading.Event()
        settings = AlertSettings(every=0.1, webhook=Target(url=receiver.url, timeout=1.0))
        with alerting(settings, ground.database, "c", lambda text: loud.set() if text else None) as sender:
            assert sender is not None
            for number in range(20):
                ground.opens(f"n{number}", "gpu_failing")
            assert loud.wait(30)
            began = time.monotonic()
        assert time.monotonic() - began < 20


def test_an_address_that_is_away_is_asked_ever_less_often() -> None:
    now = [0.0]
    wait = Wait(lambda: now[0])
    gaps = []
    for _ in range(14):
        wait.failed()
        before = now[0]
        while not wait.over:
            now[0] += 0.05
        gaps.append(now[0] - before)
    assert 0.4 <= gaps[0] <= 1.1 and all(g <= LONGEST_PAUSE + 0.1 for g in gaps) and gaps[-1] >= LONGEST_PAUSE / 2
    wait.went_well()
    assert wait.over


def test_tls_is_proved(tmp_path: Path) -> None:
    receiver = Receiver()
    try:
        # A server that speaks no TLS at all, and one whose certificate nobody signed, are both not trusted.
        poster = Poster(Target(url=receiver.url.replace("http://", "https://"), timeout=2.0))
        with pytest.raises(NotSent, match="SSL"):
            poster.post(b"{}")
        assert receiver.got == []
    finally:
        receiver.close()


@pytest.mark.parametrize(
    ("target", "says"),
    [
        ({"url": "http://alerts.example/hook"}, "not encrypted"),
        ({"url": "ftp://alerts.example/"}, "not http"),
        ({"url": "https://user:word@alerts.example/"}, "password"),
        ({"url": "https://alerts.example/a b"}, "blanks"),
        ({"url": "https://alerts.example:99999/"}, "url"),
        ({"url": "https://alerts.example/", "header": "X:Y"}, "no header"),
        ({"url": "https://alerts.example/", "timeout": 0.0}, "timeout"),
    ],
)
def test_an_address_that_cannot_be_meant_is_refused(target: dict[str, object], says: str) -> None:
    assert says in problem(AlertSettings(webhook=Target(**target)))  # type: ignore[arg-type]
    assert problem(AlertSettings(webhook=Target(url="http://alerts.example/hook", plain=True))) == ""


def test_nothing_is_started_where_no_address_is_given(tmp_path: Path) -> None:
    with receiving(tmp_path) as (ground, _):
        before = threading.active_count()
        with alerting(AlertSettings(), ground.database, "c", ground.troubles.append) as sender:
            assert sender is None and threading.active_count() == before
