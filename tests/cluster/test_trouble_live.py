"""A real slurmctld that is slow, hung, dead or replaced by its backup: each is named, and no drain is lost."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from shutil import rmtree

import pytest

from deploy.simcluster import lab_ground, processes
from deploy.simcluster.slurm_lab import SlurmLab
from slurm import errors
from slurm.commands import Commands
from slurm.ownership import OurRecord, Result, drain_if_free, resume_if_ours
from slurm.reason import Owner, compose, owner_of
from slurm.retry import until

pytestmark = pytest.mark.cluster

OURS = compose("gpu_lost", "GPU 3 fell off the bus", token="7f3a9c")
BACKUP = "nvbackup"
AS_SLURM = "setpriv --reuid=slurm --regid=slurm --clear-groups"
ENTER = f"hostname $1 && mount --bind $3 /etc/hosts && exec {AS_SLURM} slurmctld -D -f $2"


class TwoControllers(SlurmLab):
    """A lab with a backup slurmctld on 127.0.0.2, in a namespace of its own where the machine has another name."""

    def configure(
        self, *, hooks: Mapping[str, Path] | None = None, extra_conf: str | None = None, reconfigure: bool = False
    ) -> None:
        """Name the backup behind the primary; its own copy differs in where it writes log and process id."""
        super().configure(hooks=hooks, extra_conf=extra_conf)
        first = next(line for line in self.conf.read_text().splitlines() if line.startswith("SlurmctldHost="))
        text = self.conf.read_text().replace(first, f"{first}\nSlurmctldHost={BACKUP}(127.0.0.2)")
        self.conf.write_text(text)
        own = text.replace("pid/slurmctld.pid", "pid/backup.pid").replace("log/slurmctld.log", "log/backup.log")
        (self.conf.parent / "backup.conf").write_text(own)

    def start_backup(self) -> None:
        """Start it; it waits until the primary has been silent for SlurmctldTimeout."""
        hosts = self.base / "etc/hosts"
        hosts.write_text(f"{Path('/etc/hosts').read_text()}\n127.0.0.2 {BACKUP}\n")
        argv: list[str | Path] = [
            "unshare",
            "--uts",
            "--mount",
            "sh",
            "-c",
            ENTER,
            "sh",
            BACKUP,
            self.conf.parent / "backup.conf",
            hosts,
        ]
        self._spawn("backup", argv)


@pytest.fixture(scope="module")
def lab() -> Iterator[TwoControllers]:
    if reason := lab_ground.cannot_run():
        pytest.skip(reason)
    base = lab_ground.short_base()
    # Each slurmctld has the same port on an address of its own.
    extra = "CommunicationParameters=NoCtldInAddrAny\nSlurmctldTimeout=5\nMessageTimeout=10\n"
    running = TwoControllers(base, 3, gpus=0, extra_conf=extra)
    with running:
        yield running
    rmtree(base)


@pytest.fixture
def backend(lab: TwoControllers) -> Commands:
    made = Commands(conf=lab.conf)
    made.version()
    return made


def log(lab: SlurmLab) -> str:
    """What the backup says."""
    return (lab.base / "log/backup.log").read_text()[-1500:]


@contextmanager
def stopped(pid: int) -> Iterator[None]:
    """A process that does not run, as on a host that swaps."""
    os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(pid, signal.SIGCONT)


def test_a_slow_controller_is_waited_for(lab: TwoControllers, backend: Commands) -> None:
    """E02: five seconds of silence are within the limit; nothing is made up and nothing is repeated."""
    pid = lab.pid("slurmctld")
    os.kill(pid, signal.SIGSTOP)
    child = os.fork()
    if child == 0:
        time.sleep(5.0)
        os.kill(pid, signal.SIGCONT)
        os._exit(0)
    begun = time.monotonic()
    try:
        assert set(backend.nodes()) == set(lab.names)
    finally:
        os.waitpid(child, 0)
    assert time.monotonic() - begun >= 4.5


def test_a_hung_controller_is_a_timeout_that_names_its_step(lab: TwoControllers) -> None:
    """E02: the step that did not end is named; a drain that was tried says so and blames no node."""
    quick = Commands(conf=lab.conf, timeout=2.0)
    quick.version()
    with stopped(lab.pid("slurmctld")):
        for call, step in ((lambda: quick.node("n1"), "scontrol show node"), (quick.limits, "scontrol show config")):
            with pytest.raises(errors.Timeout) as caught:
                call()
            assert (caught.value.step, caught.value.seconds) == (step, 2.0)
        outcome = drain_if_free(quick, "n1", OURS)
        assert (outcome.result, "did not end within 2 s" in outcome.detail) == (Result.FAILED, True)
    lab.wait_for(lambda: not until(30.0, lambda: quick.node("n1")).out_of_service, 30, lambda: "n1 was drained")


def test_the_backup_takes_over_with_every_drain(lab: TwoControllers, backend: Commands) -> None:
    """Reads, writes and limits go on through the backup, whose state is the primary's."""
    assert drain_if_free(backend, "n2", OURS).result is Result.WRITTEN
    lab.start_backup()
    told = backend.limits()
    lab.wait_for(lambda: f"{BACKUP} is UP" in lab.run(["scontrol", "ping"], check=False).stdout, 30, lambda: log(lab))
    lab.saved()
    lab.kill_slurmctld()

    def answers() -> bool:
        try:
            return "n2" in Commands(conf=lab.conf, timeout=5.0).nodes()
        except errors.SlurmError as error:
            # While nobody is in charge: in standby, refused, or no answer yet. Never a fault of a node.
            assert isinstance(error, (errors.Busy, errors.Timeout)) or type(error) is errors.SlurmError
            return False

    lab.wait_for(answers, 60, lambda: log(lab))
    assert backend.ping() is True
    assert owner_of(backend.node("n2")) is Owner.OURS_AUTOMATIC
    again = backend.limits()
    assert (again.message_timeout, again.prolog_flags, again.version) == (
        told.message_timeout,
        told.prolog_flags,
        told.version,
    )
    assert drain_if_free(backend, "n3", OURS).result is Result.WRITTEN
    assert resume_if_ours(backend, "n2", OurRecord(OURS)).result is Result.WRITTEN
    # The primary comes back and takes over again, with what was written meanwhile.
    lab.start_slurmctld()
    lab.wait_for(
        lambda: "is UP" in lab.run(["scontrol", "ping"], check=False).stdout.splitlines()[0], 60, lambda: "no primary"
    )
    assert owner_of(until(30.0, lambda: backend.node("n3"))) is Owner.OURS_AUTOMATIC
    assert owner_of(backend.node("n2")) is None
    processes.end([lab._started["backup"].pid], grace=5)


def test_a_dead_controller_is_unreachable(lab: TwoControllers, backend: Commands) -> None:
    lab.kill_slurmctld()
    try:
        with pytest.raises(errors.Unreachable, match="scontrol show config"):
            Commands(conf=lab.conf, timeout=40.0).limits()
        assert backend.ping() is False
    finally:
        lab.start_slurmctld()
        lab.wait_for(backend.ping, 30, lambda: "slurmctld does not come back")
