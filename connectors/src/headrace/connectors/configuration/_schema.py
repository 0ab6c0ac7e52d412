"""A JSON Schema of connectors' configuration files, with which editors complete and validate them."""

from collections.abc import Sequence
from typing import Any

from pydantic import BaseModel
from pydantic.json_schema import models_json_schema

from headrace.connectors import Connector
from headrace.connectors.configuration._table import HEAD, ConnectorTable

_DIALECT = "https://json-schema.org/draft/2020-12/schema"
_VARIABLE = {"type": "string", "pattern": r"\$\{.+\}"}
_SIZE = {"type": "string", "pattern": r"^\s*[0-9]+(\.[0-9]+)?\s*([bB]|[kKmMgGtT][iI]?[bB]?)?\s*$"}

_UNITS = "us|microseconds?|ms|milliseconds?|s|sec|seconds?|m|min|minutes?|h|hours?|d|days?"
_DURATION = {"type": "string", "pattern": rf"^\s*[0-9]+(\.[0-9]+)?\s*$|^(\s*[0-9]+(\.[0-9]+)?\s*({_UNITS})\s*)+$"}
_WITH_UNIT = {"size": _SIZE, "duration": _DURATION}


def connector_schema(connectors: Sequence[Connector]) -> dict[str, Any]:
    """Returns the schema of a file that configures one of these connectors.

    Raises:
        ConnectorUnavailable: One of them cannot be used on this machine.
    """
    models = {connector.name: connector.load().parameters for connector in connectors}
    wanted: list[type[BaseModel]] = list(dict.fromkeys((ConnectorTable, *models.values())))
    references, document = models_json_schema([(model, "validation") for model in wanted])
    definitions = document["$defs"]

    def body(model: type[Any]) -> dict[str, Any]:
        definition: dict[str, Any] = definitions[references[model, "validation"]["$ref"].rpartition("/")[2]]
        return definition

    files = [_file(connector, body(models[connector.name]), body(ConnectorTable)) for connector in connectors]
    tops = {reference["$ref"].rpartition("/")[2] for reference in references.values()}
    rest = {name: _for_toml(definition) for name, definition in definitions.items() if name not in tops}
    whole = files[0] if len(files) == 1 else {"title": "A Headrace connector", "oneOf": files}
    return {"$schema": _DIALECT, **whole, "$defs": rest}


def _file(connector: Connector, parameters: dict[str, Any], head: dict[str, Any]) -> dict[str, Any]:
    """Returns the schema of one connector's file."""
    own, every = _for_toml(parameters), _for_toml(head)
    properties = {name: every["properties"][name] for name in HEAD} | own.get("properties", {})
    properties["connector"] = {"const": connector.name, "description": connector.summary}
    return {
        "title": connector.name,
        "description": f"{connector.summary[0].upper()}{connector.summary[1:]}. {connector.guarantee.capitalize()}.",
        "type": "object",
        "properties": properties,
        "required": ["connector", *own.get("required", ())],
        "additionalProperties": False,
    }


def _for_toml(definition: dict[str, Any]) -> dict[str, Any]:
    """Returns the schema of a class, restricted to what TOML can express."""
    properties = {name: _property(schema) for name, schema in definition.get("properties", {}).items()}
    return {**definition, "properties": properties} if properties else definition


def _property(schema: dict[str, Any]) -> dict[str, Any]:
    """Removes null, which TOML does not have. Values of other types may be variables, and a list of one may be a single value."""
    about = {key: schema[key] for key in ("description", "default", "examples") if schema.get(key) is not None}
    plain = {key: value for key, value in schema.items() if key not in (*about, "default", "title")}
    alternatives = [one for one in plain.get("anyOf", [plain]) if one != {"type": "null"}]
    more = []
    for one in alternatives:
        if one.get("type") == "array":
            one["items"] = _property(one["items"])
            more.append(one["items"])
    for one in alternatives:
        if (with_unit := _WITH_UNIT.get(one.get("format", ""))) is not None:
            del one["format"]
            for bound, name in (("ge", "minimum"), ("le", "maximum")):
                if bound in one:  # pydantic's schema of a bounded size that may also be missing
                    one[name] = one.pop(bound)
            more.append(with_unit)
    if any(one.get("type") in ("integer", "number", "boolean") for one in alternatives):
        more.append(_VARIABLE)
    alternatives += more
    return {**about, **(alternatives[0] if len(alternatives) == 1 else {"anyOf": alternatives})}
