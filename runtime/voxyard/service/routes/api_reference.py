"""API reference `/docs`: the OpenAPI document as plain HTML, without scripts or external resources."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from html import escape
from typing import Any

STYLE = """\
:root { color-scheme: light dark; }
body { font: 16px/1.5 system-ui, sans-serif; max-width: 52rem; margin: 2rem auto; padding: 0 1rem; }
section { border-top: 1px solid; padding: 1rem 0; }
h2 code { font-size: 1.1rem; }
table { border-collapse: collapse; width: 100%; }
th, td { text-align: left; vertical-align: top; padding: .2rem 1rem .2rem 0; }
pre { overflow-x: auto; padding: .5rem; border: 1px solid; }
"""


def page(description: Mapping[str, Any]) -> str:
    """HTML page of an OpenAPI document."""
    title = escape(description["info"]["title"])
    operations = [
        (method.upper(), path, operation)
        for path, methods in description["paths"].items()
        for method, operation in methods.items()
    ]
    return "".join(
        (
            f'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>{title}: API reference</title>',
            '<meta name="viewport" content="width=device-width"><link rel="stylesheet" href="/page/reference.css">',
            f"</head><body><h1>{title} {escape(description['info']['version'])}</h1>",
            *_paragraphs(description["info"].get("description", "")),
            '<p>Machine-readable: <a href="/openapi.json">openapi.json</a>.</p><nav><ul>',
            *(f'<li><a href="#{_anchor(*each)}"><code>{escape(f"{each[0]} {each[1]}")}</code></a></li>'
              for each in operations),
            "</ul></nav><main>",
            *(part for each in operations for part in _operation(description, *each)),
            "</main></body></html>",
        )
    )  # fmt: skip


def _operation(description: Mapping[str, Any], method: str, path: str, operation: Mapping[str, Any]) -> Iterator[str]:
    yield f'<section id="{_anchor(method, path, operation)}"><h2><code>{escape(f"{method} {path}")}</code> '
    yield f"{escape(operation.get('summary', ''))}</h2>"
    yield from _paragraphs(operation.get("description", ""))
    yield from _table(
        "Parameters",
        [(each["name"], each["in"], each.get("schema", {}), each.get("description", ""))
         for each in operation.get("parameters", ())],
    )  # fmt: skip
    for kind, content in operation.get("requestBody", {}).get("content", {}).items():
        schema = _resolved(description, content.get("schema", {}))
        required = schema.get("required", ())
        rows = [
            (name, "required" if name in required else "", field, field.get("description", ""))
            for name, field in schema.get("properties", {}).items()
        ]
        yield from _table(f"Body ({kind})", rows)
        for example in schema.get("examples", ()):
            yield f"<pre>{escape(json.dumps(example, indent=2))}</pre>"
    yield "<h3>Responses</h3><table>"
    for status, response in operation["responses"].items():
        yield f"<tr><th><code>{escape(status)}</code></th><td>{escape(response.get('description', ''))}</td></tr>"
    yield "</table></section>"


def _table(title: str, rows: list[tuple[str, str, Mapping[str, Any], str]]) -> Iterator[str]:
    if not rows:
        return
    yield f"<h3>{escape(title)}</h3><table>"
    for name, place, schema, description in rows:
        cells = (escape(place), escape(_kind(schema)), escape(description))
        yield f"<tr><th><code>{escape(name)}</code></th>{''.join(f'<td>{cell}</td>' for cell in cells)}</tr>"
    yield "</table>"


def _kind(schema: Mapping[str, Any]) -> str:
    """Type and limits of a field, in a few words."""
    if "enum" in schema:
        return ", ".join(str(each) for each in schema["enum"])
    if "anyOf" in schema:
        return " or ".join(kind for each in schema["anyOf"] if (kind := _kind(each)) not in ("", "null"))
    if "$ref" in schema:
        return str(schema["$ref"]).rpartition("/")[2]
    limits = [
        f"{word} {schema[key]}"
        for key, word in (("minimum", "from"), ("maximum", "to"), ("maxLength", "at most"), ("default", "default"))
        if schema.get(key) is not None
    ]
    return " ".join((str(schema.get("type", "")), *limits))


def _resolved(description: Mapping[str, Any], schema: Mapping[str, Any]) -> Mapping[str, Any]:
    name = str(schema.get("$ref", "")).rpartition("/")[2]
    found: Mapping[str, Any] = description["components"]["schemas"][name] if name else schema
    return found


def _paragraphs(text: str) -> Iterator[str]:
    yield from (f"<p>{escape(' '.join(part.split()))}</p>" for part in text.split("\n\n") if part.strip())


def _anchor(method: str, path: str, operation: Mapping[str, Any]) -> str:
    return escape(str(operation.get("operationId", f"{method} {path}".replace(" ", "-"))), quote=True)
