"""What goes in and out beside the wire's own values, and how it is described in OpenAPI."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable, Coroutine
from typing import Annotated, Any, Generic, Literal, TypeVar

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from api.hot.body import check_kind
from api.ports import DrainRow, DrainView
from api.problems import Problem, Unacceptable
from api.service_port import ServiceView
from api.store.views import AttributionView, NodeView, ReportView, StartsView, TokenView
from checks.wire import Finding, Limits, NodeFacts

T = TypeVar("T")
Name = Annotated[str, msgspec.Meta(min_length=1, max_length=128, pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$")]
Words = Annotated[str, msgspec.Meta(max_length=2000)]
Hostlist = Annotated[str, msgspec.Meta(min_length=1, max_length=1_000_000)]
RowId = Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)]


class Page(msgspec.Struct, Generic[T], frozen=True, kw_only=True):
    """Some rows, and the cursor for those behind them; None at the end."""

    items: list[T]
    next: str | None = None


class NodeDetail(NodeView, frozen=True, kw_only=True):
    """One node with all that is known of it."""

    findings: tuple[Finding, ...]
    drain: DrainView | None
    standing: ServiceView | None
    inventory: NodeFacts | None
    reports: list[ReportView]
    began: list[AttributionView]


class DrainBody(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Drain a host list for a reason."""

    nodes: Hostlist
    reason: Annotated[str, msgspec.Meta(min_length=1, max_length=160)]


class PreviewBody(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Show what a drain or resume would do."""

    nodes: Hostlist
    verb: Literal["drain", "resume"] = "drain"


class ResumeBody(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Give a host list back, after verification unless told otherwise."""

    nodes: Hostlist
    verify: bool = True
    force: bool = False


class UndoBody(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Undo an operation, by default the asker's last; ``dry_run``: only say what that would do."""

    operation: RowId | None = None
    dry_run: bool = False


class CheckBody(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Ask an agent to check again; no names = all checks."""

    kind: Literal["check", "verify", "stop-testing"] = "check"
    checks: Annotated[tuple[Name, ...], msgspec.Meta(max_length=256)] = ()


class AckBody(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Take an incident on, with a note for others."""

    note: Words = ""


class TokenMade(TokenView, frozen=True, kw_only=True):
    """A new token; the secret is shown this once."""

    secret: str


class DrainRows(msgspec.Struct, frozen=True, kw_only=True):
    """What was done, or would be, node by node; ``operation``: the number by which it can be undone."""

    items: list[DrainRow]
    operation: int | None = None

    @classmethod
    def of(cls, rows: list[DrainRow]) -> DrainRows:
        """The rows with the operation that they belong to."""
        return cls(items=rows, operation=next((r.operation for r in rows if r.operation is not None), None))


class Coverage(msgspec.Struct, frozen=True, kw_only=True):
    """How much of the cluster is vetted: nodes of Slurm with a fresh agent, and those without (the first 1,000).

    ``jobs``: the starts of jobs within the time asked for, and why some were not answered in full.
    """

    nodes: int
    fresh: int
    stale: tuple[str, ...]
    without_agent: tuple[str, ...]
    no_data: tuple[str, ...]
    limits: Limits
    counters: dict[str, float]
    jobs: StartsView


class Health(msgspec.Struct, frozen=True, kw_only=True):
    """Whether the service works, part by part."""

    status: Literal["ok", "not ready"]
    database: str = "ok"
    controller: str = "ok"
    slurm: str = ""


SHAPES: dict[str, Any] = {}


def reply(value: object, status: int = 200) -> Response:
    """Any value of ours as JSON."""
    return Response(msgspec.json.encode(value), status, media_type="application/json")


def paged(rows: list[T], limit: int, mark: Callable[[T], object]) -> Response:
    """One page; ``mark`` gives the place of its last row."""
    return reply(Page(items=rows, next=to_cursor(mark(rows[-1])) if len(rows) == limit else None))


def to_cursor(place: object) -> str:
    """A place in an order, as opaque text."""
    return base64.urlsafe_b64encode(msgspec.json.encode(place)).decode().rstrip("=")


def from_cursor(cursor: str | None, kind: type[T]) -> T | None:
    """The place that a cursor of ours means."""
    if cursor is None:
        return None
    try:
        return msgspec.json.decode(base64.urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4)), type=kind)
    except (binascii.Error, ValueError, RecursionError) as error:
        raise Unacceptable("cursor is not one of ours") from error


def row_cursor(cursor: str | None) -> int | None:
    """The place in an order of row numbers."""
    place = from_cursor(cursor, int)
    if place is not None and not 0 <= place < 2**63:
        raise Unacceptable("cursor is not one of ours")
    return place


def body(kind: type[T]) -> Callable[[Request], Coroutine[Any, Any, T]]:
    """A dependency that reads the request's body as ``kind``."""

    async def parsed(request: Request) -> T:
        data = await request.body()
        if data and check_kind(request.headers):
            raise Problem("content encoding gzip is for agents only", status=415)
        return msgspec.json.decode(data or b"{}", type=kind)

    return parsed


def answers(kind: Any, *, status: int = 200, takes: Any = None) -> dict[str, Any]:
    """Keyword arguments that describe a route in OpenAPI."""
    described: dict[str, Any] = {"responses": {status: {"content": _json(kind), "description": "answer"}}}
    if takes is not None:
        described["openapi_extra"] = {"requestBody": {"required": True, "content": _json(takes)}}
    return described


def _json(kind: Any) -> dict[str, Any]:
    (schema,), components = msgspec.json.schema_components([kind], ref_template="#/components/schemas/{name}")
    SHAPES.update(components)
    return {"application/json": {"schema": schema}}
