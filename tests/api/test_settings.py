"""Settings are refused where they would expose us or mean nothing."""

from __future__ import annotations

from pathlib import Path

import pytest

from api.auth.hosts import host_allowed
from api.auth.throttle import FREE_FAILURES, WINDOW, Throttle
from api.settings import ServerSettings, SettingsError, load_settings


def write(folder: Path, text: str) -> Path:
    path = folder / "server.toml"
    path.write_text(text)
    path.chmod(0o644)
    return path


def test_flags_stand_over_the_file_and_the_file_over_defaults(tmp_path: Path) -> None:
    path = write(tmp_path, '[server]\ncluster = "c"\nport = 1\n[controller]\npoll = 5.0\n[guard]\nhourly_least = 9\n')
    settings = load_settings(path, {"port": 2, "host": None})
    assert (settings.server.cluster, settings.server.port, settings.server.host) == ("c", 2, "127.0.0.1")
    assert (settings.controller_settings().poll, settings.controller_settings().cluster) == (5.0, "c")
    assert settings.guard.hourly_least == 9


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[server]\nprot = 1\n", "has no setting 'prot'; did you mean 'port'?"),
        ("[serwer]\n", r"no section \[serwer\]; did you mean 'server'?"),
        ("server = 1\n", r"expected a section \[server\]"),
        ('[server]\nport = "x"\n', "Expected `int`"),
        ("[server]\nport = 70000\n", "port 70000, expected 0 to 65535"),
        ("[controller]\nverify_round = 1\n", "did you mean 'verify_rounds'?"),
        ("[guard]\nflor_share = 0.1\n", "did you mean 'floor_share'?"),
        ("[server\n", "server.toml: "),
        ('[server]\nhost = "0.0.0.0"\n', "reachable from other machines"),
        ('[server]\nhost = "gpu-head"\n', "reachable from other machines"),
        ('[server]\nhost = "::"\n', "reachable from other machines"),
        ('[server]\ntls_cert = "a"\n', "go together"),
        ('[server]\nhost = "0.0.0.0"\nbehind_proxy = true\nopen_reads_on_loopback = true\n', "needs a loopback host"),
        ("[server]\nbehind_proxy = true\nopen_reads_on_loopback = true\n", "needs a loopback host"),
        ('[server]\nbackend = "command"\n', "Invalid enum value 'command'"),
        ('[server]\nbackend = "rest"\n', "rest_url is missing"),
        ('[server]\nrest_url = "unix:/run/r"\n', "backend is 'commands', expected 'rest'"),
        ('[server]\nbackend = "pyslurm"\nrest_plain = true\n', "rest_plain is given and backend is 'pyslurm'"),
        ('[server]\npyslurm_python = "/opt/p"\n', "expected 'pyslurm'"),
        ('[server]\nbackend = "rest"\nrest_url = "login:6820"\n', "is none of http://HOST:PORT"),
        ('[server]\nbackend = "rest"\nrest_url = "unix:/r"\nrest_user = "a b"\n', "'a b' is not the name of a user"),
        ('[server]\nbackend = "rest"\nrest_url = "http://login:6820"\n', "would send the token unencrypted"),
        ('[server]\nbackend = "rest"\nrest_url = "unix:/run/r"\nrest_ca_file = "/ca"\n', "does not use https"),
    ],
)
def test_what_cannot_be_meant_is_refused(tmp_path: Path, text: str, said: str) -> None:
    with pytest.raises(SettingsError, match=said):
        load_settings(write(tmp_path, text), {})


@pytest.mark.parametrize("host", ["127.0.0.1", "127.9.9.9", "::1", "localhost"])
def test_loopback_needs_no_tls(tmp_path: Path, host: str) -> None:
    assert load_settings(write(tmp_path, ""), {"host": host}).server.loopback


def test_a_file_that_others_may_write_is_not_believed(tmp_path: Path) -> None:
    path = write(tmp_path, "")
    path.chmod(0o666)
    with pytest.raises(SettingsError, match="writable by others"):
        load_settings(path, {})
    with pytest.raises(SettingsError, match="no such file"):
        load_settings(tmp_path / "absent.toml", {})
    with pytest.raises(SettingsError, match="not a regular file"):
        load_settings(Path("/dev/null"), {})


@pytest.mark.parametrize(
    ("settings", "header", "allowed"),
    [
        (ServerSettings(host="127.0.0.1"), "127.0.0.1:7440", True),
        (ServerSettings(host="127.0.0.1", allowed_hosts=("nodevet.local",)), "nodevet.local", True),
        (ServerSettings(host="127.0.0.1"), "evil.example", False),
        (ServerSettings(host="0.0.0.0", behind_proxy=True), "any.example", True),
        (ServerSettings(host="0.0.0.0", behind_proxy=True, allowed_hosts=("a.example",)), "a.example:443", True),
        (ServerSettings(host="0.0.0.0", behind_proxy=True, allowed_hosts=("a.example",)), "b.example", False),
        (ServerSettings(host="::1"), "[::1]:7440", True),
    ],
)
def test_hosts(settings: ServerSettings, header: str, allowed: bool) -> None:
    assert host_allowed(header, settings) is allowed


def test_failures_are_forgiven_after_a_while() -> None:
    now = [0.0]
    throttle = Throttle(lambda: now[0])
    assert [throttle.failed("a") for _ in range(FREE_FAILURES)] == [0.0] * FREE_FAILURES
    assert throttle.failed("a") == WINDOW
    assert throttle.failed("b") == 0.0
    now[0] = WINDOW + 1
    assert throttle.failed("a") == 0.0


def test_addresses_are_remembered_within_bounds() -> None:
    throttle = Throttle(lambda: 0.0)
    for number in range(10_000):
        throttle.failed(f"10.0.{number // 256}.{number % 256}")
    assert len(throttle._failures) == 4096
