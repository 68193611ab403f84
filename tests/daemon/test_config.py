"""The configuration is refused clearly, clamped where it must be, and knows where each value came from."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from daemon.config import ConfigError, load_config, parse_config

PATH = Path("/etc/nodevet/nodevet.toml")


def test_defaults_without_a_file() -> None:
    config = parse_config("", None, {})
    assert config.agent.node is None and config.agent.socket == "/run/nodevet/agent.sock"
    assert config.host.root == "/" and config.checks == {} and config.origin_of("agent.socket") == "default"


def test_the_file_the_environment_and_slurmd_name_the_values() -> None:
    text = '[agent]\ncluster = "main"\nnode = "a"\n[central]\npoll_wait = 10\n'
    config = parse_config(text, PATH, {"NODEVET_AGENT_CLUSTER": "other", "NODEVET_CENTRAL_POLL_WAIT": "5.5"})
    assert (config.agent.cluster, config.agent.node, config.central.poll_wait) == ("other", "a", 5.5)
    assert config.origin_of("agent.cluster") == "NODEVET_AGENT_CLUSTER"
    assert config.origin_of("agent.node") == str(PATH)


@pytest.mark.parametrize(("text", "node"), [("", "gpu7"), ('[agent]\nnode = "mine"', "mine")])
def test_the_node_is_configured_or_slurmds_never_the_host_name(text: str, node: str) -> None:
    assert parse_config(text, PATH, {"SLURMD_NODENAME": "gpu7", "HOSTNAME": "wrong"}).agent.node == node


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[agnet]", "no section [agnet]; did you mean 'agent'?"),
        ("[agent]\nsokket = 'x'", "[agent] has no setting 'sokket'; did you mean 'socket'?"),
        ("[agent]\nanswer_budget = 'soon'", "answer_budget"),
        ("agent = 3", "agent: expected a section [agent]"),
        ("[checks]\ngpu_count = 8", "expected a section [checks.gpu_count]"),
        ("[checks.gpu_cuont]", "no check 'gpu_cuont'; did you mean 'gpu_count'?"),
        ("[checks.gpu_count]\nexpectd = 8", "did you mean 'expected'?"),
        ("[checks.gpu_count]\nexpected = 'many'", "setting expected"),
        ("[checks.gpu_count]\ninterval = 0", "checks.gpu_count.interval: 0, expected 0 to 86400 s"),
        ("[agent", "nodevet.toml"),
        ("[host]\nsimulated = 'perhaps'", "simulated"),
    ],
)
def test_what_cannot_be_used_is_named(text: str, words: str) -> None:
    with pytest.raises(ConfigError) as caught:
        parse_config(text, PATH, {})
    assert words in str(caught.value) and str(caught.value).startswith(str(PATH))


def test_an_unknown_variable_of_ours_is_named() -> None:
    with pytest.raises(ConfigError, match="NODEVET_AGENT_SOKET: no setting 'soket'; did you mean 'socket'"):
        parse_config("", None, {"NODEVET_AGENT_SOKET": "x"})


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({}, (7.0, 5.0, 1.5, 3.0)),
        ({"answer_budget": 90.0, "gate_budget": 90.0, "refresh_budget": 90.0, "permit_budget": 90.0}, (7, 5, 3.5, 6)),
        ({"answer_budget": 3.0}, (3.0, 1.0, 1.5, 2.0)),
        ({"answer_budget": -1.0, "gate_budget": -1.0}, (1.0, 0.0, 0.5, 0.0)),
    ],
)
def test_budgets_are_nested(given: dict[str, float], expected: tuple[float, ...]) -> None:
    text = "[agent]\n" + "".join(f"{key} = {value}\n" for key, value in given.items())
    config = parse_config(text, PATH, {})
    agent = config.agent
    assert (agent.answer_budget, agent.gate_budget, agent.refresh_budget, agent.permit_budget) == expected
    assert agent.gate_budget <= agent.answer_budget < 8.0
    if given:
        assert "clamped" in config.origin_of("agent.gate_budget")


@pytest.mark.parametrize(
    ("prepare", "words"),
    [
        (lambda path: path.write_text("[agent]") and path.chmod(0o666), "writable by others"),
        (lambda path: path.write_bytes(b"\xff\xfe"), "utf-8"),
        (lambda path: path.write_bytes(b"#" * (1024 * 1024 + 1)), "at most 1048576"),
        (lambda path: path.mkdir(), "directory"),
        (lambda path: None, "no such file"),
    ],
)
def test_files_that_are_not_taken(tmp_path: Path, prepare: object, words: str) -> None:
    path = tmp_path / "nodevet.toml"
    assert callable(prepare)
    prepare(path)
    if os.geteuid() != 0 and words == "writable by others":
        pytest.skip("only root is this strict")
    with pytest.raises(ConfigError, match=words):
        load_config(path, {})


def test_the_variable_names_the_file(tmp_path: Path) -> None:
    path = tmp_path / "nodevet.toml"
    path.write_text('[agent]\nnode = "n1"\n')
    path.chmod(0o644)
    config = load_config(None, {"NODEVET_CONFIG": str(path)})
    assert (config.agent.node, config.path) == ("n1", path)
