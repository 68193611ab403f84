"""The outbox process does all disk work of the outbox, so that a hanging state directory holds up nobody else."""

from __future__ import annotations

import errno
import os
import socket
import time
from pathlib import Path

import msgspec

from daemon.agent.frames import Frame, Pipe
from daemon.outbox.segments import Record
from daemon.outbox.spool import Spool, put

GROUP_COMMIT = 1.0
DOCUMENTS = ("leases", "identity", "rest", "remedies")


class Opening(msgspec.Struct, frozen=True):
    """What the outbox process found when it opened the spool."""

    earlier: tuple[str, ...] = ()
    waiting: int = 0
    torn: int = 0
    refusals: tuple[bytes, ...] = ()
    documents: dict[str, bytes] = {}


def serve(sock: socket.socket) -> None:
    """Be the outbox process until the agent is gone."""
    Writer(Pipe(sock)).run()


class Writer:
    """Appends, commits within a second or at once, reads back and acknowledges, one request after the other."""

    def __init__(self, pipe: Pipe) -> None:
        self._pipe = pipe
        self._spool: Spool | None = None
        self._uncommitted: list[int] = []
        self._commit_at: float | None = None

    def run(self) -> None:
        """Serve until the other end closes, then commit what is left."""
        while True:
            left = None if self._commit_at is None else max(0.001, self._commit_at - time.monotonic())
            frames = self._pipe.receive(left)
            if frames is None:
                break
            for frame in frames:
                self._answer(frame)
            if self._commit_at is not None and time.monotonic() >= self._commit_at:
                self._commit()
        if self._spool is not None:
            self._spool.commit()

    def _answer(self, frame: Frame) -> None:
        try:
            answer = self._do(frame)
        except OSError as error:
            answer = _error(frame.id, error)
        if answer is not None:
            self._pipe.send(answer)

    def _do(self, frame: Frame) -> Frame | None:
        if frame.op == "open":
            root, _, incarnation = frame.text.rpartition("\n")
            return self._open(frame, Path(root), incarnation)
        if (spool := self._spool) is None:
            raise OSError(errno.ENODEV, "spool is not open")
        if frame.op in ("append", "keep"):
            return self._append(spool, frame)
        if frame.op == "read":
            records = spool.read(frame.text, int(frame.number))
            body = msgspec.msgpack.encode([(r.sequence, r.payload) for r in records])
            return Frame(frame.id, "ok", number=spool.lost, body=body)
        if frame.op == "acknowledge":
            spool.acknowledge(frame.text, int(frame.number))
            return Frame(frame.id, "ok", number=spool.lost)
        if frame.op == "put" and frame.text in DOCUMENTS:
            put(spool.root / frame.text, frame.body)
            return Frame(frame.id, "ok")
        raise OSError(errno.EINVAL, f"no such request {frame.op}")

    def _open(self, frame: Frame, root: Path, incarnation: str) -> Frame:
        spool = Spool(root, incarnation)
        spool.open()
        self._spool = spool
        found = Opening(
            earlier=tuple(spool.earlier()),
            waiting=sum(spool.waiting(name) for name in spool.earlier()),
            torn=spool.torn,
            refusals=tuple(spool.refusals),
            documents=_documents(root),
        )
        return Frame(frame.id, "ok", body=msgspec.msgpack.encode(found))

    def _append(self, spool: Spool, frame: Frame) -> Frame | None:
        keep = frame.op == "keep"
        spool.append(Record(int(frame.number), frame.body, keep))
        if keep:
            self._commit()
            return Frame(frame.id, "ok", number=spool.lost)
        self._uncommitted.append(frame.id)
        if self._commit_at is None:
            self._commit_at = time.monotonic() + GROUP_COMMIT
        return None

    def _commit(self) -> None:
        """One fsync for everything that waits for one."""
        waiting, self._uncommitted, self._commit_at = self._uncommitted, [], None
        assert self._spool is not None
        try:
            self._spool.commit()
        except OSError as error:
            for number in waiting:
                self._pipe.send(_error(number, error))
            raise
        for number in waiting:
            self._pipe.send(Frame(number, "ok", number=self._spool.lost))


def _error(number: int, error: OSError) -> Frame:
    return Frame(number, "error", errno.errorcode.get(error.errno or 0, "EIO") + f": {os.strerror(error.errno or 5)}")


def _documents(root: Path) -> dict[str, bytes]:
    found: dict[str, bytes] = {}
    for name in DOCUMENTS:
        try:
            found[name] = (root / name).read_bytes()[: 256 * 1024]
        except OSError:
            continue
    return found
