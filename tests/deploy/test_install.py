"""The installer makes a release, upgrades it in one step, and never takes away hooks that Slurm still runs."""

from __future__ import annotations

import configparser
import os
import re
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from api.settings import load_settings
from tests.wheelhouse import ROOT, base_requirements, repack

INSTALL = ROOT / "deploy/install/install.sh"
HOOKS = (
    "nodevet-prolog",
    "nodevet-epilog",
    "nodevet-health",
    "nodevet-unkillable",
    "nodevet-taskprolog",
    "nodevet-prologctld",
    "nodevet-epilogctld",
)


@dataclass(frozen=True, slots=True)
class Target:
    """A directory that stands for a node's file system."""

    root: Path
    wheels: Path

    def install(self, *options: str) -> subprocess.CompletedProcess[str]:
        """Run the installer with its files below ``root``, without an index."""
        command = [str(INSTALL), "--destdir", str(self.root), "--wheels", str(self.wheels), *options]
        env = {"PATH": os.environ["PATH"], "PIP_CONFIG_FILE": os.devnull, "HOME": str(self.root.parent)}
        return subprocess.run(command, env=env, capture_output=True, text=True, timeout=400)

    def python(self, code: str) -> str:
        """What the installed Python prints."""
        command = [str(self.root / "opt/nodevet/bin/python"), "-I", "-c", code]
        return subprocess.run(command, capture_output=True, text=True, check=True, cwd="/", timeout=60).stdout

    def files(self) -> set[str]:
        """Every file and link below the root, the releases' own contents left out."""
        found = (path.relative_to(self.root) for path in self.root.rglob("*") if path.is_symlink() or path.is_file())
        return {str(path) for path in found if "nodevet.d" not in path.parts[:2] or len(path.parts) < 3}


@pytest.fixture(scope="module")
def wheels(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("wheels")
    for name in {*base_requirements(), "setuptools"}:
        repack(name, directory)
    return directory


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory, wheels: Path) -> Target:
    """A node with a fresh installation; every test leaves it installed."""
    directory = tmp_path_factory.mktemp("a node")
    token = directory / "token"
    token.write_text("secret\n")
    target = Target(directory / "root", wheels)
    named = ("--node", "gpu001", "--cluster", "main")
    done = target.install(*named, "--central", "https://vet.example:8443", "--token", str(token))
    assert done.returncode == 0, done.stdout + done.stderr
    return target


def test_an_installation_has_its_parts(installed: Target) -> None:
    assert installed.files() >= {
        *(f"usr/libexec/nodevet/{name}" for name in HOOKS),
        "opt/nodevet",
        "usr/local/bin/nodevet",
        "etc/nodevet/nodevet.toml",
        "etc/nodevet/hook.conf",
        "etc/nodevet/token",
        "etc/systemd/system/nodevet-agent.service",
        "usr/lib/sysusers.d/nodevet.conf",
        "usr/lib/tmpfiles.d/nodevet.conf",
    }
    assert "etc/systemd/system/nodevet-server.service" not in installed.files()
    assert ((installed.root / "etc/nodevet/token").stat().st_mode & 0o777) == 0o600
    assert ((installed.root / "etc/nodevet/nodevet.toml").stat().st_mode & 0o777) == 0o644
    assert (installed.root / "opt/nodevet/bin/nodevet").read_text().startswith("#!/opt/nodevet/bin/python\n")


def test_the_base_carries_no_web_framework_database_or_torch(installed: Target) -> None:
    heavy = ("fastapi", "sqlalchemy", "uvicorn", "torch")
    code = f"import importlib.util as u; print([n for n in {heavy} if u.find_spec(n)], bool(u.find_spec('h11')))"
    assert installed.python(code) == "[] True\n"


def test_the_written_configuration_is_the_agents_own(installed: Target) -> None:
    code = f"""if 1:
        from pathlib import Path
        from daemon.config import parse_config
        path = Path({str(installed.root / "etc/nodevet/nodevet.toml")!r})
        config = parse_config(path.read_text(), path, {{}})
        print(config.agent.cluster, config.agent.node, config.central.url, config.central.token_file)"""
    assert installed.python(code) == "main gpu001 https://vet.example:8443 /etc/nodevet/token\n"


