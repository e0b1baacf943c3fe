"""Validation against the CycloneDX 1.6 schema."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path

import jsonschema_rs


def problems(bill: object) -> list[str]:
    """Errors of a bill of materials; nothing for a valid one."""
    found = importlib.util.find_spec("cyclonedx")
    assert found is not None
    assert found.origin is not None
    folder = Path(found.origin).parent / "schema" / "_res"
    schemas = {path.name: json.loads(path.read_text(encoding="utf-8")) for path in folder.glob("*.json")}
    places = [(f"http://cyclonedx.org/schema/{name}", schema) for name, schema in schemas.items()]
    validator = jsonschema_rs.validator_for(
        schemas["bom-1.6.SNAPSHOT.schema.json"], registry=jsonschema_rs.Registry(places)
    )
    return [f"{each.instance_path}: {each.message}" for each in validator.iter_errors(bill)]
