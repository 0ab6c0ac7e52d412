"""Avro records of schemas in a registry into columns: with pyruhvro all records of one schema in one call."""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from headrace.pipelines._errors import FormatError
from headrace.pipelines.formats._avro_columns import batch_of, record_columns, with_plain_uuids
from headrace.pipelines.formats._column_reader import Block, ColumnReader, ObjectReader, merged
from headrace.pipelines.formats._registry import Registry, WriterSchema
from headrace.pipelines.formats.avro_blocks import AtOnce, at_once
from headrace.pipelines.formats.avro_schemas import name_in, parsed, record_reader
from headrace.pipelines.formats.class_columns import ClassColumns
from headrace.pipelines.formats.registry_format import PREFIX_BYTES, RegistryFormat

if TYPE_CHECKING:
    import pyarrow as pa

_PLAIN = ("null", "boolean", "int", "long", "float", "double", "string", "bytes")
_SHAPE = ("type", "name", "namespace", "fields", "items", "values", "symbols", "size", "logicalType", "precision", "scale")
"""What decides how a value is read; documentation and defaults do not."""


@dataclass(frozen=True)
class ColumnRecords(RegistryFormat[Any]):
    """Records as dicts for columns, read as `schema`. What columns do not hold, such as UUIDs, are the texts that they hold."""

    TYPE = "AVRO"

    def record_name(self) -> str:
        """The full name of the record."""
        return name_in(json.loads(self.schema or "null"))

    def reader_of(self, schema: WriterSchema, where: Callable[[], str]) -> Callable[[bytes], Any]:
        """As `RegistryFormat.reader_of`.

        Raises:
            FormatError: A field has another logical type in the schema to read as, which no value would be converted to.
        """
        references = [with_plain_uuids(json.loads(text)) for text in schema.references]
        writer = parsed(with_plain_uuids(json.loads(schema.text)), references)
        reader = parsed(json.loads(self.schema or "null"))
        written = _logical_types(writer)
        for path, wanted in _logical_types(reader).items():
            if (found := written.get(path, wanted)) != wanted:
                kinds = [", ".join(sorted(filter(None, one))) or "no logical type" for one in (found, wanted)]
                raise FormatError(f"{self.name}: {where()}field {path}: written with {kinds[0]}, and to be read with {kinds[1]}")
        return record_reader(self.name, writer, reader, None, begin=PREFIX_BYTES, where=where)

    def writer_of(self, schema: WriterSchema, prefix: bytes) -> Callable[[Any], bytes]:
        """Nothing is written from columns."""
        raise NotImplementedError


@dataclass(frozen=True)
class RegistryColumns(ColumnReader):
    """Reads payloads of several schemas into the columns of one.

    Attributes:
        registry: The registry.
        document: The schema to read as; None for the one that a record was written with.
        each: Reads record by record.
        of_class: The columns of a class; None for the ones of the schema.
        readers: What reads all records behind a prefix at once, for each prefix of a schema so far; None if nothing does.
    """

    registry: Registry
    document: Any
    each: ColumnReader
    of_class: ClassColumns | None = None
    readers: "dict[bytes, Projection | None]" = field(default_factory=dict)

    @property
    def schema(self) -> "pa.Schema":
        """The columns."""
        return self.each.schema

    def read(self, payloads: Sequence[bytes | None]) -> Block:
        """As `ColumnReader.read`."""
        blocks = [self._of(prefix, there, [payloads[at] for at in there]) for prefix, there in _by_prefix(payloads).items()]
        return merged(self.schema, blocks)

    def known_rows(self, payloads: Sequence[bytes]) -> "pa.RecordBatch | None":
        """Returns the rows of payloads, read at once; None if each must be read alone, or the registry asked for a schema."""
        blocks = list[Block]()
        for prefix, there in _by_prefix(payloads).items():
            is_known = prefix in self.readers or self.registry.knows(int.from_bytes(prefix[1:]))
            batch = self.rows(prefix, [payloads[at] for at in there]) if is_known else None
            if batch is None:
                return None
            blocks.append(Block(batch, there))
        return merged(self.schema, blocks).batch

    def _of(self, prefix: bytes, there: list[int], payloads: list[Any]) -> Block:
        batch = self.rows(prefix, payloads)
        if batch is not None:
            return Block(batch, there)
        block = self.each.read(payloads)
        errors = {there[index]: error for index, error in block.errors.items()}
        return Block(block.batch, [there[index] for index in block.there], errors)

    def rows(self, prefix: bytes, payloads: Sequence[bytes]) -> "pa.RecordBatch | None":
        """Returns the rows of payloads behind one prefix, read at once; None if each must be read alone."""
        reader = self._reader_of(prefix)
        batch = None if reader is None else reader.read(payloads)
        return batch if batch is None or self.of_class is None else self.of_class.of(batch)

    def _reader_of(self, prefix: bytes) -> "Projection | None":
        if prefix in self.readers or len(prefix) < PREFIX_BYTES or prefix[0] != 0:
            return self.readers.get(prefix)
        try:
            written = self.registry.schema(int.from_bytes(prefix[1:]))
        except FormatError:
            return None  # the registry may know it later
        try:
            found = self._projection(written) if written.type == "AVRO" and not written.references else None
        except Exception:
            found = None  # each record alone shows why
        self.readers[prefix] = found
        return found

    def _projection(self, written: WriterSchema) -> "Projection | None":
        document = json.loads(written.text)
        if self.of_class is None:
            document = with_plain_uuids(document)
        block = at_once(document, record_columns("avro", parsed(document)))
        if block is None:
            return None
        if self.document is None:
            return Projection(block, block.schema, {})
        columns = self.schema if self.of_class is None else record_columns("avro", parsed(self.document))
        found = projection(block, document, self.document, columns)
        return None if found is not None and self.of_class is not None and self._rounds(found) else found

    def _rounds(self, reader: "Projection") -> bool:
        """Whether a default is another one in its column, such as 0.1 of a `float`: an object alone has the default itself."""
        defaults = {one["name"]: one.get("default") for one in self.document["fields"]}
        return any(value.as_py() != defaults[name] for name, value in reader.defaults.items())


