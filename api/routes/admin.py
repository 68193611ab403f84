"""Audit and tokens, for administrators."""

from __future__ import annotations

from typing import Annotated

import msgspec
from fastapi import APIRouter, Depends
from starlette.requests import Request
from starlette.responses import Response

from api.auth.grants import Grant, token_of
from api.problems import Absent
from api.routes.deps import Admin, Cursor, Limit, RowId, StoreDep
from api.routes.shapes import Page, TokenMade, answers, body, paged, reply, row_cursor
from api.store.views import AuditView, TokenView

router = APIRouter(tags=["admin"])


@router.get("/audit", **answers(Page[AuditView]))
def read_audit(store: StoreDep, _: Admin, cursor: Cursor = None, limit: Limit = 100) -> Response:
    """Who did or was refused what, the newest first."""
    return paged(store.audit_log(row_cursor(cursor), limit), limit, lambda a: a.id)


@router.get("/tokens", **answers(Page[TokenView]))
def list_tokens(store: StoreDep, _: Admin, cursor: Cursor = None, limit: Limit = 100) -> Response:
    """Tokens without their secrets."""
    return paged(store.tokens(row_cursor(cursor), limit), limit, lambda t: t.id)


@router.post("/tokens", status_code=201, **answers(TokenMade, status=201, takes=Grant))
def create_token(store: StoreDep, who: Admin, wanted: Annotated[Grant, Depends(body(Grant))]) -> Response:
    """Make a token; the answer is the only place where its secret is ever shown."""
    made, secret = store.create_token(token_of(wanted, who.name))
    store.audit(who.name, "token created", made.prefix, f"role {made.role} node {made.node or '-'}")
    return reply(TokenMade(**msgspec.structs.asdict(made), secret=secret), 201)


@router.delete("/tokens/{number}", status_code=204)
def revoke_token(number: RowId, store: StoreDep, who: Admin, request: Request) -> Response:
    """End a token at once."""
    if not store.revoke_token(number):
        raise Absent(f"no token {number} that is still good")
    request.scope["state"]["gate"].forget_tokens()
    store.audit(who.name, "token revoked", str(number))
    return Response(status_code=204)
