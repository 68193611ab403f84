"""Users, names, packages and runtimes are asked for by the site, and an absent tool is never the node's fault."""

from __future__ import annotations

from pathlib import Path

import pytest

from checks import Host
from checks.host import Ended
from tests.checks.harmless import Tree, codes, found
from tests.checks.software.daemons import abandoned, serving
from tests.fakes import Plant


def recorded(*pairs: tuple[str, str]) -> Tree:
    return {"/nodevet-commands/" + argv.replace(" ", "_").replace("/", "."): text for argv, text in pairs}


def ends(monkeypatch: pytest.MonkeyPatch, how: Ended | Exception) -> None:
    def outcome(self: Host, argv: list[str], *, timeout: float) -> Ended:
        if isinstance(how, Exception):
            raise how
        return how

    monkeypatch.setattr(Host, "outcome", outcome)


ADA = recorded(("getent passwd ada", "ada:*:20001:20001:Ada:/home/ada:/bin/bash\n"))
ONLINE = recorded(("sssctl domain-status example.org --online", "Online status: Online\n"))
BOB = recorded(("getent passwd bob", ""), ("getent passwd bob.status", "2"))
AWAY = recorded(("sssctl domain-status example.org --online", "Online status: Offline\n"))


@pytest.mark.parametrize(
    ("tree", "options", "expected"),
    [
        ({}, {}, ["not_applicable"]),
        (ADA, {"users": ("ada",)}, ["ok"]),
        (ADA | ONLINE, {"users": ("ada",), "domains": ("example.org",)}, ["ok"]),
        (ADA | AWAY, {"users": ("ada",), "domains": ("example.org",)}, ["directory_offline"]),
        (
            ADA | recorded(("getent passwd bob", ""), ("getent passwd bob.status", "2")),
            {"users": ("bob", "ada")},
            ["account_unknown"],
        ),
        (ADA, {"users": ("eve",)}, ["accounts_unasked"]),
        (ADA, {"users": ("--help",)}, ["check_error"]),
        (ADA, {"users": ("ada; reboot",)}, ["check_error"]),
        (ADA, {"users": ("ada",), "domains": ("example.org",)}, ["accounts_unasked"]),
        (recorded(("sssctl domain-status d --online", "what?\n")), {"domains": ("d",)}, ["accounts_unasked"]),
    ],
)
def test_judges_accounts(plant: Plant, tree: Tree, options: dict[str, object], expected: list[str]) -> None:
    seen = found(plant(tree), "accounts", **options)
    assert codes(seen) == expected
    assert {f.blame for f in seen if f.status == "warn"} <= {"shared"}


@pytest.mark.parametrize(
    ("error", "account", "name"),
    [
        (Ended(2, ""), "account_unknown", "name_unknown"),
        (Ended(127, "", "no such"), "accounts_unasked", "names_unasked"),
        (FileNotFoundError("getent"), "accounts_unasked", "names_unasked"),
        (TimeoutError("getent"), "accounts_silent", "names_silent"),
    ],
)
def test_a_look_up_ends_in_its_own_way(
    plant: Plant, monkeypatch: pytest.MonkeyPatch, error: Ended | Exception, account: str, name: str
) -> None:
    """A missing tool is our trouble; the first look-up without an answer ends the round, however many follow."""
    ends(monkeypatch, error)
    silent = isinstance(error, TimeoutError)
    assert codes(found(plant(), "accounts", users=("ada", "bob"))) == [account] * (1 if silent else 2)
    assert codes(found(plant(), "name_lookup", names=("a", "b"))) == [name] * (1 if silent else 2)


STORE = recorded(
    ("getent ahosts store", "10.0.0.7      STREAM store.example\n10.0.0.7      DGRAM\nfe80::1%3  STREAM\n")
)


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        ((), ["not_applicable"]),
        (("store",), ["ok"]),
        (("store=10.0.0.7",), ["ok"]),
        (("store = fe80:0::1",), ["ok"]),
        (("store=10.0.0.8",), ["name_address_wrong"]),
        (("store=here",), ["check_error"]),
        (("empty",), ["names_unasked"]),
        (("none",), ["name_unknown"]),
        (("other",), ["names_unasked"]),
        (("-s",), ["check_error"]),
    ],
)
def test_judges_names(plant: Plant, names: tuple[str, ...], expected: list[str]) -> None:
    host = plant(
        STORE | recorded(("getent ahosts empty", ""), ("getent ahosts none", ""), ("getent ahosts none.status", "2"))
    )
    assert codes(found(host, "name_lookup", names=names)) == expected


def test_this_machine_knows_itself() -> None:
    assert codes(found(Host(), "accounts", users=("root",), seconds=30.0)) == ["ok"]
    assert codes(found(Host(), "accounts", users=("nobody-of-this-name",), seconds=20.0)) == ["account_unknown"]


# ---- packages

