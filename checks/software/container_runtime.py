"""The container runtimes that jobs use are installed, allowed and answer."""

from __future__ import annotations

import os
from collections.abc import Iterator

from checks.declare import Skip, check, code, ok
from checks.host import Host
from checks.software.sockets import Talk
from checks.wire import Finding

ABSENT = code(
    "container_runtime_absent",
    "warn",
    "config",
    "runtime {runtime} is not installed: no {program} in {folders}",
    explain="Confirm: `command -v <program>`. Do: install it, or take it off the list.",
)
EMPTY = code(
    "container_runtime_broken",
    "warn",
    "config",
    "program {program} of runtime {runtime} is {what}",
    explain="An installation was cut short, or the disk was full. Confirm: `ls -l <program>`. Do: install it again.",
)
SILENT = code(
    "container_runtime_silent",
    "warn",
    "node",
    "runtime {runtime} does not answer at {socket}: {error}",
    explain="Confirm: `curl --unix-socket /run/docker.sock http://x/_ping`, `systemctl status docker containerd`. "
    "Do: start it; look at its log.",
)
NAMESPACES = code(
    "user_namespaces_off",
    "warn",
    "config",
    "runtime {runtime} needs user namespaces and {setting} is {value}",
    explain="enroot and apptainer (without set-user-id) fail for every user. Confirm: `unshare -Ur true` as a user. "
    "Do: set it by sysctl; a program of its own may need an AppArmor profile.",
)
PROGRAMS = {
    "enroot": ("enroot",),
    "apptainer": ("apptainer",),
    "singularity": ("singularity", "apptainer"),
    "podman": ("podman",),
    "docker": ("docker", "dockerd"),
    "containerd": ("containerd",),
    "nvidia": ("nvidia-container-cli", "nvidia-ctk"),
}
"""Programs of a runtime, any of which will do; ``nvidia`` is what puts GPUs into containers."""
SOCKETS = {"docker": "/run/docker.sock", "containerd": "/run/containerd/containerd.sock"}
_ROOTLESS = frozenset({"enroot", "apptainer", "podman"})
_FOLDERS = ("/usr/bin", "/usr/local/bin", "/usr/sbin", "/usr/local/sbin", "/bin", "/opt/bin")
_SETTINGS = ("user.max_user_namespaces", "kernel.unprivileged_userns_clone")
"""0 in any of them forbids them to users."""


@check(lane="system", interval=600, timeout=5.0, codes=(ABSENT, EMPTY, SILENT, NAMESPACES))
def container_runtime(
    host: Host, *, runtimes: tuple[str, ...] = (), folders: tuple[str, ...] = _FOLDERS, seconds: float = 2.0
) -> Iterator[Finding]:
    """Each of ``runtimes`` (enroot, apptainer, singularity, podman, docker, containerd, nvidia) is there.

    docker is asked for a ping, containerd must take a connection; enroot, apptainer and podman need user namespaces.
    No container is started. Confirm by hand: ``command -v enroot``, ``unshare -Ur true``, ``docker info``.

    ``folders``: where the programs are looked for. ``seconds``: how long a runtime's socket may take to answer.
    """
    if not runtimes:
        raise Skip("no container runtime is named")
    bad: list[Finding] = []
    for runtime in runtimes:
        if runtime not in PROGRAMS:
            raise ValueError(f"no container runtime: {runtime!r}, expected one of {', '.join(PROGRAMS)}")
        bad += _judge(host, runtime, folders, seconds)
    yield from bad
    if not bad:
        yield ok("node", f"{', '.join(runtimes)} as expected", runtimes=len(runtimes))


def _judge(host: Host, runtime: str, folders: tuple[str, ...], seconds: float) -> Iterator[Finding]:
    path = _program(host, runtime, folders)
    if path is None:
        yield ABSENT(runtime, runtime=runtime, program=PROGRAMS[runtime][0], folders=", ".join(folders))
        return
    seen = os.stat(host.path(path))
    if not seen.st_size:
        yield EMPTY(runtime, runtime=runtime, program=path, what="empty")
    elif not seen.st_mode & 0o111 and (not host.redirected or host.simulated):
        yield EMPTY(runtime, runtime=runtime, program=path, what="not executable")
    if runtime in _ROOTLESS:
        yield from _namespaces(host, runtime)
    if (where := SOCKETS.get(runtime)) and (error := _ask(host, runtime, where, seconds)):
        yield SILENT(runtime, runtime=runtime, socket=where, error=error)


def _program(host: Host, runtime: str, folders: tuple[str, ...]) -> str | None:
    found = (f"{folder}/{program}" for program in PROGRAMS[runtime] for folder in folders)
    return next((path for path in found if host.path(path).is_file()), None)


def _namespaces(host: Host, runtime: str) -> Iterator[Finding]:
    for setting in _SETTINGS:
        try:
            value = int(host.read("/proc/sys/" + setting.replace(".", "/")))
        except OSError:
            continue  # this kernel has no such switch
        if value == 0:
            yield NAMESPACES(runtime, runtime=runtime, setting=setting, value=value)


def _ask(host: Host, runtime: str, where: str, seconds: float) -> str:
    """Why the daemon does not answer, empty when it does; one without a socket is not started."""
    try:
        with Talk(host, where, seconds) as talk:
            if runtime != "docker":
                return ""
            talk.send(b"GET /_ping HTTP/1.0\r\nHost: docker\r\n\r\n")
            line = talk.line()
            return "" if line.split()[1:2] == ["200"] else f"it said {line[:80]!r}"
    except FileNotFoundError:
        return "no socket"
    except OSError as error:
        return error.strerror or str(error)
