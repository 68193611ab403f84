"""The hook is compiled into one static binary that is installed under a name for each kind."""

from __future__ import annotations

import os
import subprocess  # noqa: TID251 - building is running the compiler
import tempfile
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

# The names of the program, by the setting of slurm.conf that runs it.
PROGRAMS = {
    "Prolog": "nodevet-prolog",
    "Epilog": "nodevet-epilog",
    "HealthCheckProgram": "nodevet-health",
    "UnkillableStepProgram": "nodevet-unkillable",
    "TaskProlog": "nodevet-taskprolog",
    "PrologSlurmctld": "nodevet-prologctld",
    "EpilogSlurmctld": "nodevet-epilogctld",
}
NAMES = tuple(PROGRAMS.values())
FLAGS = ("-O2", "-static", "-Wall", "-Wextra", "-Werror", "-fstack-protector-strong", "-D_FORTIFY_SOURCE=2")


class BuildError(Exception):
    """The compiler is missing or did not like what it was given."""


def hook_source() -> Path:
    """Return the directory that holds the hook's C files and its example hook.conf."""
    return Path(__file__).resolve().parent


def build(output: Path, *, conf: Path | None = None, cc: str = "gcc") -> Path:
    """Compile the hook and install its names into the directory ``output``, which is returned.

    ``conf`` is the hook.conf the binary will read instead of /etc/nodevet/hook.conf. Names already there are
    replaced one by one, so a hook that Slurm starts meanwhile is either the old or the new one.
    """
    output.mkdir(mode=0o755, parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".build-", dir=output) as scratch:
        binary = Path(scratch) / "hook"
        _compile([cc, *FLAGS, *_defines(conf), "-o", str(binary), *_sources()])
        binary.chmod(0o755)
        for name in NAMES:
            link = Path(scratch) / name
            link.hardlink_to(binary)
            os.replace(link, output / name)
    return output


def _sources() -> list[str]:
    return sorted(str(path) for path in hook_source().glob("*.c"))


def _defines(conf: Path | None) -> list[str]:
    try:
        defines = [f'-DHOOK_VERSION="{version("nodevet")}"']
    except PackageNotFoundError:
        defines = []
    if conf is not None:
        text = str(conf)
        if not conf.is_absolute() or not text.isprintable() or '"' in text or "\\" in text:
            raise BuildError(f"conf {text!r} is not an absolute path that can stand in a C string")
        defines.append(f'-DHOOK_CONF="{text}"')
    return defines


def _compile(command: list[str]) -> None:
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise BuildError(f"compiler {command[0]}: {error}") from error
    if done.returncode != 0:
        raise BuildError(f"compiler {command[0]}: exit {done.returncode}: {done.stderr.strip()[-2000:]}")
