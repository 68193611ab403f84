"""The stand-in library is compiled once per source and kept under a name made from the source's hash."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
from pathlib import Path

SONAME = "libnvidia-ml.so.1"
SOURCES = (
    "state.c",
    "gate.c",
    "slots.c",
    "system.c",
    "device.c",
    "mig.c",
    "clocks.c",
    "board.c",
    "health.c",
    "fields.c",
)
CUDA_SONAME = "libcuda.so.1"
CUDA_SOURCES = ("state.c", "gate.c", "slots.c", "cuda.c")
FLAGS = (
    "-std=gnu11",
    "-O2",
    "-Wall",
    "-Wextra",
    "-Wno-unused-parameter",
    "-Werror",
    "-fPIC",
    "-fvisibility=hidden",
    "-pthread",
)


class CannotBuild(RuntimeError):
    """The stand-in cannot be compiled on this machine; the message says why."""


def build(cache: Path) -> Path:
    """Return NVML's stand-in below ``cache``, compiled if this very source has not been compiled there before."""
    return _build(cache, SONAME, SOURCES)


def build_cuda(cache: Path) -> Path:
    """Return the stand-in for the CUDA driver's library, made in the same way."""
    return _build(cache, CUDA_SONAME, CUDA_SOURCES)


def _build(cache: Path, soname: str, sources: tuple[str, ...]) -> Path:
    here = Path(__file__).parent
    digest = hashlib.sha256(" ".join(FLAGS).encode())
    for name in ("stand_in.h", *sources):
        digest.update((here / name).read_bytes())
    library = cache / digest.hexdigest()[:16] / soname
    if library.exists():
        return library
    compiler = shutil.which("cc", path=os.environ.get("PATH", "/usr/bin:/bin"))
    if compiler is None:
        raise CannotBuild("no C compiler; install gcc and libc6-dev")
    library.parent.mkdir(parents=True, exist_ok=True)
    fresh = library.with_name(f"{soname}.{os.getpid()}")
    argv = [compiler, *FLAGS, "-shared", f"-Wl,-soname,{soname}", "-o", str(fresh)]
    argv += [str(here / name) for name in sources] + ["-ldl"]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=120, check=False)
    if done.returncode != 0:
        raise CannotBuild(f"the stand-in does not compile: {done.stderr.strip()[-2000:]}")
    fresh.replace(library)  # several processes may build at once; each puts a whole file in place
    return library
