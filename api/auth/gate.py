"""Every request passes here: the host it names, its size, its token; every answer leaves with security headers."""

from __future__ import annotations

import asyncio
import time
from collections import OrderedDict
from concurrent.futures import ThreadPoolExecutor

from starlette.requests import ClientDisconnect, Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from api.auth.hosts import host_allowed
from api.auth.principal import Principal, principal_of
from api.auth.throttle import Throttle
from api.problems import Forbidden, Problem, TooLarge, Unauthorized, document, problem_of
from api.settings import ServerSettings
from api.store.store import Store
from api.store.tokens import digest

# A token revoked by another process is refused after this long at the latest.
BELIEVE_SECONDS = 2.0
BELIEVED = 20_000
LOOKUPS = 2
SLOW_DOWN = 0.25
SLOW_AT_ONCE = 64
INGEST = "/api/v1/ingest"
_HEADERS = [
    (b"x-content-type-options", b"nosniff"),
    (b"x-frame-options", b"DENY"),
    (b"referrer-policy", b"no-referrer"),
    (b"cache-control", b"no-store"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"content-security-policy", b"default-src 'none'; frame-ancestors 'none'"),
]


NOBODY = Principal("nobody")


class BadToken(Unauthorized):
    """A token that is unknown, expired or revoked."""


class Gate:
    """ASGI middleware; leaves the principal in ``scope["state"]["principal"]``."""

    def __init__(self, app: ASGIApp, store: Store, settings: ServerSettings) -> None:
        self._app = app
        self._store = store
        self._settings = settings
        self._throttle = Throttle()
        self._known: OrderedDict[str, tuple[float, Principal]] = OrderedDict()
        self._slowed = 0
        # Threads of its own: who asks must be known however long Slurm keeps the others waiting.
        self._threads = ThreadPoolExecutor(LOOKUPS, thread_name_prefix="auth")
        self.refusals = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Let the request through, or answer it here; whatever is raised inside becomes one problem document."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        request = Request(scope)
        answer = _Answer(send, https=bool(self._settings.tls_cert))
        scope.setdefault("state", {})["gate"] = self
        try:
            self._admit_host(request)
            limit = self._settings.ingest_limit if scope["path"] == INGEST else self._settings.body_limit
            scope["state"]["principal"] = await self._principal(request)
            await self._app(scope, _bounded(request, receive, limit), answer.send)
        except ClientDisconnect:
            return
        except Exception as error:
            problem = problem_of(error)
            await self._note(problem, request)
            if not answer.started:
                await document(problem)(scope, receive, answer.send)

    async def _note(self, problem: Problem, request: Request) -> None:
        """Audit a refusal of something asked for; a bad token has been noted before."""
        if isinstance(problem, Unauthorized | Forbidden) and not isinstance(problem, BadToken):
            principal: Principal = request.scope["state"].get("principal", NOBODY)
            address = request.client.host if request.client else "unknown"
            actor = principal.name if principal.role else f"nobody at {address}"
            await self.refused(actor, problem.detail, request)

    def _admit_host(self, request: Request) -> None:
        if not host_allowed(request.headers.get("host", ""), self._settings):
            raise Problem("the Host header does not name this server", status=421)

    async def _principal(self, request: Request) -> Principal:
        header = request.headers.get("authorization")
        if header is None:
            return self._without_token()
        scheme, _, secret = header.partition(" ")
        if scheme.lower() != "bearer":
            raise await self._slow(request)
        if principal := await self._by_secret(secret.strip()):
            return principal
        raise await self._slow(request)

    def _without_token(self) -> Principal:
        if self._settings.loopback and self._settings.open_reads_on_loopback:
            return Principal("loopback", "viewer", scopes=frozenset({"read"}))
        return NOBODY

    async def _by_secret(self, secret: str) -> Principal | None:
        key, now = digest(secret), time.monotonic()
        believed = self._known.get(key)
        if believed is not None and now - believed[0] < BELIEVE_SECONDS:
            return believed[1]
        token = await asyncio.get_running_loop().run_in_executor(self._threads, self._store.find_token, secret)
        if token is None:
            self._known.pop(key, None)
            return None
        principal = principal_of(token)
        self._known[key] = (now, principal)
        self._known.move_to_end(key)
        while len(self._known) > BELIEVED:
            self._known.popitem(last=False)
        return principal

    def forget_tokens(self) -> None:
        """Believe no token without asking the store; called when one is revoked here."""
        self._known.clear()

    async def _slow(self, request: Request) -> Problem:
        """Make a guess cost time, as long as the waiting itself stays bounded."""
        address = request.client.host if request.client else "unknown"
        wait = self._throttle.failed(address)
        await self.refused("unknown token", address, request)
        if self._slowed < SLOW_AT_ONCE:
            self._slowed += 1
            try:
                await asyncio.sleep(SLOW_DOWN)
            finally:
                self._slowed -= 1
        if wait:
            return Problem("too many bad tokens", status=429, headers={"Retry-After": f"{wait:.0f}"})
        return BadToken("token is unknown, expired or revoked")

    async def refused(self, actor: str, detail: str, request: Request) -> None:
        """Audit a refusal, within bounds."""
        self.refusals += 1
        if self._throttle.may_audit():
            left_out, self._throttle.unaudited = self._throttle.unaudited, 0
            more = f"; {left_out} refusals before it not listed" if left_out else ""
            subject = f"{request.method} {request.url.path}"
            line = (actor, "refused", subject, detail + more)
            await asyncio.get_running_loop().run_in_executor(self._threads, self._store.audit, *line)


def _bounded(request: Request, receive: Receive, limit: int) -> Receive:
    """Count what comes in, whatever Content-Length says."""
    declared = request.headers.get("content-length", "0")
    if declared.isascii() and declared.isdigit() and int(declared[:19]) > limit:
        raise TooLarge(f"body of {declared[:19]} bytes, limit is {limit}")
    seen = 0

    async def counted() -> Message:
        nonlocal seen
        message = await receive()
        seen += len(message.get("body", b""))
        if seen > limit:
            raise TooLarge(f"body is larger than {limit} bytes")
        return message

    return counted


class _Answer:
    """Adds the security headers to an answer and remembers whether it has begun."""

    def __init__(self, send: Send, *, https: bool) -> None:
        self._send = send
        self._extra = [*_HEADERS, (b"strict-transport-security", b"max-age=31536000")] if https else _HEADERS
        self.started = False

    async def send(self, message: Message) -> None:
        """Pass one message on."""
        if message["type"] == "http.response.start":
            self.started = True
            present = {name.lower() for name, _ in message.get("headers", [])}
            message["headers"] = [*message.get("headers", []), *(e for e in self._extra if e[0] not in present)]
        await self._send(message)
