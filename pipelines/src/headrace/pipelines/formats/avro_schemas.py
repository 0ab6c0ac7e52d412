"""Avro schemas and records: how a record is read and written, and at which field reading fails."""

import io
from collections.abc import Callable, Sequence
from typing import Any

from headrace.pipelines._errors import FormatError
from headrace.pipelines.formats._format import check_is
from headrace.pipelines.formats.records import is_object, maker, taker


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


def record_reader(
    name: str, writer: Any, reader: Any, kind: Any, *, begin: int = 0, where: Callable[[], str] = str
) -> Callable[[bytes], Any]:
    """Returns the function that reads the record in a payload.

    Args:
        name: The format, for errors.
        writer: The schema that it was written with.
        reader: The schema to read as; None for the same.
        kind: The class of the values; None for dicts.
        begin: Where the record begins, in bytes.
        where: Returns the schema, for an error, with a colon; by default, nothing.
    """
    import fastavro

    make, read_record = None if kind is None else maker(kind), fastavro.schemaless_reader

    def read(payload: bytes) -> Any:
        stream = io.BytesIO(payload)
        stream.seek(begin)
        try:
            plain = read_record(stream, writer, reader)
            left = len(payload) - stream.tell()
            if left:
                raise ValueError(f"{left} bytes are left after the record; it was written with another schema")
            return plain if make is None or plain is None else make(plain)
        except Exception as error:
            raise FormatError(f"{name}: {where()}{failing_field(writer, payload[begin:])}{reason(error)}") from error

    return read


def record_writer(name: str, schema: Any, kind: Any, prefix: bytes = b"") -> Callable[[Any], bytes]:
    """Returns the function that writes a record behind a prefix.

    Args:
        name: The format, for errors.
        schema: The schema.
        kind: The class of the values; None for dicts.
        prefix: What each payload begins with.
    """
    import fastavro

    take = None if kind is None else taker(kind)

    def write(value: Any) -> bytes:
        if kind is not None:
            check_is(value, kind, name)
        elif is_object(value):
            given = type(value).__name__
            raise FormatError(f"{name}: writes dicts, not a {given}; pass the class, as in avro(schema, {given})")
        stream = io.BytesIO()
        stream.write(prefix)
        # Strictly: a field that the schema does not have would be lost, one that is missing would be a default.
        fastavro.schemaless_writer(stream, schema, value if take is None else take(value), strict_allow_default=True)
        return stream.getvalue()

    return write
