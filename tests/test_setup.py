"""Set-up refuses a cluster's node, starts nothing, trusts no directory of others, and lists what it changed."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
SETUP = ROOT / "deploy/setup"
SCRIPTS = sorted([*SETUP.glob("*.sh"), *(ROOT / "deploy/install").glob("*.sh")])
SYSTEM_PATH = "/usr/sbin:/usr/bin:/sbin:/bin"


def shell(
    script: str, *, env: Mapping[str, str] | None = None, path: str = SYSTEM_PATH
) -> subprocess.CompletedProcess[str]:
    """Run a piece of shell after the set-up's functions have been read."""
    text = f'. "{SETUP}/lib.sh"; . "{SETUP}/machine.sh"; {script}'
    settings = {"PATH": path, **(env or {})}
    return subprocess.run(["sh", "-c", text], env=settings, capture_output=True, text=True, timeout=60)


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: f"{path.parent.name}/{path.name}")
def test_scripts_are_plain_shell(script: Path) -> None:
    done = subprocess.run(["dash", "-n", str(script)], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stderr) == (0, "")


def test_continuous_integration_runs_the_readme_command_only() -> None:
    lines = (ROOT / ".ci/run").read_text().splitlines()
    commands = [line for line in lines if line and not line.startswith(("#", "set "))]
    assert commands == ['cd "$(dirname "$0")/.."', "exec make test"]
    assert os.access(ROOT / ".ci/run", os.X_OK)


# A production daemon is found, a simulated cluster's is not.


@dataclass(frozen=True, slots=True)
class Daemon:
    """What /proc says of one process."""

    comm: str
    cmdline: tuple[str, ...]
    environ: tuple[str, ...] = ()
    elsewhere: bool = False

    def plant(self, proc: Path) -> None:
        """Write the process as number 77 below ``proc``."""
        here = proc / "77"
        here.mkdir(parents=True)
        (here / "comm").write_text(self.comm + "\n")
        (here / "cmdline").write_text("".join(word + "\0" for word in self.cmdline))
        (here / "environ").write_text("".join(word + "\0" for word in self.environ))
        (here / "root").symlink_to(proc if self.elsewhere else "/")


PRODUCTION = [
    Daemon("slurmd", ("/usr/sbin/slurmd", "-D")),
    Daemon("slurmd", ("/usr/sbin/slurmd", "-D", "-L", "/tmp/slurmd.log")),
    Daemon("slurmd", ("slurmd", "--conf-server", "head:6817"), ("SLURM_CONF=/run/slurm/conf/slurm.conf",)),
    Daemon("slurmctld", ("slurmctld", "-f", "/etc/slurm/slurm.conf"), ("HOME=/tmp/x",)),
    Daemon("munged", ("/usr/sbin/munged",)),
    Daemon("munged", ("/usr/sbin/munged", "--log-file", "/tmp/m.log")),
]
SIMULATED = [
    Daemon("slurmd", ("slurmd", "-D", "-N", "n1", "-f", "/tmp/nv-1/etc/slurm.conf")),
    Daemon("slurmctld", ("slurmctld", "-D"), ("SLURM_CONF=/var/tmp/sim/slurm.conf",)),
    Daemon("slurmd", ("slurmd",), ("NODEVET_LAB=/scratch/lab",)),
    Daemon("munged", ("munged", "-F", "--socket=/tmp/nv-1/munge.sock")),
    Daemon("munged", ("munged", "-S", "/tmp/nv-1/munge.sock")),
    Daemon("slurmd", ()),
    Daemon("slurmd", ("slurmd", "-D"), elsewhere=True),
    Daemon("python3", ("python3", "-m", "slurmd")),
]


@pytest.mark.parametrize("daemon", PRODUCTION, ids=lambda daemon: " ".join(daemon.cmdline))
def test_a_cluster_node_is_refused_politely(daemon: Daemon, tmp_path: Path) -> None:
    daemon.plant(tmp_path / "proc")
    refused = shell(f'refuse_production "{tmp_path}/proc"')
    assert refused.returncode == 1
    assert f"{daemon.comm} (pid 77)" in refused.stderr
    assert "Nothing was changed. NODEVET_ANYWAY=1 goes on" in refused.stderr
    anyway = shell(f'refuse_production "{tmp_path}/proc"', env={"NODEVET_ANYWAY": "1"})
    assert anyway.returncode == 0
    assert "in use on this machine" in anyway.stdout


@pytest.mark.parametrize("daemon", SIMULATED, ids=lambda daemon: f"{daemon.comm} {' '.join(daemon.cmdline)}")
def test_a_simulated_cluster_is_no_reason_to_refuse(daemon: Daemon, tmp_path: Path) -> None:
    daemon.plant(tmp_path / "proc")
    done = shell(f'refuse_production "{tmp_path}/proc"')
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


# Packages: only the missing ones, with nothing started, and all of it listed.


