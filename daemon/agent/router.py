"""Each path of the socket has one owner of rights and one answer."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import cast

import msgspec

from checks.wire import CheckReport, Limits, Occasion
from daemon.agent.answers import Answer
from daemon.agent.budget import Budget, budget
from daemon.agent.peers import Rights
from daemon.agent.socket_server import BODY_LIMIT, Request, Response
from daemon.agent.status import Status
from daemon.config import AgentSettings

log = logging.getLogger(__name__)
JSON = "application/json"
LINE_LIMIT = 400
HOOKS = {"/v1/prolog": "prolog", "/v1/epilog": "epilog", "/v1/health": "health"}
UNKILLABLE = "/v1/unkillable"


class CheckRequest(msgspec.Struct, frozen=True):
    """POST /v1/check: names of checks, none = all."""

    checks: tuple[str, ...] = ()


@dataclass(slots=True)
class Router:
    """From a request to a response."""

    settings: AgentSettings
    rights: Rights
    limits: Callable[[], Limits | None]
    hook: Callable[[Occasion, bytes, Budget], Awaitable[Answer]]
    status: Callable[[], Status]
    check: Callable[[tuple[str, ...]], Awaitable[CheckReport]]
    task: Callable[[int, bytes], Answer]
    unkillable: Callable[[bytes], Awaitable[Answer]]

    async def __call__(self, request: Request) -> Response:
        """Answer one request; a hook always gets 200 unless its sender may not ask."""
        if request.path in HOOKS or request.path == UNKILLABLE:
            return await self._hook(request)
        if request.path == "/v1/taskprolog" and request.method == "POST":
            return _answered(self.task(request.peer.uid, request.body))
        if request.path == "/v1/status":
            if request.method not in ("GET", "HEAD"):
                return _plain(405, "status is read with GET")
            return Response(200, msgspec.json.encode(self.status()) + b"\n", kind=JSON)
        if request.path == "/v1/check":
            return await self._check(request)
        return _plain(404, "paths: /v1/prolog /v1/epilog /v1/health /v1/unkillable /v1/taskprolog /v1/status /v1/check")

    async def _hook(self, request: Request) -> Response:
        if not self.rights.hooks(request.peer):
            log.warning("event=hook_forbidden uid=%d path=%s", request.peer.uid, request.path)
            return _plain(403, f"uid {request.peer.uid} does not speak for Slurm")
        if request.method != "POST":
            return _plain(405, "hooks use POST")
        if request.oversize:
            log.error("event=environment_too_large limit=%d path=%s", BODY_LIMIT, request.path)
            return _answered(Answer(0, f"nodevet: environment of more than {BODY_LIMIT} bytes, nothing was decided"))
        if request.headers.get("nodevet-truncated"):
            log.warning("event=environment_cut path=%s", request.path)
        if request.path == UNKILLABLE:
            return _answered(await self.unkillable(request.body))
        asked = budget(self.settings, self.limits(), request.headers.get("nodevet-remaining"))
        kind = cast(Occasion, HOOKS[request.path])
        try:
            return _answered(await self.hook(kind, request.body, asked))
        except Exception:
            log.exception("event=hook_failed hook=%s", kind)
            return _answered(Answer(0, "nodevet: internal error, nothing was decided; see the agent's log"))

    async def _check(self, request: Request) -> Response:
        if not self.rights.checks(request.peer):
            return _plain(403, f"uid {request.peer.uid} may not have checks run: root or group {self.settings.group}")
        if request.method != "POST":
            return _plain(405, "checks are run with POST")
        try:
            wanted = msgspec.json.decode(request.body or b"{}", type=CheckRequest)
        except (msgspec.MsgspecError, UnicodeDecodeError) as error:
            return _plain(400, f"body: {error}")
        try:
            return Response(200, msgspec.json.encode(await self.check(wanted.checks)) + b"\n", kind=JSON)
        except KeyError as error:
            return _plain(400, f"no check {error} is asked on this node")


def _plain(status: int, text: str) -> Response:
    return Response(status, (text + "\n").encode())


def _answered(answer: Answer) -> Response:
    """One line, cut between characters."""
    line = answer.line.encode("utf-8", "replace")[:LINE_LIMIT].decode("utf-8", "ignore")
    return Response(200, (line + "\n").encode(), (("Nodevet-Exit", str(answer.exit)),))