DEBIAN: Tree = {
    "/var/lib/dpkg/status": """Package: libc6
Status: install ok installed
Version: 2.39-0ubuntu8.4
Description: GNU C
 Package: not-this-one

Package: datacenter-gpu-manager
Status: hold ok installed
Version: 1:3.3.9

Package: slurmd
Status: install ok half-configured
Version: 24.11.1-1

Package: nvidia-driver
Status: deinstall ok config-files
Version: 570.1-1
"""
}
RPM: Tree = {
    "/nodevet-commands/rpm_-q_--qf_%{NAME} %{VERSION}-%{RELEASE}\\n_kernel_slurm": "kernel 5.14.0-503.el9\n"
    "package slurm is not installed\n",
    "/var/lib/rpm/rpmdb.sqlite": "",
}


@pytest.mark.parametrize(
    ("tree", "options", "expected"),
    [
        (DEBIAN, {}, ["not_applicable"]),
        ({}, {"required": ("libc6",)}, ["not_applicable"]),
        (DEBIAN, {"required": ("libc6", "libc6=2.39-0ubuntu8.4", "libc6=2.39*")}, ["ok"]),
        (DEBIAN, {"required": ("datacenter-gpu-manager=3.3.*", "datacenter-gpu-manager=1:3.3.9")}, ["ok"]),
        (DEBIAN, {"required": ("libc6=2.4*",)}, ["package_version_wrong"]),
        (DEBIAN, {"required": ("not-this-one", "nvidia-driver")}, ["package_absent", "package_absent"]),
        (DEBIAN, {"required": ("slurmd",)}, ["package_half_installed"]),
        (DEBIAN, {"forbidden": ("nvidia-driver", "unattended-upgrades")}, ["ok"]),
        (DEBIAN, {"forbidden": ("libc6",)}, ["package_forbidden"]),
        (DEBIAN, {"required": ("--root=/",)}, ["check_error"]),
        (RPM, {"required": ("kernel=5.14.0-503.*",), "forbidden": ("slurm",)}, ["ok"]),
        (RPM, {"required": ("kernel", "slurm")}, ["package_absent"]),
        (RPM, {"required": ("other",)}, ["packages_unasked"]),
    ],
)
def test_judges_packages(plant: Plant, tree: Tree, options: dict[str, object], expected: list[str]) -> None:
    """Like E112: a node with an old package is told by the version that its fleet should have."""
    assert codes(found(plant(tree), "packages", **options)) == expected


# ---- container runtimes

PING = b"HTTP/1.0 200 OK\r\n\r\nOK"


def programs(host: Host, *names: str, content: str = "x", mode: int = 0o755) -> Host:
    for name in names:
        path = host.path(f"/usr/bin/{name}")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content)
        path.chmod(mode)
    return host


@pytest.mark.parametrize(
    ("runtimes", "installed", "settings", "expected"),
    [
        ((), (), {}, ["not_applicable"]),
        (("enroot", "nvidia"), ("enroot", "nvidia-ctk"), {}, ["ok"]),
        (("enroot", "nvidia"), ("enroot",), {}, ["container_runtime_absent"]),
        (("enroot",), ("enroot",), {"user/max_user_namespaces": "0\n"}, ["user_namespaces_off"]),
        (("enroot",), ("enroot",), {"kernel/unprivileged_userns_clone": "1\n"}, ["ok"]),
        (("apptainer",), ("apptainer",), {"kernel/unprivileged_userns_clone": "0\n"}, ["user_namespaces_off"]),
        (("singularity",), ("apptainer",), {"kernel/unprivileged_userns_clone": "0\n"}, ["ok"]),
        (("docker",), ("docker",), {}, ["container_runtime_silent"]),
        (("rkt",), (), {}, ["check_error"]),
    ],
)
def test_judges_runtimes(
    plant: Plant, runtimes: tuple[str, ...], installed: tuple[str, ...], settings: dict[str, str], expected: list[str]
) -> None:
    host = programs(plant({f"/proc/sys/{name}": value for name, value in settings.items()}), *installed)
    assert codes(found(host, "container_runtime", runtimes=runtimes)) == expected


def test_a_program_that_is_empty_or_no_program_is_broken(plant: Plant) -> None:
    """Like E51: present and of 0 bytes."""
    host = programs(plant(), "enroot", content="")
    assert codes(found(host, "container_runtime", runtimes=("enroot",))) == ["container_runtime_broken"]
    programs(host, "enroot", mode=0o644)
    assert codes(found(host, "container_runtime", runtimes=("enroot",))) == ["container_runtime_broken"]


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        (PING, "ok"),
        (b"HTTP/1.0 500 no\r\n\r\n", "container_runtime_silent"),
        (b"", "container_runtime_silent"),
        (None, "container_runtime_silent"),
    ],
)
def test_docker_is_asked_for_a_ping(plant: Plant, said: bytes | None, expected: str) -> None:
    host = programs(plant(), "docker")
    with serving(host.path("/run/docker.sock"), lambda request: said if b"/_ping" in request else b""):
        assert codes(found(host, "container_runtime", runtimes=("docker",), seconds=0.5)) == [expected]


def test_containerd_must_take_a_connection(plant: Plant) -> None:
    host, where = programs(plant(), "containerd"), Path("/run/containerd/containerd.sock")
    abandoned(host.path(where))
    assert codes(found(host, "container_runtime", runtimes=("containerd",))) == ["container_runtime_silent"]
    host.path(where).unlink()
    with serving(host.path(where), lambda request: b""):
        assert codes(found(host, "container_runtime", runtimes=("containerd",))) == ["ok"]