@dataclass(frozen=True)
class Projection:
    """Reads records of one schema into columns of another one that differs in whole fields.

    Attributes:
        block: Reads the records.
        columns: The columns.
        defaults: The default of each column that the records do not have.
    """

    block: AtOnce
    columns: "pa.Schema"
    defaults: "dict[str, pa.Scalar[Any]]"

    def read(self, payloads: Sequence[bytes]) -> "pa.RecordBatch | None":
        """Returns the rows of all payloads; None if one is faulty."""
        import pyarrow as pa

        batch = self.block.read(payloads, PREFIX_BYTES)
        if batch is None:
            return None
        arrays = [
            pa.repeat(self.defaults[name], len(payloads)) if name in self.defaults else batch.column(name)
            for name in self.columns.names
        ]
        return pa.RecordBatch.from_arrays(arrays, schema=self.columns)


def _by_prefix(payloads: Sequence[bytes | None]) -> dict[bytes, list[int]]:
    found = dict[bytes, list[int]]()
    for index, payload in enumerate(payloads):
        if payload is not None:
            found.setdefault(payload[:PREFIX_BYTES], []).append(index)
    return found


def registry_columns(form: RegistryFormat[Any], schema: str) -> RegistryColumns:
    """Returns what reads records of a registry into a column for each field of a schema.

    Args:
        form: The format.
        schema: The schema to read as, as JSON text.

    Raises:
        GraphError: The schema is not of a record, or a field has a type without an Arrow column.
    """
    document = with_plain_uuids(json.loads(schema))
    columns, registry = record_columns(form.name, parsed(document)), form.of_registry()
    records = ColumnRecords(form.drop_null, registry, form.subject, json.dumps(document))
    return RegistryColumns(registry, document, ObjectReader(form.name, columns, records.reader(), batch_of(columns)))


def registry_columns_of_class(
    form: RegistryFormat[Any], schema: str | None, columns: ClassColumns, each: ColumnReader
) -> RegistryColumns:
    """Returns what reads records of a registry into the columns of a class.

    Args:
        form: The format.
        schema: The schema to read as, as JSON text; None for the one that a record was written with.
        columns: The columns.
        each: Reads record by record.
    """
    return RegistryColumns(form.of_registry(), None if schema is None else json.loads(schema), each, columns)


def projection(block: AtOnce, writer: Any, reader: Any, columns: "pa.Schema") -> Projection | None:
    """Returns a reader of records of one schema as another; None if only fastavro can.

    Args:
        block: Reads records of the schema that they were written with.
        writer: That schema.
        reader: The schema to read as.
        columns: Its columns.
    """
    import pyarrow as pa

    if name_in(writer) != name_in(reader) or "aliases" in json.dumps(reader):
        return None
    types = {one["name"]: _shape(one["type"]) for one in writer["fields"]}
    defaults = dict[str, Any]()
    for one, column in zip(reader["fields"], columns, strict=True):
        name, kind = one["name"], _shape(one["type"])
        if name in types and types[name] == kind:
            continue
        first = kind[0] if isinstance(kind, list) else kind
        if name in types or "default" not in one or first not in _PLAIN[:-1]:
            return None
        defaults[name] = pa.scalar(one["default"], column.type)
    return Projection(block, columns, defaults)


def _shape(schema: Any) -> Any:
    """Returns a schema without anything that does not decide how its values are read."""
    if isinstance(schema, list):
        return [_shape(one) for one in schema]
    if not isinstance(schema, dict):
        return schema
    if schema["type"] in _PLAIN and "logicalType" not in schema:
        return schema["type"]
    kept = {name: schema[name] for name in _SHAPE if name in schema}
    inner = {name: _shape(kept[name]) for name in ("type", "items", "values") if name in kept}
    fields = {"fields": [{"name": one["name"], "type": _shape(one["type"])} for one in kept.get("fields", ())]}
    return kept | inner | (fields if "fields" in kept else {})


def _logical_types(schema: Any) -> dict[str, set[str]]:
    """Returns the logical types of each field, an empty text for none, by its path; of a record inside itself the outermost."""
    names, found = dict[str, Any](), dict[str, set[str]]()

    def walk(one: Any, path: str, above: tuple[str, ...]) -> None:
        if isinstance(one, list):
            for kind in one:
                walk(kind, path, above)
        elif isinstance(one, str):
            if one in names and one not in above:
                walk(names[one], path, above)
            elif one not in names and one != "null":
                found.setdefault(path, set()).add("")
        elif isinstance(one["type"], dict | list):
            walk(one["type"], path, above)
        else:
            if "name" in one:
                names[one["name"]] = one
                above = (*above, one["name"])
            # Times of each unit are read as the same objects.
            found.setdefault(path, set()).add(one.get("logicalType", "").removesuffix("-millis").removesuffix("-micros"))
            for inner in one.get("fields", ()):
                walk(inner["type"], f"{path}.{inner['name']}".lstrip("."), above)
            for name in ("items", "values"):
                if name in one:
                    walk(one[name], f"{path}[...]", above)

    walk(schema, "", ())
    return found
