"""The uplink process asks the central service on the agent's behalf, each kind of question in threads of its own."""

from __future__ import annotations

import os
import queue
import socket
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass

import msgspec

from checks.wire import GateRequest, PermitRequest, PollRequest
from daemon.agent.frames import Frame, Pipe

# At most so many questions of a kind are under way at once; a gate's holder waits for seconds.
THREADS = {"ingest": 1, "poll": 1, "permit": 4, "gate": 16}
QUEUE_LIMIT = 256
UNPRIVILEGED = ("nodevet", "nobody")


class Address(msgspec.Struct, frozen=True, kw_only=True):
    """Where the central service is and how to prove who we are."""

    url: str
    token_file: str = ""
    ca_file: str = ""


@dataclass(frozen=True, slots=True)
class _Question:
    frame: Frame
    deadline: float


def serve(sock: socket.socket) -> None:
    """Be the uplink process until the agent is gone."""
    Worker(Pipe(sock)).run()


class Worker:
    """Reads questions and hands each to a thread of its kind; an answer names its question."""

    def __init__(self, pipe: Pipe) -> None:
        self._pipe = pipe
        self._lock = threading.Lock()
        self._queues: dict[str, queue.Queue[_Question]] = {}
        self._threads: dict[str, int] = {}
        self._idle: dict[str, int] = {}
        self._connect: Callable[[], object] | None = None

    def run(self) -> None:
        """Serve until the other end closes; threads that hang end with the process."""
        while (frames := self._pipe.receive()) is not None:
            for frame in frames:
                if frame.op == "configure":
                    self._configure(frame)
                elif frame.op in THREADS:
                    self._take(frame)
                else:
                    self._answer(Frame(frame.id, "bad_answer", f"no such request {frame.op}"))

    def _configure(self, frame: Frame) -> None:
        """Read token and certificates while we may, then drop to a user that owns nothing."""
        from daemon import central

        try:
            address = msgspec.msgpack.decode(frame.body, type=Address)
            token = _read_token(address.token_file)
            tls = central.tls_context(address.ca_file) if address.url.startswith("https") else None
            central.Central(address.url, token, tls=tls)
            _drop_privileges()
        except (OSError, central.CentralError, msgspec.MsgspecError) as error:
            self._connect = None
            self._answer(Frame(frame.id, "not_allowed", f"uplink not configured: {error}"))
            return
        self._connect = lambda: central.Central(address.url, token, tls=tls)
        self._answer(Frame(frame.id, "ok"))

    def _take(self, frame: Frame) -> None:
        waiting = self._queues.setdefault(frame.op, queue.Queue(QUEUE_LIMIT))
        try:
            waiting.put_nowait(_Question(frame, time.monotonic() + frame.number))
        except queue.Full:
            self._answer(Frame(frame.id, "unreachable", f"{QUEUE_LIMIT} questions wait already"))
            return
        if self._threads.get(frame.op, 0) < THREADS[frame.op] and waiting.qsize() > self._idle.get(frame.op, 0):
            self._threads[frame.op] = self._threads.get(frame.op, 0) + 1
            threading.Thread(target=self._work, args=(frame.op, waiting), daemon=True).start()

    def _work(self, op: str, waiting: queue.Queue[_Question]) -> None:
        from daemon.central import Central

        client: Central | None = None
        while True:
            with self._lock:
                self._idle[op] = self._idle.get(op, 0) + 1
            question = waiting.get()
            with self._lock:
                self._idle[op] -= 1
            if client is None and self._connect is not None:
                made = self._connect()
                client = made if isinstance(made, Central) else None
            self._answer(_ask(client, question))

    def _answer(self, frame: Frame) -> None:
        with self._lock:
            try:
                self._pipe.send(frame)
            except OSError:
                os._exit(0)


def _ask(client: object, question: _Question) -> Frame:
    """One exchange; every failure has the word of its kind."""
    from daemon import central

    frame, left = question.frame, question.deadline - time.monotonic()
    if not isinstance(client, central.Central):
        return Frame(frame.id, "not_allowed", "uplink is not configured")
    if left <= 0:
        return Frame(frame.id, "unreachable", "question came too late to be asked")
    try:
        return Frame(frame.id, "ok", body=_exchange(client, frame, left))
    except central.NotAllowed as error:
        return Frame(frame.id, "not_allowed", str(error))
    except central.Refused as error:
        return Frame(frame.id, "refused", str(error), number=error.problem.status)
    except central.BadAnswer as error:
        return Frame(frame.id, "bad_answer", str(error))
    except Exception as error:
        client.close()
        return Frame(frame.id, "unreachable", str(error) or type(error).__name__)


def _exchange(client: object, frame: Frame, left: float) -> bytes:
    from daemon.central import Central

    assert isinstance(client, Central)
    client.timeout = left
    if frame.op == "ingest":
        return msgspec.json.encode(client.ingest_raw(frame.body))
    if frame.op == "poll":
        request = msgspec.json.decode(frame.body, type=PollRequest)
        client.timeout = max(1.0, left - request.wait)
        return msgspec.json.encode(client.poll(request))
    if frame.op == "permit":
        return msgspec.json.encode(client.permit(msgspec.json.decode(frame.body, type=PermitRequest)))
    return msgspec.json.encode(client.gate(msgspec.json.decode(frame.body, type=GateRequest)))


def _read_token(path: str) -> str:
    if not path:
        return ""
    with open(path, encoding="utf-8") as file:
        token = file.read(4096).strip()
    if not token or not token.isprintable():
        raise OSError(f"token file {path} holds no token")
    return token


def _drop_privileges() -> None:
    """Become a user that owns nothing; /etc/passwd is read directly, since a directory service may hang."""
    if os.geteuid() != 0:
        return
    with open("/etc/passwd", encoding="utf-8", errors="replace") as file:
        users = {fields[0]: fields for line in file if len(fields := line.split(":")) >= 4}
    for name in UNPRIVILEGED:
        if name in users:
            os.setgroups([])
            os.setgid(int(users[name][3]))
            os.setuid(int(users[name][2]))
            return
