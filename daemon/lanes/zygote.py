"""The zygote forks lanes and helpers from an ancestor that never held a socket of the agent, a thread or a driver."""

from __future__ import annotations

import gc
import importlib
import os
import select
import signal
import socket
import sys
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import msgspec

from checks import Host, catalog
from checks.judge.policy import shipped
from checks.profile import profiles
from daemon.lanes import process, worker
from daemon.lanes.helpers import Entry, Helpers
from daemon.lanes.wire import ForkRequest, HostSpec, ZygoteNews

# A lane is given up before the agent when memory runs out; it is restarted, the agent's memory is not.
LANE_OOM_SCORE = 300
MESSAGE_LIMIT = 65536


@dataclass(frozen=True, slots=True)
class Zygote:
    """The agent's handle: the control socket, closed = the zygote and its lanes end; ``helpers`` asks for helpers."""

    pid: int
    control: socket.socket
    spec: HostSpec
    helpers: socket.socket

    @classmethod
    def start(cls, spec: HostSpec, preload: tuple[str, ...] = (), helpers: Mapping[str, Entry] | None = None) -> Zygote:
        """Fork the zygote; to be called before any thread, event loop or socket of the agent exists.

        ``preload`` names further modules to import for functions called in lanes. Returns at once: imports happen
        in the zygote, and a module that cannot be imported is told in its first message. What is imported before
        this call is in the memory of every lane.
        """
        loop = sys.modules.get("asyncio.events")
        if threading.active_count() > 1 or (loop is not None and loop._get_running_loop() is not None):
            raise RuntimeError("zygote: to be started before any thread or event loop exists")
        # What any side needs is made once, and no collection copies it by touching it.
        _import(preload)
        _load_checks()
        gc.collect()
        gc.freeze()
        pairs = [socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET) for _ in range(2)]
        parent = os.getpid()
        pid = os.fork()
        if pid == 0:
            _live(parent, [theirs for _, theirs in pairs], spec, preload, helpers or {})
        for _, theirs in pairs:
            theirs.close()
        return cls(pid, pairs[0][0], spec, pairs[1][0])

    def reap(self) -> bool:
        """Collect the zygote's exit status if it has ended; never waits."""
        try:
            return os.waitpid(self.pid, os.WNOHANG)[0] == self.pid
        except ChildProcessError:
            return True


def _live(
    parent: int,
    sockets: Sequence[socket.socket],
    spec: HostSpec,
    preload: tuple[str, ...],
    entries: Mapping[str, Entry],
) -> None:
    """The zygote's whole life; never returns into the caller's stack."""
    status = 1
    try:
        descriptor = process.let_go(*(each.detach() for each in sockets))
        process.settle()
        process.end_with_parent(parent)
        process.set_name("nodevet-zygote")
        host = worker.open_host(spec)
        helpers = Helpers(socket.socket(fileno=descriptor + 1), entries)
        _serve(socket.socket(fileno=descriptor), helpers, host, _preload(preload))
        status = 0
    finally:
        os._exit(status)


def _preload(modules: tuple[str, ...]) -> str:
    """Import what lanes need; a site's broken check is reported, never fatal."""
    failed = _import(modules)
    # What the modules above declared must be known too.
    catalog.load.cache_clear()
    if trouble := _load_checks():
        failed.append(trouble)
    worker.prepare()
    worker.rehearse()
    gc.collect()
    gc.freeze()
    return "; ".join(failed)


def _import(modules: tuple[str, ...]) -> list[str]:
    failed = []
    for name in ("pynvml", "daemon.lanes.memory", "daemon.lanes.watch", *modules):
        try:
            importlib.import_module(name)
        except Exception as error:
            failed.append(f"{name}: {type(error).__name__}: {error}")
    return failed


def _load_checks() -> str:
    """Have every check, profile and policy in memory once; a site's broken check is a finding of its own."""
    try:
        catalog.load()
        profiles()
        shipped()
    except Exception as error:
        return f"checks: {type(error).__name__}: {error}"
    return ""


def _serve(control: socket.socket, helpers: Helpers, host: Host, error: str) -> None:
    wake, waker = os.pipe()
    for descriptor in (wake, waker):
        os.set_blocking(descriptor, False)
    signal.set_wakeup_fd(waker, warn_on_full_buffer=False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    _tell(control, ZygoteNews(kind="ready", error=error[:2000]))
    poll = select.poll()
    for source in (control, helpers, wake):
        poll.register(source, select.POLLIN)
    while True:
        ready = {descriptor for descriptor, _ in poll.poll()}
        if wake in ready:
            os.read(wake, 4096)
        _reap(control, helpers)
        if helpers.fileno() in ready and not helpers.serve_one():
            poll.unregister(helpers)
        if control.fileno() in ready and not _fork_one(control, host):
            return


def _fork_one(control: socket.socket, host: Host) -> bool:
    """Serve one request; False when the agent has gone."""
    data, descriptors, _, _ = socket.recv_fds(control, MESSAGE_LIMIT, 1)
    if not data or not descriptors:
        return False
    request = msgspec.msgpack.decode(data, type=ForkRequest)
    zygote = os.getpid()
    try:
        pid = os.fork()
    except OSError as error:
        os.close(descriptors[0])
        _tell(control, ZygoteNews(kind="forked", token=request.token, error=f"fork: {error.strerror}"))
        return True
    if pid == 0:
        _become_lane(zygote, descriptors[0], request.lane, host)
    os.close(descriptors[0])
    start = process.start_time(pid)
    _tell(control, ZygoteNews(kind="forked", token=request.token, pid=pid, start=start))
    return True


def _become_lane(zygote: int, descriptor: int, lane: str, host: Host) -> None:
    status = 1
    try:
        kept = process.let_go(descriptor)
        process.settle_as_lane(LANE_OOM_SCORE)
        process.end_with_parent(zygote)
        process.set_name(f"nv-{lane}")
        worker.serve(socket.socket(fileno=kept), host)
        status = 0
    finally:
        os._exit(status)


def _reap(control: socket.socket, helpers: Helpers) -> None:
    while True:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return
        if pid == 0:
            return
        if not helpers.ended(pid):
            _tell(control, ZygoteNews(kind="ended", pid=pid, status=status))


def _tell(control: socket.socket, news: ZygoteNews) -> None:
    try:
        control.send(msgspec.msgpack.encode(news))
    except OSError:
        os._exit(0)
