"""The agent's unix socket speaks HTTP/1.1, one bounded request a connection, and users cannot crowd out Slurm."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import logging
import os
import socket
from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path

import h11

from daemon.agent.loose import Loose
from daemon.agent.peers import Peer, peer_of

log = logging.getLogger(__name__)
BACKLOG = 4096
BODY_LIMIT = 256 * 1024
HEADER_LIMIT = 16 * 1024
PER_USER = 8
ALL_USERS = 64
SEND_WITHIN = 10.0  # seconds for a request to arrive as a whole, and for an answer to be taken
TOTAL_LIMIT = 300.0
ACCEPTS = 256  # taken in one go, so that a flood leaves time for everything else
ACCEPT_AGAIN = 1.0
_REASONS = {200: b"OK", 400: b"Bad Request", 403: b"Forbidden", 404: b"Not Found", 405: b"Method Not Allowed",
            408: b"Request Timeout", 413: b"Content Too Large", 503: b"Service Unavailable"}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Request:
    """One whole request and who sent it."""

    method: str
    path: str
    headers: dict[str, str]
    body: bytes
    peer: Peer
    oversize: bool = False


@dataclass(frozen=True, slots=True)
class Response:
    """What goes back."""

    status: int
    body: bytes
    headers: tuple[tuple[str, str], ...] = ()
    kind: str = "text/plain; charset=utf-8"


Handler = Callable[[Request], Awaitable[Response]]
Privileged = Callable[[Peer], bool]

# Beside the socket for everybody lies one that only root can reach: no flood of users stands in its queue.
HOOK_SUFFIX = ".hook"
EVERYBODY = 0o666
ROOT_ONLY = 0o600


@dataclass(slots=True)
class Doors:
    """Open connections per uid; those who speak for Slurm always get in."""

    privileged: Privileged
    per_user: int = PER_USER
    all_users: int = ALL_USERS
    turned_away: int = 0
    _open: Counter[int] = field(default_factory=Counter)

    def enter(self, peer: Peer) -> bool:
        """Count a new connection, False when its user has too many already."""
        if self.privileged(peer):
            return True
        if self._open[peer.uid] >= self.per_user or self._open.total() >= self.all_users:
            self.turned_away += 1
            return False
        self._open[peer.uid] += 1
        return True

    def leave(self, peer: Peer) -> None:
        """A connection that had entered is gone."""
        if not self.privileged(peer):
            self._open[peer.uid] -= 1
            if self._open[peer.uid] <= 0:
                del self._open[peer.uid]


class Connection(asyncio.Protocol):
    """One client: a request is read within its bounds, handed over, answered, and the connection closed."""

    def __init__(self, handler: Handler, doors: Doors, peer: Peer) -> None:
        self._handler, self._doors, self._peer = handler, doors, peer
        self._http = h11.Connection(h11.SERVER, max_incomplete_event_size=HEADER_LIMIT)
        self._transport: asyncio.Transport | None = None
        self._request: h11.Request | None = None
        self._body = bytearray()
        self._oversize = False
        self._task: asyncio.Task[None] | None = None
        self._timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        self._timer = asyncio.get_running_loop().call_later(SEND_WITHIN, self._too_slow)

    def connection_lost(self, error: Exception | None) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._doors.leave(self._peer)
        # The work goes on when its asker has gone: a hook that asks again gets the same answer.

    def data_received(self, data: bytes) -> None:
        if self._task is not None or self._transport is None:
            return
        try:
            self._http.receive_data(data)
            while (event := self._http.next_event()) not in (h11.NEED_DATA, h11.PAUSED):
                if self._took(event):
                    return
        except h11.RemoteProtocolError as error:
            self._answer(Response(error.error_status_hint, b"not a request of this service\n"))

    def eof_received(self) -> bool:
        """A client may close its sending side and still wait for its answer."""
        return self._task is not None

    def _took(self, event: object) -> bool:
        """Take one event in; True once the request is whole and under way."""
        if isinstance(event, h11.Request):
            self._request = event
        elif isinstance(event, h11.Data):
            if len(self._body) + len(event.data) > BODY_LIMIT:
                self._oversize = True
            if len(self._body) + len(event.data) > 4 * BODY_LIMIT:
                self._answer(Response(413, f"body of more than {BODY_LIMIT} bytes\n".encode()))
                return True
            self._body += event.data
        elif isinstance(event, h11.EndOfMessage):
            self._begin()
            return True
        elif isinstance(event, h11.ConnectionClosed):
            self._close()
            return True
        return False

    def _begin(self) -> None:
        assert self._request is not None
        headers = {k.decode("latin-1").lower(): v.decode("latin-1") for k, v in self._request.headers}
        path = self._request.target.decode("latin-1").partition("?")[0]
        method = self._request.method.decode("latin-1")
        request = Request(method, path, headers, bytes(self._body[:BODY_LIMIT]), self._peer, self._oversize)
        if self._timer is not None:
            self._timer.cancel()
        self._timer = asyncio.get_running_loop().call_later(TOTAL_LIMIT, self._close)
        self._task = asyncio.ensure_future(self._serve(request))

    async def _serve(self, request: Request) -> None:
        try:
            response = await self._handler(request)
        except Exception:
            log.exception("event=request_failed path=%r uid=%d", request.path[:64], self._peer.uid)
            # A hook must be let through whatever happened here; for anybody else this header means nothing.
            response = Response(200, b"nodevet: internal error, job admitted\n", (("Nodevet-Exit", "0"),))
        self._answer(response)

    def _answer(self, response: Response) -> None:
        transport = self._transport
        if transport is None or transport.is_closing():
            return
        headers = [("Content-Type", response.kind), ("Content-Length", str(len(response.body))), *response.headers]
        headers.append(("Connection", "close"))
        reason = _REASONS.get(response.status, b"Error")
        with contextlib.suppress(h11.LocalProtocolError):
            head = self._http.send(h11.Response(status_code=response.status, headers=headers, reason=reason))
            data = self._http.send(h11.Data(data=response.body))
            transport.write((head or b"") + (data or b"") + (self._http.send(h11.EndOfMessage()) or b""))
        if self._timer is not None:
            self._timer.cancel()
        self._timer = asyncio.get_running_loop().call_later(SEND_WITHIN, transport.abort)
        transport.close()

    def _too_slow(self) -> None:
        self._answer(Response(408, f"request did not arrive within {SEND_WITHIN:g} s\n".encode()))

    def _close(self) -> None:
        if self._transport is not None:
            self._transport.close()


class Door:
    """One bound socket: its path, its inode, and who was there before (0: nobody)."""

    def __init__(self, path: Path, sock: socket.socket, inode: int, predecessor: int) -> None:
        self.path, self.inode, self.predecessor = path, inode, predecessor
        self._sock = sock
        self._loose = Loose()

    @property
    def ours(self) -> bool:
        """Whether the path still leads to us."""
        try:
            return os.stat(self.path).st_ino == self.inode
        except OSError:
            return False

    def serve(self, handler: Handler, doors: Doors) -> None:
        """Take connections from now on; who is one too many is turned away before anything is made for him."""
        loop = asyncio.get_running_loop()
        self._sock.listen(BACKLOG)
        loop.add_reader(self._sock, self._accept, loop, handler, doors)

    def _accept(self, loop: asyncio.AbstractEventLoop, handler: Handler, doors: Doors) -> None:
        for _ in range(ACCEPTS):
            try:
                sock, _ = self._sock.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError as error:
                log.error("event=accept_failed error=%r", error.strerror)
                loop.remove_reader(self._sock)
                loop.call_later(ACCEPT_AGAIN, self.serve, handler, doors)
                return
            peer = peer_of(sock)
            if doors.enter(peer):
                sock.setblocking(False)
                self._loose.spawn(_connect(loop, sock, peer, handler, doors))
            else:
                sock.close()

    def close(self) -> None:
        """Listen no more; the path is removed only while it is ours."""
        if self.ours:
            with contextlib.suppress(OSError):
                self.path.unlink()
        if self._sock.fileno() >= 0:
            asyncio.get_running_loop().remove_reader(self._sock)
            self._sock.close()


async def _connect(
    loop: asyncio.AbstractEventLoop, sock: socket.socket, peer: Peer, handler: Handler, doors: Doors
) -> None:
    try:
        await loop.connect_accepted_socket(lambda: Connection(handler, doors, peer), sock)
    except BaseException:
        doors.leave(peer)
        sock.close()
        raise


def open_door(path: Path, *, mode: int) -> Door:
    """Bind a fresh socket and rename it over ``path``: no lock that an unreapable predecessor could hold."""
    if not path.parent.is_dir():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.parent.chmod(0o755)  # everybody may ask for the status, whatever our umask is
    predecessor = _predecessor(path)
    fresh = path.with_name(f".{path.name[:40]}.{os.getpid()}")
    with contextlib.suppress(FileNotFoundError):
        fresh.unlink()
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        sock.setblocking(False)
        sock.bind(str(fresh))
        os.chmod(fresh, mode)
        sock.listen(BACKLOG)
        inode = os.stat(fresh).st_ino
        os.rename(fresh, path)
    except OSError:
        sock.close()
        with contextlib.suppress(OSError):
            fresh.unlink()
        raise
    return Door(path, sock, inode, predecessor)


def _predecessor(path: Path) -> int:
    """The pid of whoever still listens at ``path``, 0 when nobody does."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as sock:
        sock.setblocking(False)
        try:
            sock.connect(str(path))
        except OSError as error:
            return -1 if error.errno == errno.EAGAIN else 0
        return peer_of(sock).pid
