"""The JSON schema of a study as people write it, which lets editors check and complete it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel, TypeAdapter

from genmix.study.names import kernels, objectives, parameters_of, policies

Schema = dict[str, Any]


KERNEL, OBJECTIVE = {"$ref": "#/$defs/kernel"}, {"$ref": "#/$defs/objective"}


def schema_of(study: type[BaseModel]) -> Schema:
    """The schema of a model of studies, with variants and short forms."""
    found = study.model_json_schema()
    parts = {key: part for key, part in found["$defs"].items() if key not in ("Term", "Named")}
    for reference in _members(found["properties"]["arms"]["additionalProperties"]):
        _allow_variants(parts[reference.rsplit("/", 1)[-1]])
    parts["kernel"] = _by_name(kernels(), {})
    parts["objective"] = _by_name(objectives(), {"weight": {"type": "number", "default": 1}})
    several = {"type": "array", "minItems": 1, "items": OBJECTIVE}
    written = {"objective": {"anyOf": [OBJECTIVE, several]}, "policy": _by_name(policies(), {})}
    for key, schema in written.items():
        found["properties"][key] = {"description": _words(study, key), **schema}
    del found["properties"]["in_flight"]["default"]  # it depends on the arms
    return {
        "$schema": "http://json-schema.org/draft-07/schema#",
        **found,
        "$defs": parts,
        "title": "genmix study",
        "description": "Generators, an encoder, what to optimise, and a budget.",
    }


def _members(schema: Schema) -> list[str]:
    """The references of a union (of a single kind: the only one)."""
    return [each["$ref"] for each in schema.get("oneOf", [schema])]


def _allow_variants(arm: Schema) -> None:
    """What an arm lacks, each of its variants may have."""
    arm["properties"]["variants"] = {
        "type": "object",
        "minProperties": 1,
        "additionalProperties": {"type": ["object", "null"]},
        "description": "One arm for each, labelled ARM/VARIANT, with these settings changed.",
    }
    needed = arm.pop("required", [])
    arm["if"], arm["then"] = {"not": {"required": ["variants"]}}, {"required": needed}
    arm["required"] = [key for key in needed if key == "kind"]


def _words(study: type[BaseModel], key: str) -> str:
    return study.model_fields[key].description or ""


def _by_name(known: Mapping[str, type], more: Mapping[str, Schema]) -> Schema:
    """A name, or a map from one name to its parameters."""
    entries = {name: _parameters(cls, more) for name, cls in known.items()}
    return {
        "anyOf": [
            {"type": "string", "enum": list(known)},
            {
                "type": "object",
                "properties": entries,
                "additionalProperties": False,
                "minProperties": 1,
                "maxProperties": 1,
            },
        ]
    }


def _parameters(cls: type, more: Mapping[str, Schema]) -> Schema:
    entries = {key: _parameter(key, hint) for key, hint in parameters_of(cls).items()}
    return {
        "type": ["object", "null"],
        "description": (cls.__doc__ or "").split("\n")[0],
        "properties": {**entries, **more},
        "additionalProperties": False,
    }


def _parameter(key: str, hint: Any) -> Schema:
    if key == "kernel":
        return KERNEL
    if key == "reference":
        return {"type": "string", "description": "Instead of the reference of the study."}
    schema: Schema = TypeAdapter(hint).json_schema()
    return {"anyOf": [schema, {"const": "inf"}]} if key == "order" else schema
