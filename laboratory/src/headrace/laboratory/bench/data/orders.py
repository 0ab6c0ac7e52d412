"""Orders of a shop: text, numbers, a flag, a time, and a note that few of them contain."""

import io
import json
import random
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

COLUMNS = pa.schema(
    [
        ("id", pa.string()),
        ("customer", pa.string()),
        ("amount", pa.float64()),
        ("quantity", pa.int64()),
        ("country", pa.string()),
        ("express", pa.bool_()),
        ("created", pa.int64()),
        ("note", pa.string()),
    ]
)
AVRO_SCHEMA = {
    "type": "record",
    "name": "Order",
    "fields": [
        {"name": "id", "type": "string"},
        {"name": "customer", "type": "string"},
        {"name": "amount", "type": "double"},
        {"name": "quantity", "type": "long"},
        {"name": "country", "type": "string"},
        {"name": "express", "type": "boolean"},
        {"name": "created", "type": "long"},
        {"name": "note", "type": ["null", "string"]},
    ],
}


@dataclass
class Order:
    """The same as a class."""

    id: str
    customer: str
    amount: float
    quantity: int
    country: str
    express: bool
    created: int
    note: str | None


_BEGIN_MS = 1_700_000_000_000


def json_payloads(count: int) -> list[bytes]:
    """Returns orders as JSON."""
    return [json.dumps(order).encode() for order in _orders(count)]


def avro_payloads(count: int) -> list[bytes]:
    """Returns the same orders as Avro records without a container."""
    import fastavro

    schema, payloads = fastavro.parse_schema(AVRO_SCHEMA), list[bytes]()
    for order in _orders(count):
        stream = io.BytesIO()
        fastavro.schemaless_writer(stream, schema, order)
        payloads.append(stream.getvalue())
    return payloads


def _orders(count: int) -> Iterator[dict[str, Any]]:
    drawn = random.Random(7)
    for number in range(count):
        yield {
            "id": f"order-{number:08d}",
            "customer": f"customer-{number % 977}",
            "amount": round(drawn.random() * 1000, 2),
            "quantity": drawn.randint(1, 20),
            "country": drawn.choice(["DE", "FR", "US"]),
            "express": bool(number % 3),
            "created": _BEGIN_MS + number * 37,
            "note": None if number % 4 else "please ring twice",
        }