@dataclass(frozen=True, slots=True)
class Machine:
    """A directory that stands in for Debian: package list, apt-get, unit links, policy-rc.d."""

    base: Path

    def __post_init__(self) -> None:
        for name in ("bin", "state", "units/multi-user.target.wants"):
            (self.base / name).mkdir(parents=True)
        self.installed.write_text("gcc\nbash\n")
        self._program(
            "dpkg-query",
            f"""while read -r name; do
            case "$3" in *=*) printf 'installed=%s ' "$name" ;; *) printf 'installed %s\\n' "$name" ;; esac
            done <"{self.installed}\"""",
        )
        self.apt('printf \'munge\\nlibmunge2\\n\' >>"$INSTALLED"; ln -s /x "$UNITS_DIR/munge.service"')

    @property
    def installed(self) -> Path:
        """One installed package a line."""
        return self.base / "installed"

    @property
    def policy(self) -> Path:
        """Stands for /usr/sbin/policy-rc.d."""
        return self.base / "policy-rc.d"

    @property
    def changes(self) -> list[str]:
        """The list of what was changed."""
        path = self.base / "state/changes"
        return path.read_text().splitlines() if path.exists() else []

    @property
    def calls(self) -> list[str]:
        """How apt-get was called, with the policy in force then."""
        path = self.base / "calls"
        return path.read_text().splitlines() if path.exists() else []

    def apt(self, body: str) -> None:
        """Let ``apt-get install`` do this."""
        self._program(
            "apt-get",
            f"""
            printf '%s|%s\\n' "$*" "$(tail -n 1 "{self.policy}" 2>/dev/null)" >>"{self.base}/calls"
            INSTALLED="{self.installed}" UNITS_DIR="{self.base}/units/multi-user.target.wants"
            case "$*" in *install*) {body} ;; esac""",
        )

    def ensure(self, *packages: str, root: bool = True) -> subprocess.CompletedProcess[str]:
        """Run the set-up's step with this machine in place of the real one."""
        self._program("id", f"echo {0 if root else 1000}")
        script = f"""STATE="{self.base}/state" CHANGES="{self.base}/state/changes" POLICY="{self.policy}"
            UNITS="{self.base}/units"; ensure_packages {" ".join(packages)}"""
        return shell(script, path=f"{self.base}/bin:{SYSTEM_PATH}")

    def _program(self, name: str, body: str) -> None:
        path = self.base / "bin" / name
        path.write_text(f"#!/bin/sh\n{body}\n")
        path.chmod(0o755)


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path / "a machine")


def test_nothing_missing_asks_nobody(machine: Machine) -> None:
    done = machine.ensure("gcc", "bash")
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert (machine.calls, machine.changes) == ([], [])


def test_missing_packages_are_installed_unstarted_and_listed(machine: Machine) -> None:
    done = machine.ensure("gcc", "munge")
    assert done.returncode == 0, done.stderr
    update, install = machine.calls
    assert "update" in update
    assert install.endswith("install --no-install-recommends munge|exit 101")
    assert not machine.policy.exists()
    assert machine.changes == ["package libmunge2", "package munge", "disabled munge.service"]
    assert list((machine.base / "units").rglob("*.service")) == []


def test_a_policy_and_units_that_were_there_stay(machine: Machine) -> None:
    machine.policy.write_text("#!/bin/sh\nexit 104\n")
    enabled = machine.base / "units/multi-user.target.wants/slurmd.service"
    enabled.symlink_to("/x")
    assert machine.ensure("munge").returncode == 0
    assert machine.policy.read_text() == "#!/bin/sh\nexit 104\n"
    assert machine.calls[-1].endswith("|exit 104")
    assert enabled.is_symlink()


def test_a_policy_that_an_interrupted_set_up_left_is_taken_away(machine: Machine) -> None:
    machine.policy.write_text(shell("printf '#!/bin/sh\\n%s\\nexit 101\\n' \"$POLICY_MARK\"").stdout)
    machine.ensure("munge")
    assert not machine.policy.exists()


def test_a_failed_installation_says_so_and_leaves_no_policy(machine: Machine) -> None:
    machine.apt("echo 'E: no such package' >&2; exit 100")
    done = machine.ensure("munge")
    assert done.returncode == 1
    assert "E: no such package" in done.stderr
    assert not machine.policy.exists()


def test_who_is_not_root_is_told_what_is_missing(machine: Machine) -> None:
    done = machine.ensure("munge", root=False)
    assert done.returncode == 1
    assert "these packages are missing: munge" in done.stderr
    assert machine.calls == []


# Torch is several hundred MB: only tests that need it have it installed.


@pytest.mark.parametrize(
    ("folder", "torch", "says"),
    [("flow", "1", ""), ("torch", "1", "installing torch"), ("torch", "0", "torch is left out (TORCH=0)")],
)
def test_torch_is_installed_only_for_tests_that_need_it(folder: str, torch: str, says: str, tmp_path: Path) -> None:
    (tmp_path / "tests" / folder).mkdir(parents=True)
    (tmp_path / "deploy/setup").mkdir(parents=True)
    (tmp_path / "deploy/setup/torch.lock").touch()
    here = f'. "{SETUP}/python.sh"; ROOT="{tmp_path}" VENV="{tmp_path}"'
    done = shell(f'{here}; pip_install() {{ echo "pip $*"; }}; ensure_torch', env={"TORCH": torch})
    assert done.returncode == 0, done.stderr
    assert ("\npip -r " in done.stdout) == says.startswith("installing")
    assert done.stdout.startswith(f"setup: {says}" if says else "") and bool(done.stdout) == bool(says)


# The environment's directory has a name that can be guessed, below a directory that is everybody's.


@pytest.mark.parametrize(
    ("prepare", "says"),
    [
        ("ln -s / there", "is a link"),
        ("mkdir -m 0777 there", "can be written by others"),
        ("touch there", "cannot be made"),
        pytest.param(
            "mkdir there; chown nobody there",
            "belongs to another user",
            marks=pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a directory away"),
        ),
    ],
)
def test_a_directory_put_there_by_others_is_not_used(prepare: str, says: str, tmp_path: Path) -> None:
    done = shell(f'cd "{tmp_path}"; {prepare}; own_dir there')
    assert done.returncode == 1
    assert says in done.stderr
