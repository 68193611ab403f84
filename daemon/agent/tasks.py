"""A user is told once a step that the job runs on a node with a fault, and is told of nobody else's job."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass, field

from checks.wire import Decision, Finding, JobAttempt
from daemon.agent.answers import Answer
from slurm.jobenv import JobEnv

LIMIT = 512
CODES_SHOWN = 4


@dataclass(slots=True)
class TaskLines:
    """What the users of admitted jobs are told, by job id; a job that was admitted without a doubt has no line."""

    _lines: OrderedDict[int, tuple[int, str]] = field(default_factory=OrderedDict)

    def admitted(self, node: str, job: JobAttempt, decision: Decision, findings: Sequence[Finding]) -> None:
        """A job goes on here: remember what its user should know, where there is anything."""
        self._lines.pop(job.job_id, None)
        line = _line(node, decision, findings)
        if line and job.uid is not None:
            self._lines[job.job_id] = (job.uid, line)
        while len(self._lines) > LIMIT:
            self._lines.popitem(last=False)

    def ended(self, job_id: int) -> None:
        """The job's epilog has run here."""
        self._lines.pop(job_id, None)

    def answer(self, uid: int, body: bytes) -> Answer:
        """The line for the job that ``uid`` asks about, empty for everybody else's."""
        job_id = JobEnv.parse(body).job_id
        owner, line = self._lines.get(job_id or 0, (-1, ""))
        return Answer(0, line if uid in (0, owner) else "")


def _line(node: str, decision: Decision, findings: Sequence[Finding]) -> str:
    """Codes only: messages may name processes and paths of others."""
    if decision.verdict not in ("faulty", "degraded"):
        return ""
    bad = [f for f in findings if f.status in ("fail", "warn") and f.blame in ("node", "fabric", "shared")]
    codes = list(dict.fromkeys(f.code for f in sorted(bad, key=lambda f: f.status)))[:CODES_SHOWN]
    return (
        f"nodevet: node {node} is {decision.verdict} ({', '.join(codes)}); your job runs here all the same"
        if codes
        else ""
    )
