"""Who may drain, which node this is and which GPUs it has are judged from values alone."""

from __future__ import annotations

import pytest

from slurm.doctor.rights import admin_level, drain_right, gpus_promised, munge, node_known, slurm_silent
from slurm.errors import ClockSkew, NoCommand, PermissionDenied, SlurmError, Unreachable
from slurm.state import NodeState

N1 = NodeState("n1", "IDLE", gres="gpu:4")


@pytest.mark.parametrize(
    ("error", "service", "level", "write"),
    [
        (None, True, "ok", ""),
        (PermissionDenied("no"), False, "ok", ""),
        (PermissionDenied("no"), True, "problem", "sacctmgr add user me account=root adminlevel=administrator"),
        (NoCommand("scontrol is not in /usr/bin"), False, "problem", "install Slurm's client commands"),
        (ClockSkew("expired credential"), False, "problem", "systemctl restart chronyd"),
        (Unreachable("no"), False, "problem", "scontrol ping"),
        (SlurmError("accepted a drain of a node that does not exist"), True, "problem", "scontrol ping"),
    ],
)
def test_the_way_of_a_drain(error: SlurmError | None, service: bool, level: str, write: str) -> None:
    """E107: detected but never drained."""
    said = drain_right(error, "me", root=False, service=service)
    assert said.level == level and said.write.startswith(write)


def test_what_root_proves_is_not_the_services_right() -> None:
    assert "root always may" in drain_right(None, "root", root=True, service=False).why


@pytest.mark.parametrize(
    ("text", "slurm_user", "level"),
    [
        ("svc|Administrator\n", "slurm", "ok"),
        ("svc|None\n", "slurm", "problem"),
        ("svc|Operator\n", "slurm", "problem"),
        ("", "slurm", "problem"),
        ("", "svc", "ok"),
    ],
)
def test_admin_level(text: str, slurm_user: str, level: str) -> None:
    assert admin_level(text, "svc", slurm_user).level == level


def test_the_nodes_name() -> None:
    assert node_known("n1", {"n1": N1}).level == "ok"
    assert node_known("n1.cluster", {"n1": N1}).level == "problem"


@pytest.mark.parametrize(
    ("gres_conf", "level", "words"),
    [
        ("NodeName=n[1-2] Name=gpu File=/dev/nvidia[0-3]\n", "ok", "4 GPU files"),
        ("NodeName=n[1-2] Name=gpu File=/dev/nvidia[0-1]\n", "warning", "names 2 GPU files"),
        ("AutoDetect=nvml\n", "warning", "AutoDetect=nvml"),
        ("NodeName=n[1- Name=gpu File=/dev/nvidia0\n", "warning", "gres.conf"),
        (None, "warning", "not readable"),
    ],
)
def test_gpus_promised(gres_conf: str | None, level: str, words: str) -> None:
    said = gpus_promised(N1, gres_conf)
    assert said is not None and said.level == level and words in said.what


def test_a_cpu_node_promises_none() -> None:
    assert gpus_promised(NodeState("c1", "IDLE"), None) is None
    assert gpus_promised(NodeState("c1", "IDLE"), "NodeName=n1 Name=gpu File=/dev/nvidia0\n") is None


def test_silence_names_its_cause() -> None:
    assert slurm_silent(NoCommand("x")).about == "scontrol"
    assert slurm_silent(Unreachable("x")).about == "slurmctld"
    assert (munge("/m", "").level, munge("/m", "refused").level) == ("ok", "problem")
