"""Alertmanager hears of what lasts, again and again, and of its end; many alike are one alert."""

from __future__ import annotations

from datetime import datetime, timedelta
from pathlib import Path

from api.alerts.sender import MISSES
from tests.api.alerts.receiver import receiving


def at(text: str) -> datetime:
    return datetime.fromisoformat(text.replace("Z", "+00:00"))


def test_an_open_problem_is_an_alert_until_it_ends(tmp_path: Path) -> None:
    with receiving(tmp_path) as (ground, receiver):
        sender = ground.sender(manager=receiver.url, page="https://nodevet.example", resend=60.0)
        number = ground.opens("n1", "gpu_lost")
        sender.round()
        ((path, headers, _),) = receiver.got
        ((alert,),) = receiver.documents()
        assert (path, headers["content-type"]) == ("/api/v2/alerts", "application/json")
        assert alert["labels"] == {
            "alertname": "NodevetIncident",
            "cluster": "c",
            "node": "n1",
            "code": "gpu_lost",
            "target": "0000:5d:00.0",
            "severity": "warning",
        }
        assert alert["annotations"]["summary"] == "n1: gpu_lost 0000:5d:00.0"
        assert alert["generatorURL"] == f"https://nodevet.example/api/v1/incidents/{number}"
        lasts = at(alert["endsAt"]) - ground.now()
        assert timedelta(seconds=MISSES * 60 - 30) < lasts <= timedelta(seconds=MISSES * 60)
        sender.round()
        assert len(receiver.got) == 1
        ground.ends("n1", "gpu_lost")
        sender.round()
        ended = receiver.documents()[-1][0]
        assert ended["labels"] == alert["labels"] and at(ended["endsAt"]) <= ground.now()
        assert at(ended["startsAt"]) == at(alert["startsAt"])


def test_what_lasts_is_said_again(tmp_path: Path) -> None:
    with receiving(tmp_path) as (ground, receiver):
        sender = ground.sender(manager=receiver.url, resend=0.0)
        ground.opens("n1", "gpu_lost")
        for _ in range(3):
            sender.round()
        assert len(receiver.got) == 3


def test_many_alike_are_one_alert_until_they_are_not(tmp_path: Path) -> None:
    with receiving(tmp_path) as (ground, receiver):
        sender = ground.sender(manager=receiver.url, hook=receiver.url + "/hook")
        for node in range(5):
            ground.opens(f"n{node}", "gpu_lost")
        ground.opens("n1", "ib_port_down", target="mlx5_0/1")
        ground.opens("", "many_gpu_lost", "correlated", "controller")
        sender.round()
        told = {(a["labels"]["code"], a["labels"]["severity"]) for a in receiver.documents()[0]}
        assert told == {("many_gpu_lost", "critical"), ("ib_port_down", "warning")}
        assert sorted(d["code"] for d in receiver.documents()[1:]) == ["ib_port_down", "many_gpu_lost"]
        ground.ends("", "many_gpu_lost", "controller")
        sender.round()
        assert sum(a["labels"]["code"] == "gpu_lost" for a in receiver.documents()[3]) == 5


def test_another_cluster_is_told_of_by_its_own_service(tmp_path: Path) -> None:
    with receiving(tmp_path) as (ground, receiver):
        ground.store.open_incident("other", "n1", "gpu_lost", "node", "seen", "finding")
        ground.sender(manager=receiver.url, hook=receiver.url).round()
        assert receiver.documents() in ([], [[]])


def test_hostile_words_stay_words(tmp_path: Path) -> None:
    with receiving(tmp_path) as (ground, receiver):
        ground.opens("n1", "site_check", target='x"}\n\x1b[2J{"')
        ground.sender(manager=receiver.url, hook=receiver.url).round()
        (alert,), event = receiver.documents()
        assert alert["labels"]["target"] == event["target"] == 'x"} [2J{"'