def test_the_servers_settings_are_its_own(installed: Target) -> None:
    text = (ROOT / "deploy/install/server.toml").read_text()
    path = installed.root.parent / "server.toml"
    path.write_text(re.sub(r"^#(?=cluster|\[guard\]|drained)", "", text, flags=re.MULTILINE))
    settings = load_settings(path, {})
    assert settings.server.cluster == "main"
    assert settings.server.db == "sqlite:////var/lib/nodevet-server/server.db"


def test_every_hook_is_built_for_this_release(installed: Target) -> None:
    for name in HOOKS:
        hook = installed.root / "usr/libexec/nodevet" / name
        done = subprocess.run([hook, "--version"], capture_output=True, text=True, timeout=30)
        assert done.returncode == 0
        assert re.fullmatch(r"nodevet hook [0-9]+\.[0-9.]+\n", done.stdout)


def test_an_upgrade_switches_in_one_step_and_keeps_what_a_person_wrote(installed: Target) -> None:
    (installed.root / "etc/nodevet/hook.conf").write_text("deadline_s=6\n")
    before = (installed.root / "opt/nodevet").readlink()
    done = installed.install("--node", "other")
    assert done.returncode == 0, done.stderr
    after = (installed.root / "opt/nodevet").readlink()
    assert before != after
    assert {path.name for path in (installed.root / "opt/nodevet.d").iterdir()} == {before.name, after.name}
    assert (installed.root / "etc/nodevet/hook.conf").read_text() == "deadline_s=6\n"
    assert 'node = "gpu001"' in (installed.root / "etc/nodevet/nodevet.toml").read_text()


def test_a_release_that_cannot_be_made_leaves_the_old_one(installed: Target, tmp_path: Path) -> None:
    before = (installed.root / "opt/nodevet").readlink()
    releases = set((installed.root / "opt/nodevet.d").iterdir())
    done = Target(installed.root, tmp_path).install()
    assert done.returncode == 1
    assert "what runs now is untouched" in done.stderr
    assert (installed.root / "opt/nodevet").readlink() == before
    assert set((installed.root / "opt/nodevet.d").iterdir()) == releases


@pytest.mark.parametrize("how", ["line", "link"])
def test_hooks_that_slurm_still_runs_are_not_taken_away(how: str, installed: Target) -> None:
    slurm = installed.root / "etc/slurm"
    (slurm / "prolog.d").mkdir(parents=True)
    if how == "line":
        (slurm / "slurm.conf").write_text("Epilog=/x\n  Prolog=/usr/libexec/nodevet/nodevet-prolog\n")
    else:
        (slurm / "slurm.conf").write_text(
            "# Prolog=/usr/libexec/nodevet/nodevet-prolog\nProlog=/etc/slurm/prolog.d/*\n"
        )
        (slurm / "prolog.d/99-nodevet-prolog").symlink_to("/usr/libexec/nodevet/nodevet-prolog")
    before = installed.files()
    done = installed.install("--uninstall")
    assert done.returncode == 1
    assert "every prolog would fail" in done.stderr
    assert installed.files() == before
    shutil.rmtree(slurm)


def test_uninstall_leaves_configuration_and_purge_nothing(installed: Target, tmp_path: Path) -> None:
    copy = Target(tmp_path / "root", installed.wheels)
    shutil.copytree(installed.root, copy.root, symlinks=True)
    assert copy.install("--uninstall").returncode == 0
    assert copy.files() == {"etc/nodevet/nodevet.toml", "etc/nodevet/hook.conf", "etc/nodevet/token"}
    assert not (copy.root / "opt/nodevet.d").exists()
    assert copy.install("--uninstall", "--purge").returncode == 0
    assert copy.files() == set()


def test_a_dry_run_changes_nothing(tmp_path: Path) -> None:
    done = Target(tmp_path / "root", tmp_path).install("--dry-run", "--server")
    assert done.returncode == 0, done.stderr
    assert "nothing was changed" in done.stdout
    assert not (tmp_path / "root").exists()


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (["--node", 'a"b'], "has no place in a name"),
        (["--node", "a\nb"], "has no place in a name"),
        (["--prefix", "relative"], "is not an absolute path"),
        (["--prefix", "/"], "is not an absolute path"),
        (["--python", "/bin/true-not"], "is no Python 3.10"),
        (["--token", "/nonexistent"], "does not exist"),
        (["--frobnicate"], "unknown option"),
        (["--node"], "usage:"),
    ],
)
def test_bad_options_are_refused_before_anything_is_made(options: Sequence[str], says: str, tmp_path: Path) -> None:
    done = Target(tmp_path / "root", tmp_path).install(*options)
    assert done.returncode in (1, 64)
    assert says in done.stderr
    assert not (tmp_path / "root").exists()


