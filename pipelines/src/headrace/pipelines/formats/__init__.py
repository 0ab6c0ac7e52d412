"""Formats: how values with a type are read from payloads, and written as payloads.

```python
from headrace.pipelines.formats import avro, json, protobuf, text

orders = app.source("orders/*", decode=json(Order))  # a Flow[Order]
orders.sink("copies", encode=json(Order))
```

A class is a dataclass, a `NamedTuple`, a `TypedDict`, a msgspec `Struct`, a pydantic model, or a generated protobuf class.
"""

from headrace.pipelines.formats._avro import Avro, avro
from headrace.pipelines.formats._avro_columns import avro_columns
from headrace.pipelines.formats._column_reader import Block, ColumnReader
from headrace.pipelines.formats._columns import Columns, columns_of
from headrace.pipelines.formats._contract import EVERY, Contract, Judge, Mode, Violation, judges
from headrace.pipelines.formats._format import ColumnDecoder, Decoder, Format
from headrace.pipelines.formats._json import Json, json
from headrace.pipelines.formats._json_columns import json_columns
from headrace.pipelines.formats._protobuf import Protobuf, protobuf
from headrace.pipelines.formats._registry import Registry
from headrace.pipelines.formats._registry_avro import RegistryAvro
from headrace.pipelines.formats._registry_json import RegistryJson
from headrace.pipelines.formats._registry_protobuf import RegistryProtobuf
from headrace.pipelines.formats._text import Text, text

__all__ = [
    "EVERY",
    "Avro",
    "Block",
    "ColumnDecoder",
    "ColumnReader",
    "Columns",
    "Contract",
    "Decoder",
    "Format",
    "Json",
    "Judge",
    "Mode",
    "Protobuf",
    "Registry",
    "RegistryAvro",
    "RegistryJson",
    "RegistryProtobuf",
    "Text",
    "Violation",
    "avro",
    "avro_columns",
    "columns_of",
    "json",
    "json_columns",
    "judges",
    "protobuf",
    "text",
]
