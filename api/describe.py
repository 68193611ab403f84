"""The OpenAPI document says of every route what it does in one sentence, what it takes and how it refuses."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import msgspec
from fastapi import FastAPI

from api.problems import MEDIA_TYPE
from api.routes.shapes import SHAPES, answers
from checks.wire import (
    Batch,
    BatchAnswer,
    GateAnswer,
    GateRequest,
    PermitAnswer,
    PermitRequest,
    PollAnswer,
    PollRequest,
)

_SENTENCE = re.compile(r"(.+?)(?:[.;:](?:\s|$)|$)", re.S)
_OPEN = frozenset({"/health", "/ready"})
_LOCAL = "/metrics"  # without a token from this machine
_REFUSALS = {
    "401": "no token, or none that is good",
    "403": "a good token that may not do this",
    "404": "there is no such thing",
    "413": "more bytes than the limit",
    "415": "a content encoding that is not taken",
    "422": "the request cannot be understood",
    "503": "Slurm does not answer, or another server leads",
    "default": "any other refusal, or trouble of our own",
}
_HOT = {
    "ingest": ("Take a batch of reports from a node's agent", Batch, BatchAnswer),
    "poll": ("Hold an agent's question open until there is an order for it", PollRequest, PollAnswer),
    "permits": ("Give an agent the right to refuse or drain once, or not", PermitRequest, PermitAnswer),
    "gate": ("Hold the first node of a job until every member has answered", GateRequest, GateAnswer),
}


class ProblemDocument(msgspec.Struct, frozen=True, kw_only=True):
    """Why a request was refused (RFC 9457)."""

    type: str
    title: str
    status: int
    detail: str


def describe(app: FastAPI, prefix: str) -> None:
    """Put our own shapes, sentences and refusals beside what FastAPI describes by itself."""
    plain = app.openapi

    def described() -> dict[str, Any]:
        document = plain()
        (refusal,), components = msgspec.json.schema_components(
            [ProblemDocument], ref_template="#/components/schemas/{name}"
        )
        parts = document.setdefault("components", {})
        schemas = parts.setdefault("schemas", {})
        for unused in ("HTTPValidationError", "ValidationError"):
            schemas.pop(unused, None)
        parts["securitySchemes"] = {"token": {"type": "http", "scheme": "bearer"}}
        document["security"] = [{"token": []}]
        document["paths"].update(_hot(name, prefix) for name in _HOT)
        schemas.update({**SHAPES, **components})
        for path, methods in document["paths"].items():
            for method, operation in methods.items():
                _complete(operation, method, path, path.removeprefix(prefix) in _OPEN, refusal)
        return document

    app.openapi = described  # type: ignore[method-assign]


def _complete(operation: dict[str, Any], method: str, path: str, free: bool, refusal: object) -> None:
    if text := operation.get("description", ""):
        found = _SENTENCE.match(text)
        operation["summary"] = " ".join(found[1].split()) if found else text
    if free or path == _LOCAL:
        operation["security"] = [] if free else [{}, {"token": []}]
    for status in _refusals(operation, method, path, free):
        told = {"description": _REFUSALS[status], "content": {MEDIA_TYPE: {"schema": refusal}}}
        operation["responses"][status] = told


def _refusals(operation: dict[str, Any], method: str, path: str, free: bool) -> Iterator[str]:
    if not free:
        yield from ("401", "403")
    if method != "get":
        yield "503"
    if "{" in path or method != "get":
        yield "404"
    if "requestBody" in operation:
        yield from ("413", "415", "422")
    elif operation.get("parameters"):
        yield "422"
    yield "default"


def _hot(name: str, prefix: str) -> tuple[str, dict[str, Any]]:
    """The description of one raw route."""
    text, takes, gives = _HOT[name]
    said = answers(gives, takes=takes)
    told = {"summary": text, "description": f"{text}.", "tags": ["agents"]}
    return f"{prefix}/{name}", {"post": {**told, "responses": {"200": said["responses"][200]}, **said["openapi_extra"]}}