# The units. What gives the agent mounts of its own would make it judge other mounts than the jobs see.

MOUNTS_OF_ITS_OWN = re.compile(
    r"Protect(System|Home|Kernel.*|ControlGroups|Proc)|Private(Tmp|Devices|Mounts)|(ReadOnly|ReadWrite|Inaccessible|Bind)Paths"
    r"|TemporaryFileSystem|RootDirectory|DynamicUser|DevicePolicy|DeviceAllow|ProtectClock"
)


def service(name: str) -> dict[str, str]:
    """The [Service] section of one of our units."""
    parser = configparser.ConfigParser(interpolation=None, strict=False)
    parser.optionxform = str  # type: ignore[assignment,method-assign]
    parser.read(ROOT / f"deploy/systemd/nodevet-{name}.service")
    return dict(parser["Service"])


@pytest.mark.parametrize(
    ("conf", "user"),
    [
        ("SlurmUser=slurmadm\n", "slurmadm"),
        ("#SlurmUser=x\n  slurmuser = hpc # ours\n", "hpc"),
        ("", "root"),
        (None, "root"),
    ],
)
def test_the_spool_of_jobs_is_slurms_own_account(conf: str | None, user: str, tmp_path: Path) -> None:
    if conf is not None:
        (tmp_path / "etc/slurm").mkdir(parents=True)
        (tmp_path / "etc/slurm/slurm.conf").write_text(conf)
    command = ["sh", "-c", '. "$0"; D=$1; slurm_user', str(ROOT / "deploy/install/parts.sh"), str(tmp_path)]
    assert subprocess.run(command, capture_output=True, text=True, timeout=30).stdout == f"{user}\n"


def test_the_agent_sees_the_mounts_and_devices_that_jobs_see() -> None:
    assert [key for key in service("agent") if MOUNTS_OF_ITS_OWN.fullmatch(key)] == []
    assert MOUNTS_OF_ITS_OWN.fullmatch("ProtectHome")


def test_nothing_inside_the_driver_is_killed() -> None:
    agent = service("agent")
    assert (agent["KillMode"], agent["SendSIGKILL"]) == ("mixed", "no")
    assert agent["RuntimeDirectoryPreserve"] == "yes"


def test_the_server_is_never_root() -> None:
    server = service("server")
    assert server["User"] == "nodevet-server"
    assert server["CapabilityBoundingSet"] == ""
    assert server["NoNewPrivileges"] == "yes"


@pytest.mark.parametrize("name", ["agent", "server"])
def test_units_start_the_installed_release(name: str) -> None:
    assert service(name)["ExecStart"] == f"/opt/nodevet/bin/python -I -m daemon {name}"


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd-analyze is not installed")
@pytest.mark.parametrize("name", ["agent", "server"])
def test_systemd_understands_the_units(name: str, tmp_path: Path) -> None:
    unit = tmp_path / f"nodevet-{name}.service"
    text = (ROOT / f"deploy/systemd/{unit.name}").read_text()
    unit.write_text(text.replace("/opt/nodevet/bin/python", "/usr/bin/python3"))
    done = subprocess.run(["systemd-analyze", "verify", unit], capture_output=True, text=True, timeout=60)
    assert unit.name not in done.stderr, done.stderr


@pytest.mark.parametrize(("more", "understood"), [("", True), ("NoSuchSetting=1\n", False)])
def test_slurm_understands_the_lines_for_slurm_conf(more: str, understood: bool, tmp_path: Path) -> None:
    conf = tmp_path / "slurm.conf"
    lines = (ROOT / "deploy/slurm/slurm.conf.lines").read_text()
    cluster = "ClusterName=x\nSlurmctldHost=localhost\nNodeName=n1\nPartitionName=p Nodes=n1\n"
    conf.write_text(cluster + lines + more)
    command = ["scontrol", "show", "hostnames", "n[1-2]"]
    env = {"PATH": "/usr/bin:/bin", "SLURM_CONF": str(conf)}
    done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=60)
    assert (done.returncode == 0) == understood, done.stderr
