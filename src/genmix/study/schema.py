"""The JSON schema for study files, which editors use for validation and completion."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel

from genmix.study.components import KERNELS, OBJECTIVES, PARTS, POLICIES, SHORT_NAMES

Schema = dict[str, Any]

KERNEL, OBJECTIVE = {"$ref": "#/$defs/kernel"}, {"$ref": "#/$defs/objective"}


def schema_of(study: type[BaseModel]) -> Schema:
    """Return the schema for study files, including variants and short forms."""
    found = study.model_json_schema()
    parts = found["$defs"]
    for reference in _union_members(found["properties"]["arms"]["additionalProperties"]):
        _allow_variants(parts[reference.rsplit("/", 1)[-1]])
    parts["kernel"] = _by_name(KERNELS, parts)
    parts["objective"] = _by_name(OBJECTIVES, parts)
    several = {"type": "array", "minItems": 1, "items": OBJECTIVE}
    written = {"objective": {"anyOf": [OBJECTIVE, several]}, "policy": _by_name(POLICIES, parts)}
    for key, schema in written.items():
        description = study.model_fields[key].description
        found["properties"][key] = {"description": description, **schema}
    del found["properties"]["in_flight"]["default"]  # it depends on the arms
    return {
        "$schema": "http://json-schema.org/draft-07/schema#",
        **found,
        "title": "genmix study",
        "description": "Generators, an encoder, an objective and a budget.",
    }


def _union_members(schema: Schema) -> list[str]:
    """Return the references in a union, or the only reference if there is a single kind."""
    return [each["$ref"] for each in schema.get("oneOf", [schema])]


def _allow_variants(arm: Schema) -> None:
    """Allow variants, which can supply the required settings of their arm."""
    arm["properties"]["variants"] = {
        "type": "object",
        "minProperties": 1,
        "additionalProperties": {"type": ["object", "null"]},
        "description": "One arm per variant, labeled ARM/VARIANT, with the settings that differ.",
    }
    required = arm.pop("required", [])
    arm["if"], arm["then"] = {"not": {"required": ["variants"]}}, {"required": required}
    arm["required"] = [key for key in required if key == "kind"]


def _by_name(settings: Mapping[str, type[BaseModel]], parts: Schema) -> Schema:
    """Return the schema for a name, or for a mapping from one name to its parameters."""
    entries = {name: _parameters(parts.pop(each.__name__)) for name, each in settings.items()}
    entries |= {short: entries[name] for short, name in SHORT_NAMES.items() if name in entries}
    return {
        "anyOf": [
            {"type": "string", "enum": list(entries)},
            {
                "type": "object",
                "properties": entries,
                "additionalProperties": False,
                "minProperties": 1,
                "maxProperties": 1,
            },
        ]
    }


def _parameters(schema: Schema) -> Schema:
    """Return the schema for a component's settings, without ``kind``."""
    properties = {key: part for key, part in schema["properties"].items() if key != "kind"}
    if "kernel" in properties:
        properties["kernel"] = KERNEL
    for key in PARTS:
        if key in properties:
            properties[key] = {"anyOf": [KERNEL, {"type": "null"}]}
    required = [key for key in schema["required"] if key != "kind"]
    found = {**schema, "type": ["object", "null"], "properties": properties, "required": required}
    return found if required else {key: part for key, part in found.items() if key != "required"}
