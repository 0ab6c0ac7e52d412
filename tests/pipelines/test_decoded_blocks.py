"""A source with a format decodes a block in one call: with the results, the errors and the notes of one value at a time."""

import enum
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Annotated, Any, NamedTuple

import msgspec
import pydantic
import pytest
from google.protobuf.struct_pb2 import Struct
from hypothesis import given
from hypothesis import strategies as st

from headrace.pipelines import Message, OnError, Pipeline, Trial
from headrace.pipelines.formats import Decoder, Format, avro, json, protobuf, text

SCHEMA = {"type": "record", "name": "Line", "fields": [{"name": "article", "type": "string"}, {"name": "count", "type": "int"}]}


@dataclass
class Line:
    article: str
    count: int = 1
    notes: list[str] = field(default_factory=list)


class LineTuple(NamedTuple):
    article: str
    count: int = 1


class LineModel(pydantic.BaseModel):
    article: str
    count: int = 1


FORMATS: list[Format[Any]] = [
    text,
    json,
    json(Line),
    json(LineTuple, drop_null=True),
    json(LineModel),
    json(list[Line]),
    avro(SCHEMA, drop_null=True),
    avro(SCHEMA, Line),
    protobuf(Struct),
    protobuf(Struct, drop_null=True),
]
AVRO_LINE = avro(SCHEMA).encoder()({"article": "tea", "count": 3})
PAYLOADS = (
    st.none()
    | st.binary(max_size=4)
    | st.sampled_from(
        [
            b'{"article": "tea"}',
            b'{"article": "tea", "count": 3}',
            b'{"article": 1}',
            b"null",
            b"[]",
            b'[{"article": "a"}]',
            b"\xff",
            b'{"article": "tea"',
            b', "count": 2}',
            AVRO_LINE,
            AVRO_LINE + b"x",
            AVRO_LINE[:2],
            Struct(fields={}).SerializeToString(),
        ]
    )
)


@pytest.mark.parametrize("form", FORMATS, ids=lambda form: form.name)
@given(payloads=st.lists(PAYLOADS, max_size=12), ends=st.lists(st.integers(0, 12), max_size=3))
def test_a_block_is_decoded_as_each_of_its_values_alone(form: Format[Any], payloads: list[bytes | None], ends: list[int]) -> None:
    found = []
    decoder = form.decoder()
    for decode in (form, lambda payload: decoder(payload)):
        app = Pipeline("decoded", on_error=OnError.DEAD_LETTER, dead_letters="failed")
        app.source("lines/*", decode=decode, name="lines").map(repr, name="shown").sink("shown")
        trial, begin = Trial(app), 0
        for end in [*sorted(ends), len(payloads)]:
            trial.send(*(Message(payload, stream="lines/0") for payload in payloads[begin:end]))
            begin = max(begin, end)
        found.append((trial.values("shown"), trial.failed, trial.written["failed"]))
    assert found[0] == found[1]


class Kind(enum.Enum):
    A = "a"


class Lenient(enum.Enum):
    A = "a"

    @classmethod
    def _missing_(cls, value: object) -> "Lenient":
        return cls.A


@dataclass
class Checked:
    count: int

    def __post_init__(self) -> None:
        assert self.count


class CheckedStruct(msgspec.Struct):
    count: int

    def __post_init__(self) -> None:
        assert self.count


@dataclass
class Made:
    id: str = field(default_factory=lambda: "x")


@dataclass
class Tree:
    kind: Kind
    below: "list[Tree]"
    share: Annotated[float, msgspec.Meta(ge=0)] = 1.0
    pair: tuple[int, LineTuple] | None = None


@dataclass
class Outer:
    inner: dict[str, "tuple[int, list[Checked] | None]"]


@pytest.mark.parametrize(
    ("kind", "is_one_by_one"),
    [
        (None, False),
        (Line, False),
        (list[Line], False),
        (LineTuple, False),
        (Tree, False),
        (Struct, False),
        (Kind, False),
        (Lenient, True),
        (Checked, True),
        (CheckedStruct, True),
        (Made, True),
        (Outer, True),
        (LineModel, True),
    ],
)
def test_what_calls_the_application_is_decoded_one_by_one_since_each_call_is_noted(kind: Any, is_one_by_one: bool) -> None:
    form = protobuf(kind) if kind is Struct else json(kind)
    assert form.calls_application == is_one_by_one
    assert (form.decoder().at_once([]) is None) == is_one_by_one


def test_one_call_decodes_the_block_of_a_source(monkeypatch: pytest.MonkeyPatch) -> None:
    alone = list[bytes]()
    called: Callable[[Any, Any], Any] = Decoder.__call__

    def note(decoder: Any, payload: Any) -> Any:
        alone.append(payload)
        return called(decoder, payload)

    monkeypatch.setattr(Decoder, "__call__", note)
    app = Pipeline("decoded", on_error=OnError.SKIP)
    app.source("lines/*", decode=json(Line)).sink("copies", encode=json(Line))
    trial = Trial(app)
    trial.send(*(Message(b'{"article": "tea"}', stream="lines/0") for _ in range(3)))
    assert (len(trial.values("copies")), alone) == (3, [])
    trial.send(Message(b'{"article": "tea"}', stream="lines/0"), Message(b"{}", stream="lines/0"))
    assert (len(trial.values("copies")), alone) == (4, [b'{"article": "tea"}', b"{}"])
