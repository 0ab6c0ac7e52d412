"""The fields that a document has beyond the fields of a class, found with the JSON schema of the class."""

from collections.abc import Callable
from typing import Any

import msgspec

from headrace.pipelines.formats.records import is_pydantic

Look = Callable[[Any, str, dict[str, None]], None]
"""Adds the paths of further fields of a value, which is at a path."""
_BRANCHES = ("anyOf", "oneOf", "allOf")


def further_fields(kind: Any) -> Callable[[Any], list[str]]:
    """Returns the function that finds the fields of a document which a class does not have.

    A path has the names of fields, with dots between them. Elements of lists, and values of dicts with any keys, are not in it.

    Args:
        kind: The class, or a type made of classes.

    Raises:
        Exception: It has no JSON schema.
    """
    look = _Schema(_schema_of(kind)).root

    def further(document: Any) -> list[str]:
        paths = dict[str, None]()
        look(document, "", paths)
        return list(paths)

    return further


def _schema_of(kind: Any) -> dict[str, Any]:
    if is_pydantic(kind):
        from pydantic import TypeAdapter

        return TypeAdapter(kind).json_schema(by_alias=True)
    return msgspec.json.schema(kind)


class _Schema:
    """A JSON schema, as functions that look at documents."""

    def __init__(self, document: dict[str, Any]) -> None:
        self._definitions: dict[str, Any] = document.get("$defs", {})
        self._by_name = dict[str, Look]()
        self.root = self._look(document)

    def _look(self, schema: Any) -> Look:
        if not isinstance(schema, dict):
            return _nothing
        if "$ref" in schema:
            return self._reference(schema["$ref"].rpartition("/")[2])
        branches = [self._resolved(one) for key in _BRANCHES for one in schema.get(key, ())]
        if branches:
            return self._branches(schema, branches)
        if "properties" in schema or schema.get("type") == "object":
            return self._object(schema.get("properties", {}), schema.get("additionalProperties", "properties" not in schema))
        items = [self._look(one) for one in schema.get("prefixItems", ())]
        rest = self._look(schema.get("items"))
        return _nothing if not items and rest is _nothing else _list(items, rest)

    def _resolved(self, schema: Any) -> Any:
        while isinstance(schema, dict) and "$ref" in schema:
            schema = self._definitions[schema["$ref"].rpartition("/")[2]]
        return schema

    def _reference(self, name: str) -> Look:
        """By its name, since a class may refer to itself."""
        if name not in self._by_name:
            self._by_name[name] = lambda value, path, paths: self._by_name[name](value, path, paths)
            self._by_name[name] = self._look(self._definitions[name])
        return lambda value, path, paths: self._by_name[name](value, path, paths)

    def _branches(self, schema: dict[str, Any], branches: list[Any]) -> Look:
        """What looks at a union: at an object with the class that its tag names, else with the fields of all classes."""
        tag = schema.get("discriminator", {})
        tagged = {name: self._look({"$ref": place}) for name, place in tag.get("mapping", {}).items()}
        field = tag.get("propertyName")
        objects = [one for one in branches if isinstance(one, dict) and ("properties" in one or one.get("type") == "object")]
        others = [self._look(one) for one in branches if one not in objects]
        properties = {name: one for each in objects for name, one in each.get("properties", {}).items()}
        further = any(one.get("additionalProperties", "properties" not in one) for one in objects)
        together = self._object(properties, further) if len(objects) > 1 else self._look(objects[0]) if objects else _nothing

        def look(value: Any, path: str, paths: dict[str, None]) -> None:
            if isinstance(value, dict):
                named = value.get(field) if field is not None else None
                (tagged.get(named, together) if isinstance(named, str) else together)(value, path, paths)
            else:
                for other in others:
                    other(value, path, paths)

        return look

    def _object(self, properties: dict[str, Any], further: Any) -> Look:
        """What looks at an object; `further` is the schema of its other fields, or whether it may have some."""
        known = {name: self._look(one) for name, one in properties.items()}
        other = self._look(further) if isinstance(further, dict) else _nothing

        def look(value: Any, path: str, paths: dict[str, None]) -> None:
            if not isinstance(value, dict):
                return
            for name, one in value.items():
                if name in known:
                    known[name](one, f"{path}.{name}" if path else name, paths)
                elif further:
                    other(one, path, paths)
                else:
                    paths[f"{path}.{name}" if path else name] = None

        return look


def _list(items: list[Look], rest: Look) -> Look:
    def look(value: Any, path: str, paths: dict[str, None]) -> None:
        if isinstance(value, list | tuple):
            for index, one in enumerate(value):
                (items[index] if index < len(items) else rest)(one, path, paths)

    return look


def _nothing(value: Any, path: str, paths: dict[str, None]) -> None:
    """Looks at a value without fields."""
