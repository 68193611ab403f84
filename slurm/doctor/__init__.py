"""What will bite in the running Slurm is found from its own words before it bites, and each advice names its line."""

from __future__ import annotations

from slurm.doctor.advice import Advice, Level, worst
from slurm.doctor.jobs import job_rules
from slurm.doctor.limits import Running, limit_rules
from slurm.doctor.programs import KEYS, Program, paths, program_rules

__all__ = [
    "KEYS",
    "Advice",
    "Level",
    "Program",
    "Running",
    "job_rules",
    "limit_rules",
    "paths",
    "program_rules",
    "worst",
]
