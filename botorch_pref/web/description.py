"""OpenAPI description of the calls, from the routes and from what the calls say."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import MISSING, fields
from inspect import getdoc
from typing import Any, get_args, get_origin, get_type_hints

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.schemas import SchemaGenerator

from botorch_pref.ax import Answer
from botorch_pref.web.service import WRITES, PreferenceService
from botorch_pref.web.worker import JSON

INTEGER: JSON = {"type": "integer"}
NUMBER: JSON = {"type": "number"}
TEXT: JSON = {"type": "string"}
OBJECT: JSON = {"type": "object"}
DESIGN: JSON = {
    "type": "object",
    "description": "A value for each parameter, by its name.",
    "additionalProperties": {"type": ["number", "string", "boolean", "integer"]},
}


def listed(items: JSON) -> JSON:
    """Returns the schema of a list."""
    return {"type": "array", "items": items}


def nullable(schema: JSON) -> JSON:
    """Returns the schema of something that may be null."""
    return {"anyOf": [schema, {"type": "null"}]}


CONTEXT: JSON = DESIGN | {
    "description": "A value for each parameter that is measured and not chosen."
}
RATER: JSON = TEXT | {"description": "The name of who answers; without one, nobody's."}
NUMBER_OF_QUESTION: JSON = INTEGER | {"description": "The number of the question."}
QUESTION: JSON = {
    "type": "object",
    "properties": {
        "question": nullable(NUMBER_OF_QUESTION),
        "waited": NUMBER | {"description": "Seconds, while one is being chosen."},
        "number": INTEGER,
        "experiment": TEXT,
        "options": listed(DESIGN),
        "shown": listed(listed(OBJECT)),
        "positions": nullable(listed(NUMBER)),
        "prompt": nullable(TEXT),
        "kinds": listed(TEXT),
        "levels": nullable(INTEGER),
        "rater": nullable(TEXT),
        "context": CONTEXT,
        "last": nullable(NUMBER_OF_QUESTION),
    },
    "required": ["question"],
}
NEXT: JSON = {"next": nullable({"$ref": "#/components/schemas/Question"})}


def of_type(hint: Any) -> JSON:
    """Returns the schema of a type of a keyword of an answer."""
    if get_origin(hint) is tuple:
        return listed(of_type(get_args(hint)[0]))
    members = [member for member in get_args(hint) if member is not type(None)]
    if members:
        schemas = [of_type(member) for member in members]
        schema = schemas[0] if len(schemas) == 1 else {"anyOf": schemas}
        return schema if len(members) == len(get_args(hint)) else nullable(schema)
    return {"type": {int: "integer", float: "number", bool: "boolean"}[hint]}


def answer_properties() -> JSON:
    """Returns the schemas of what an answer may say, by the fields of `Answer`."""
    hints = get_type_hints(Answer)
    return {
        part.name: of_type(hints[part.name])
        for part in fields(Answer)
        if part.default is not MISSING
    }


SENT: Mapping[str, JSON] = {
    "question": {"rater": RATER, "patience": NUMBER, "context": CONTEXT},
    "progress": {"rater": RATER},
    "history": {"rater": RATER},
    "form": {},
    "findings": {"context": CONTEXT},
    "answer": {
        "question": NUMBER_OF_QUESTION,
        "rater": nullable(RATER),
        **answer_properties(),
        "seconds": NUMBER,
        "note": TEXT,
    },
    "skip": {"question": NUMBER_OF_QUESTION, "rater": nullable(RATER)},
    "undo": {"question": NUMBER_OF_QUESTION, "rater": nullable(RATER)},
    "own": {
        "options": listed(DESIGN),
        "rater": nullable(RATER),
        "context": CONTEXT,
    },
    "claim": {"rater": RATER, "context": CONTEXT},
}
"""What each call sends, by its name."""

REQUIRED: Mapping[str, list[str]] = {
    "answer": ["question"],
    "skip": ["question"],
    "own": ["options"],
    "claim": ["rater"],
}
"""What a call has to send, by its name."""

ASKING = ("question", "undo", "own", "claim")
"""Calls that get a question."""

GOT: Mapping[str, JSON] = {
    "answer": {"stored": NUMBER_OF_QUESTION, **NEXT},
    "skip": {"skipped": NUMBER_OF_QUESTION, **NEXT},
}
"""What other calls get, by their names; any object where there is none."""


class CallSchemas(SchemaGenerator):
    """Starlette's generator, told what calls say instead of reading YAML."""

    def parse_docstring(self, func_or_method: Any) -> JSON:
        """Returns the operation of a call; nothing of what is no call."""
        name = getattr(func_or_method, "call", None)
        return {} if name is None else operation(name)


def operation(name: str) -> JSON:
    """Returns the OpenAPI operation of a call.

    Args:
        name: Of `READS` or `WRITES`.
    """
    says = getdoc(getattr(PreferenceService, name)) or ""
    summary, _, description = says.partition("\n")
    told: JSON = {"operationId": name, "summary": summary}
    if description.strip():
        told["description"] = description.strip()
    if name in WRITES:
        schema: JSON = {"type": "object", "properties": SENT[name]}
        if name in REQUIRED:
            schema["required"] = REQUIRED[name]
        told["requestBody"] = {
            "required": True,
            "content": {"application/json": {"schema": schema}},
        }
    else:
        told["parameters"] = [
            {"name": key, "in": "query", **_in_query(schema)}
            for key, schema in SENT[name].items()
        ]
    question = {"$ref": "#/components/schemas/Question"}
    reply = question if name in ASKING else OBJECT
    if name in GOT:
        reply = {"type": "object", "properties": GOT[name]}
    told["responses"] = {
        "200": _response("What the call gets.", reply),
        "default": _response(
            "An error, in words.", {"$ref": "#/components/schemas/Error"}
        ),
    }
    if name in ASKING:
        told["responses"]["202"] = _response("It is still being chosen.", question)
    return told


def _in_query(schema: JSON) -> JSON:
    """Returns how an address has a value: of an object the text of its JSON."""
    if schema["type"] != "object":
        return {"schema": schema}
    return {"content": {"application/json": {"schema": schema}}}


def _response(description: str, schema: JSON) -> JSON:
    content = {"application/json": {"schema": schema}}
    return {"description": description, "content": content}


def description(routes: Any, title: str) -> JSON:
    """Returns the OpenAPI 3.1 description of an application's calls.

    Args:
        routes: Of the application.
        title: Of the experiment.
    """
    error = {"type": "object", "properties": {"error": TEXT}, "required": ["error"]}
    base: JSON = {
        "openapi": "3.1.0",
        "info": {"title": title, "version": "1"},
        "components": {
            "schemas": {"Question": QUESTION, "Error": error},
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
        "security": [{"token": []}, {}],
    }
    return CallSchemas(base).get_schema(routes)


async def describe(request: Request) -> Response:
    """Answers ``GET /openapi.json``."""
    app = request.app
    return JSONResponse(description(app.routes, app.state.title))
