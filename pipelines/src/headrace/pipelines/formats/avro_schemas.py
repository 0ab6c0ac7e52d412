"""Avro schemas: their names, and the field of a record at which a payload cannot be read."""

import io
from collections.abc import Sequence
from typing import Any


def parsed(document: Any, references: Sequence[Any] = ()) -> Any:
    """Returns a schema as fastavro uses it.

    Args:
        document: The schema.
        references: Schemas that it refers to, in an order in which each follows its own references.
    """
    import fastavro

    names = dict[str, Any]()
    for referenced in references:
        fastavro.parse_schema(referenced, named_schemas=names)
    return fastavro.parse_schema(document, named_schemas=names)


def name_in(document: Any) -> str:
    """Returns the full name of a record, or the kind of another schema."""
    if isinstance(document, dict):
        name, namespace = document.get("name"), document.get("namespace")
        if name:
            return f"{namespace}.{name}" if namespace and "." not in name else str(name)
        return str(document.get("type"))
    return "union" if isinstance(document, list) else str(document)


def failing_field(schema: Any, payload: bytes) -> str:
    """Returns the field at which a payload cannot be read, with a colon; empty if that is not known."""
    import fastavro

    if not isinstance(schema, dict) or schema.get("type") != "record":
        return ""
    names = dict[str, Any]()
    fastavro.parse_schema(schema, named_schemas=names, _force=True)
    stream = io.BytesIO(payload)
    for field in schema["fields"]:
        try:
            fastavro.schemaless_reader(stream, fastavro.parse_schema(field["type"], named_schemas=dict(names)), None)
        except Exception:
            return f"field {field['name']}: "
    return ""


def reason(error: Exception) -> str:
    """Returns the text of an error of reading."""
    return "the payload ends there" if isinstance(error, EOFError) else str(error) or type(error).__name__
