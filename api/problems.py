"""Every refusal is one problem document (RFC 9457), made in one place.

Problem               what went wrong, with status and title
 |- Unauthorized      no good token
 |- Forbidden         a good token for something else
 |- Absent            no such thing
 |- Unacceptable      the request cannot be understood
 `- TooLarge          more bytes than the limit
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from http import HTTPStatus

import msgspec
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from api.controller.fence import Fenced
from slurm.errors import SlurmError
from slurm.hostlist import HostlistError, NoSuchGroup
from slurm.reason import one_line

log = logging.getLogger(__name__)
MEDIA_TYPE = "application/problem+json"


class Problem(Exception):
    """A request that is refused; ``detail`` is for people."""

    status = 400

    def __init__(self, detail: str, *, status: int | None = None, headers: Mapping[str, str] | None = None) -> None:
        super().__init__(detail)
        self.detail = detail
        self.status = status or type(self).status
        self.headers = dict(headers or {})


class Unauthorized(Problem):
    """No token, or none that is good."""

    status = 401


class Forbidden(Problem):
    """A good token that may not do this."""

    status = 403


class Absent(Problem):
    """There is no such thing."""

    status = 404


class Unacceptable(Problem):
    """The request cannot be understood."""

    status = 422


class TooLarge(Problem):
    """More bytes than the limit."""

    status = 413


def document(problem: Problem) -> Response:
    """The problem as its answer."""
    title = HTTPStatus(problem.status).phrase
    body = {"type": "about:blank", "title": title, "status": problem.status, "detail": one_line(problem.detail, 1000)}
    headers = {"WWW-Authenticate": "Bearer"} if problem.status == 401 else {}
    return Response(
        msgspec.json.encode(body), problem.status, media_type=MEDIA_TYPE, headers={**headers, **problem.headers}
    )


def problem_of(error: Exception) -> Problem:
    """What any exception means to the one who asked; the cause of our own trouble stays in our log."""
    if isinstance(error, Problem):
        return error
    if isinstance(error, HTTPException):
        return Problem(str(error.detail), status=error.status_code, headers=error.headers)
    if isinstance(error, RequestValidationError):
        return Unacceptable("; ".join(f"{'.'.join(map(str, e['loc']))}: {e['msg']}" for e in error.errors()[:10]))
    if isinstance(error, NoSuchGroup):
        return Absent(str(error))
    if isinstance(error, HostlistError | msgspec.MsgspecError | UnicodeDecodeError | RecursionError):
        return Unacceptable(_plainly(str(error)) or type(error).__name__)
    if isinstance(error, SlurmError | Fenced):
        return Problem(str(error), status=503)
    log.error("request failed", exc_info=error)
    return Problem("the server could not answer; its log says why", status=500)


def _plainly(text: str) -> str:
    """``Expected `str` of length >= 1 - at `$.nodes```: first what is wrong, as everywhere."""
    said, at, where = text.partition(" - at `$.")
    return f"{where.rstrip('`')}: {said[:1].lower()}{said[1:]}" if at else text


async def answer(request: Request, error: Exception) -> Response:
    """The one handler."""
    return document(problem_of(error))
