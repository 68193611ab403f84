"""A job of ours runs one program on nodes that are named, without a user's environment and without a second try."""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass

from slurm.errors import BadRequest
from slurm.hostlist import fold
from slurm.names import checked_nodes, checked_word

LONGEST = 7 * 24 * 3600  # seconds
MAX_SCRIPT = 64 * 1024
PATH = "/usr/bin:/bin:/usr/sbin:/sbin"

_GRES = re.compile(r"[A-Za-z0-9][A-Za-z0-9:_.,-]{0,255}")
_OUTPUT = re.compile(r"/[A-Za-z0-9._/%+-]{0,1023}")


@dataclass(frozen=True, slots=True)
class Batch:
    """What is to run where; the program runs on the first node, as every batch script does, and may call srun.

    It runs as the account that submits it. With ``exclusive`` no other job shares the nodes meanwhile.
    """

    name: str
    argv: tuple[str, ...]
    nodes: tuple[str, ...]
    seconds: int
    partition: str = ""
    reservation: str = ""
    gres: str = ""
    output: str = "/dev/null"
    exclusive: bool = True

    @property
    def command(self) -> str:
        """The one line that the job's shell runs: the words of ``argv``, none of them a shell's."""
        return f"exec {shlex.join(self.argv)}"

    @property
    def hostlist(self) -> str:
        """The nodes as Slurm writes them."""
        return fold(self.nodes)

    @property
    def minutes(self) -> int:
        """The time limit in Slurm's whole minutes, never shorter than wished."""
        return -(-self.seconds // 60)


def checked_batch(batch: Batch) -> Batch:
    """Return the job, or raise BadRequest where a word of it could mean something else to Slurm."""
    checked_word(batch.name, "job")
    checked_nodes(batch.nodes)
    for word, what in ((batch.partition, "partition"), (batch.reservation, "reservation")):
        if word:
            checked_word(word, what)
    if not batch.argv or not batch.argv[0] or any("\0" in word for word in batch.argv):
        raise BadRequest(f"job {batch.name} names no program, or a word of it holds NUL")
    if len(batch.command) > MAX_SCRIPT:
        raise BadRequest(f"job {batch.name}: command of {len(batch.command)} characters, at most {MAX_SCRIPT}")
    if batch.gres and _GRES.fullmatch(batch.gres) is None:
        raise BadRequest(f"job {batch.name}: gres {batch.gres[:64]!r} is none")
    if _OUTPUT.fullmatch(batch.output) is None:
        raise BadRequest(f"job {batch.name}: output {batch.output[:64]!r} is no absolute path of plain characters")
    if not 0 < batch.seconds <= LONGEST:
        raise BadRequest(f"job {batch.name} for {batch.seconds} s, expected 1 to {LONGEST} s")
    return batch
