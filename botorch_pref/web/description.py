"""OpenAPI description of the calls, from the routes and from what the calls say."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import MISSING, fields
from inspect import getdoc
from typing import Any, get_args, get_origin, get_type_hints

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.schemas import SchemaGenerator

from botorch_pref.ax import Answer
from botorch_pref.web.call_arguments import PATIENCE
from botorch_pref.web.service import WRITES, PreferenceService
from botorch_pref.web.worker import JSON

INTEGER: JSON = {"type": "integer"}
NUMBER: JSON = {"type": "number"}
TEXT: JSON = {"type": "string"}
OBJECT: JSON = {"type": "object"}
VALUE: JSON = {"type": ["number", "string", "boolean", "integer"]}
DESIGN: JSON = {
    "type": "object",
    "description": "A value for each parameter, by its name.",
    "additionalProperties": VALUE,
}


def described(schema: JSON, description: str) -> JSON:
    """Returns a schema with a description."""
    return {**schema, "description": description}


def listed(items: JSON) -> JSON:
    """Returns the schema of a list."""
    return {"type": "array", "items": items}


def nullable(schema: JSON) -> JSON:
    """Returns the schema of something that may be null."""
    return {"anyOf": [schema, {"type": "null"}]}


def having(**properties: JSON) -> JSON:
    """Returns the schema of an object that has all of these properties."""
    return {
        "type": "object",
        "properties": properties,
        "required": [*properties],
    }


KINDS = [part.name for part in fields(Answer) if part.default is not MISSING]
"""The keywords of an answer that say what somebody judged."""

CONTEXT = described(DESIGN, "A value for each parameter that is measured, not chosen.")
RATER = described(TEXT, "The name of who answers; without one, nobody's.")
NUMBER_OF_QUESTION = described(INTEGER, "The number of the question.")
EXPERIMENT = described(
    TEXT, "The experiment's name, or the text that came with the question."
)
SHOWN = described(
    listed(OBJECT),
    "What is shown of an option, part by part, by the type: a text, markup, a table of "
    "rows, or an image, audio or video at src.",
)
TITLE = described(TEXT, "What findings call an option, such as 3 B.")
QUESTION: JSON = {
    "type": "object",
    "properties": {
        "question": nullable(NUMBER_OF_QUESTION),
        "waited": described(NUMBER, "Seconds, while one is being chosen."),
        "number": described(INTEGER, "As the rater counts: her answers and 1."),
        "experiment": EXPERIMENT,
        "options": described(
            listed(DESIGN), "Answers count them from 0; of a line its two ends."
        ),
        "shown": described(
            listed(SHOWN), "Of each option, or each position of a line."
        ),
        "positions": described(
            nullable(listed(NUMBER)), "Along a line, from 0 to 1; null of options."
        ),
        "prompt": described(nullable(TEXT), "What is asked, where that was given."),
        "kinds": described(listed({"enum": KINDS}), "What an answer may say."),
        "levels": described(nullable(INTEGER), "How many levels the scale has."),
        "rater": nullable(RATER),
        "context": CONTEXT,
        "last": described(nullable(INTEGER), "The question that undo brings back."),
    },
    "required": ["question"],
}
NEXT: JSON = {"next": nullable({"$ref": "#/components/schemas/Question"})}
FIELD = having(name=TEXT, label=TEXT, unit=TEXT, type={"enum": ["number", "choice"]})
HISTORY = having(
    question=NUMBER_OF_QUESTION,
    number=described(INTEGER, "As the rater counts."),
    options=listed(DESIGN),
    titles=listed(TITLE),
    shown=nullable(listed(SHOWN)),
    said=described(OBJECT, "The fields of the answer."),
    time=described(TEXT, "When it was stored, as ISO 8601 has it."),
)
ENOUGH = having(
    answers=described(INTEGER, "So many were known."),
    chance=described(NUMBER, "That the option is the best one shown."),
    name=TITLE,
    question=NUMBER_OF_QUESTION,
    place=described(INTEGER, "Of the option in the question, from 0."),
)
FINDINGS: JSON = {
    "summary": described(listed(listed({})), "Pairs of a row's name and its value."),
    "meanings": described(OBJECT, "What to make of a row of the summary, by its name."),
    "options": described(
        listed(OBJECT), "Those judged, the best first, as Report.options has them."
    ),
    "context": CONTEXT,
    "reference": described(
        TEXT,
        "The option that differences are to; they are shares of the step from the "
        "worst option to the best.",
    ),
    "recommended": having(name=TITLE, question=NUMBER_OF_QUESTION, place=INTEGER),
    "advice": described(TEXT, "Whether to go on, in words."),
    "effects": described(listed(OBJECT), "How utility changes with each parameter."),
    "parameters": described(listed(TEXT), "Their names in options."),
    "asked": described(
        listed(having(question=INTEGER, options=listed(TITLE))),
        "The answered questions, counted from 1.",
    ),
    "duels": described(
        listed(OBJECT), "Who was better than whom, or tied, and how many times."
    ),
    "raters": listed(OBJECT),
    "rater_sentences": listed(TEXT),
    "agreement": described(listed(OBJECT), "Of each pair of raters."),
    "tables": described(
        OBJECT,
        "Options, summary and raters as the report prints them: each has columns and "
        "rows of texts, which begin with the row's name.",
    ),
    "legends": described(OBJECT, "What explains options, effects and raters."),
    "warnings": described(listed(OBJECT), "What models warned of since the start."),
}


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
    """Returns the schemas of what an answer may say, as `Answer` describes it."""
    hints = get_type_hints(Answer)
    # An entry of the docstring is a name with its text, whose further lines are
    # indented by 8.
    _, _, attributes = (getdoc(Answer) or "").partition("Attributes:\n")
    entries = re.findall(r"^    (\w+): (.*(?:\n {8}.*)*)", attributes, re.M)
    texts = {k: " ".join(text.split()).replace("None", "null") for k, text in entries}
    return {name: described(of_type(hints[name]), texts[name]) for name in KINDS}


OF_QUESTION: JSON = {
    "question": NUMBER_OF_QUESTION,
    "rater": nullable(RATER),
    "experiment": EXPERIMENT,
}
SENT: Mapping[str, JSON] = {
    "question": {
        "rater": RATER,
        "patience": described(NUMBER, f"Seconds to wait, at most {PATIENCE:g}."),
        "context": CONTEXT,
    },
    "progress": {"rater": RATER},
    "history": {"rater": RATER},
    "form": {},
    "findings": {"context": CONTEXT},
    "answer": {
        "question": NUMBER_OF_QUESTION,
        "rater": nullable(RATER),
        "experiment": EXPERIMENT,
        **answer_properties(),
        "seconds": described(NUMBER, "How long the answer took."),
        "note": TEXT,
    },
    "skip": OF_QUESTION,
    "undo": OF_QUESTION,
    "own": {
        "options": listed(DESIGN),
        "rater": nullable(RATER),
        "context": CONTEXT,
    },
    "claim": {"rater": RATER, "context": CONTEXT},
}
"""Fields that each call may send, by its name."""

REQUIRED: Mapping[str, list[str]] = {
    "answer": ["question"],
    "skip": ["question"],
    "own": ["options"],
    "claim": ["rater"],
}
"""Fields that a call has to send, by its name."""

ASKING = ("question", "undo", "own", "claim")
"""Calls that get a question."""

GOT: Mapping[str, JSON] = {
    "answer": {"stored": NUMBER_OF_QUESTION, **NEXT},
    "skip": {"skipped": NUMBER_OF_QUESTION, **NEXT},
    "progress": {
        "name": described(TEXT, "The title of the page."),
        "introduction": nullable(TEXT),
        "answered": described(INTEGER, "Answers of all."),
        "yours": described(INTEGER, "Answers of the rater."),
        "pending": described(INTEGER, "Questions without an answer."),
        "initial": described(INTEGER, "Answers before the model chooses."),
        "enough": described(nullable(ENOUGH), "What to stop with; null while not."),
        "raters": listed(TEXT),
    },
    "history": {"answers": listed(HISTORY)},
    "form": {"fields": listed(FIELD), "context": listed(FIELD)},
    "findings": FINDINGS,
}
"""Replies of other calls, by their names."""

ERROR: JSON = {
    "type": "object",
    "properties": {
        "error": described(TEXT, "What is wrong, and what to do."),
        "needs": described({"enum": ["name", "context"]}, "What the call lacks."),
        "experiment": described(TEXT, "That which is served here."),
        "question": described(INTEGER, "One that cannot be shown, to be skipped."),
    },
    "required": ["error"],
}
STATUSES = (
    "An error, in words. 400: it cannot be; 403: no token; 404: it is about another "
    "experiment; 408, 413, 415, 421, 429: too slow, too much, not JSON, not under this "
    "name, too often; 409: the question has another answer, is somebody else's, or is "
    "not the last one; 503: not now."
)


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
    text = getdoc(getattr(PreferenceService, name)) or ""
    summary, _, description = text.partition("\n")
    fields: JSON = {"operationId": name, "summary": summary}
    if description.strip():
        fields["description"] = description.strip()
    if name in WRITES:
        schema: JSON = {"type": "object", "properties": SENT[name]}
        if name in REQUIRED:
            schema["required"] = REQUIRED[name]
        fields["requestBody"] = {
            "required": True,
            "content": {"application/json": {"schema": schema}},
        }
    else:
        fields["parameters"] = [
            {"name": key, "in": "query", **_in_query(schema)}
            for key, schema in SENT[name].items()
        ]
    question = {"$ref": "#/components/schemas/Question"}
    reply = question if name in ASKING else having(**GOT[name])
    fields["responses"] = {
        "200": _response("What the call gets.", reply),
        "default": _response(STATUSES, {"$ref": "#/components/schemas/Error"}),
    }
    if name in ASKING:
        fields["responses"]["202"] = _response("It is still being chosen.", question)
    return fields


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
    base: JSON = {
        "openapi": "3.1.0",
        "info": {"title": title, "version": "1"},
        "components": {
            "schemas": {"Question": QUESTION, "Error": ERROR},
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
        "security": [{"token": []}, {}],
    }
    return CallSchemas(base).get_schema(routes)


async def describe(request: Request) -> Response:
    """Answers ``GET /openapi.json``."""
    app = request.app
    return JSONResponse(description(app.routes, app.state.title))
