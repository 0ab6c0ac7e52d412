"""A real schema registry, and what Confluent's own serializers write and read there."""

import itertools
import json
from dataclasses import dataclass
from typing import Any

import pytest
from confluent_kafka.schema_registry import SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroDeserializer, AvroSerializer
from confluent_kafka.schema_registry.json_schema import JSONDeserializer, JSONSerializer
from confluent_kafka.schema_registry.protobuf import ProtobufDeserializer, ProtobufSerializer
from confluent_kafka.serialization import MessageField, SerializationContext
from scripts import brokers

from headrace.pipelines import FormatError
from headrace.pipelines import formats as ours
from headrace.protocol.v1.engine_pb2 import DeliveryStart

LINE = {"type": "record", "name": "Line", "fields": [{"name": "article", "type": "string"}, {"name": "count", "type": "long"}]}
NEWER = {**LINE, "fields": [*LINE["fields"], {"name": "note", "type": "string", "default": "none"}]}  # type: ignore[misc]
NARROWER = {**LINE, "fields": [{"name": "other", "type": "string"}]}
SCHEMA = {"$schema": "https://json-schema.org/draft/2020-12/schema", "title": "Line", "type": "object"}
CONTEXT = SerializationContext("theirs", MessageField.VALUE)
PROTOBUF = {"use.deprecated.format": False}


@dataclass
class Line:
    article: str
    count: int


def test_what_either_side_writes_the_other_reads(registry: brokers.Registry) -> None:
    """The subjects are new ones, so that it can run again."""
    known = ours.Registry(registry.url)
    client = SchemaRegistryClient({"url": registry.url})
    number = next(n for n in itertools.count() if f"avro{n}-value" not in client.get_subjects())
    tea, plain, start = Line("tea", 3), {"article": "tea", "count": 3}, DeliveryStart(sink="out")

    def subject(of: str) -> str:
        return f"{of}{number}-value"

    avro = ours.avro(LINE, Line, registry=known, subject=subject("avro"), register=True)
    newer = ours.avro(NEWER, registry=known, subject=subject("avro"), register=True)
    as_json = ours.json(Line, registry=known, subject=subject("json"), register=True)
    protobuf = ours.protobuf(DeliveryStart, registry=known, subject=subject("protobuf"), register=True)
    theirs: Any
    for form, value, theirs, written, read in (
        (avro, tea, AvroSerializer(client, json.dumps(LINE)), plain, AvroDeserializer(client)),
        (as_json, tea, JSONSerializer(json.dumps(SCHEMA), client), plain, JSONDeserializer(None, schema_registry_client=client)),
        (
            protobuf,
            start,
            ProtobufSerializer(DeliveryStart, client, PROTOBUF),
            start,
            ProtobufDeserializer(DeliveryStart, PROTOBUF, client),
        ),
    ):
        payload = form.encoder()(value)
        assert form.decoder()(payload) == value
        assert read(payload, CONTEXT) == written
        theirs_context = SerializationContext(subject("theirs"), MessageField.VALUE)
        assert form.decoder()(theirs(written, theirs_context)) == value
    both = newer.encoder()({**plain, "note": "cold"})
    assert ours.avro(kind=Line, registry=known).decoder()(both) == tea
    assert newer.decoder()(avro.encoder()(tea)) == {**plain, "note": "none"}
    latest = ours.protobuf(DeliveryStart, registry=known, subject=subject("protobuf"))
    assert latest.encoder()(start) == protobuf.encoder()(start)

    client.set_compatibility(subject("avro"), "FULL")
    with pytest.raises(FormatError, match=rf"subject {subject('avro')}: 409 .*Incompatible"):
        ours.avro(NARROWER, registry=known, subject=subject("avro"), register=True).encoder()({"other": "x"})
    with pytest.raises(FormatError, match=r"subject none-value: 404"):
        ours.avro(kind=Line, registry=known, subject="none-value").encoder()(tea)
    with pytest.raises(FormatError, match=r"schema 4095: 404"):
        ours.avro(kind=Line, registry=known).decoder()(b"\0\0\0\x0f\xff\6tea\6")
    with pytest.raises(FormatError, match="the schema is of type JSON"):
        ours.avro(kind=Line, registry=known).decoder()(as_json.encoder()(tea))
    with pytest.raises(FormatError, match=r"schema \d+( of subject \S+)?: field count: the payload ends there"):
        avro.decoder()(avro.encoder()(tea)[:-1])
