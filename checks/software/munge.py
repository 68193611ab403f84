"""MUNGE makes a credential and reads it again."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass

from checks.declare import Skip, check, code, ok
from checks.host import Host
from checks.software.sockets import Talk
from checks.wire import Finding

CONFIRM = "Confirm: `munge -n | unmunge`, `systemctl status munge`, /var/log/munge/munged.log. "
DOWN = code(
    "munge_down",
    "fail",
    "node",
    "munged is required and does not run: {error}",
    explain="Without it slurmd cannot prove who it is and no job can start. "
    + CONFIRM
    + "Do: start munge; look at the "
    "owner and mode of /etc/munge, its key and its socket's folder.",
)
SILENT = code(
    "munge_silent",
    "warn",
    "node",
    "munged does not answer: {error}",
    explain="Its socket is there and nobody serves it in time. " + CONFIRM + "Do: start munge, or remove what is left "
    "of it where Slurm uses another method.",
)
REFUSES = code(
    "munge_refuses",
    "warn",
    "node",
    "munged could not {verb} a credential: {error}",
    explain="The credential was of this very node, so neither key nor clock of another one plays a part. "
    + CONFIRM
    + "Do: restart munge.",
)
CLOCK = code(
    "munge_clock_stepped",
    "warn",
    "config",
    "munged says {error}: the clock stepped between making and reading",
    explain="Rewound and expired credentials are a matter of the clock and never of MUNGE. "
    "Confirm: `chronyc tracking`, `unmunge` shows the times. Do: repair the time service.",
)
SOCKET = "/run/munge/munge.socket.2"
MAGIC, VERSION = 0x0060_6D4B, 4
ENCODE, ENCODED, DECODE, DECODED = 2, 3, 4, 5
_HEAD = struct.Struct(">IBBBI")
_NOBODY = 0xFFFF_FFFF
"""Any user may read it."""
_DEFAULT = 1
"""Cipher, digest and compression as munged is set up."""
_EXPIRED, _REWOUND = 15, 16
_ANSWER_LIMIT = 64 * 1024


@dataclass(frozen=True, slots=True)
class Answer:
    """munged's error number and its words, and what it gave."""

    error: int
    words: str
    rest: bytes


@check(lane="munge", interval=600, timeout=5.0, codes=(DOWN, SILENT, REFUSES, CLOCK))
def munge(host: Host, *, socket: str = SOCKET, required: bool = False, seconds: float = 2.0) -> Iterator[Finding]:
    """A credential without content is made and read by the node's own munged, as slurmd does with each message.

    Where no munged ever ran there is nothing to judge unless it is ``required``. Another node's key or clock is not
    seen here: the clock has a check of its own. Confirm by hand: ``munge -n | unmunge``.

    ``socket``: of the daemon. ``seconds``: how long one answer may take.
    """
    try:
        made = _ask(host, socket, seconds, ENCODE, _request())
        if made.error:
            yield REFUSES("munge", verb="make", error=made.words or str(made.error), number=made.error)
            return
        read = _ask(host, socket, seconds, DECODE, made.rest)
    except FileNotFoundError:
        if not required:
            raise Skip(f"no munged has made {socket}") from None
        yield DOWN("munge", error=f"no socket {socket}")
    except ConnectionRefusedError:
        yield (DOWN if required else SILENT)("munge", error="connection refused")
    except (TimeoutError, ConnectionError, EOFError) as error:
        yield SILENT("munge", error=str(error) or type(error).__name__)
    else:
        yield _judge(read)


def _judge(read: Answer) -> Finding:
    if read.error in (_EXPIRED, _REWOUND):
        return CLOCK("munge", error=read.words or str(read.error), number=read.error)
    if read.error:
        return REFUSES("munge", verb="read", error=read.words or str(read.error), number=read.error)
    return ok("munge", "credential made and read")


def _request() -> bytes:
    """Body of a request for a credential: no realm, default life, for anybody, no content."""
    return struct.pack(">BBBBIIII", _DEFAULT, _DEFAULT, _DEFAULT, 0, 0, _NOBODY, _NOBODY, 0)


def _ask(host: Host, path: str, seconds: float, kind: int, body: bytes) -> Answer:
    """One request and its answer, by munge's own protocol; the rest of a made credential is what a reader is sent."""
    with Talk(host, path, seconds) as talk:
        talk.send(_HEAD.pack(MAGIC, VERSION, kind, 0, len(body)) + body)
        magic, version, given, _, length = _HEAD.unpack(talk.take(_HEAD.size))
        if (magic, version, given) != (MAGIC, VERSION, kind + 1) or not 2 <= length <= _ANSWER_LIMIT:
            raise ValueError(f"munged answered with version {version}, message {given} of {length} bytes")
        answer = talk.take(length)
    error, size = answer[0], answer[1]
    return Answer(error, answer[2 : 2 + size].rstrip(b"\0").decode("utf-8", "replace"), answer[2 + size :])
