"""Messages as the scripts of sessions write them: protobuf's JSON, and frames in columns."""

from collections.abc import Callable
from typing import Any

from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.json_format import ParseDict
from google.protobuf.message import Message
from tests.vectors.packing import pack, unpack

from headrace.protocol.v1.frame_pb2 import Frame

Written = dict[str, Any]
"""A message as a script writes it: its kind, and its fields."""
Labels = Callable[[str, int], int]
"""The value of a field for which the script has a label, by the field's name."""


def kind_of(written: Written) -> str:
    """The kind of a message, such as `open_stream`."""
    (kind,) = written
    return kind


def build(envelope: type[Message], written: Written, labels: Labels = lambda _, label: label) -> Any:
    """The message, in its request or response."""
    kind, content = kind_of(written), written[kind_of(written)]
    message = envelope()
    if kind == "frame" and "frame" in content:
        message.frame.id = int(content["id"])  # type: ignore[attr-defined]
        message.frame.frame.CopyFrom(pack(content["frame"]))  # type: ignore[attr-defined]
    elif kind == "frame":
        message.frame.CopyFrom(pack(content))  # type: ignore[attr-defined]
    else:
        ParseDict({kind: content}, message)
        getattr(message, kind).SetInParent()
    _relabel(message, labels)
    return message


def _relabel(message: Message, labels: Labels) -> None:
    for field, value in message.ListFields():
        if field.name in ("stream_id", "epoch"):
            setattr(message, field.name, labels(field.name, value))
        elif field.message_type and not isinstance(value, Frame):
            for each in value if field.is_repeated else [value]:
                _relabel(each, labels)
        elif isinstance(value, Frame):
            _relabel(value, labels)


def difference(written: Written, wanted: Message, found: Message, but: frozenset[str] = frozenset()) -> str | None:
    """Where a message differs from what a script says of it; fields that the script does not name may be anything."""
    for name, value in written.items():
        if name in but:
            continue
        field = wanted.DESCRIPTOR.fields_by_name[name]
        one, other = getattr(wanted, name), getattr(found, name)
        if isinstance(one, Frame):
            where = _frame_difference(value, one, other)
        elif field.is_repeated:
            where = _list_difference(field, value, one, other, but)
        elif field.message_type:
            absent = not found.HasField(name)
            where = "is absent" if absent else difference(value, one, other, but)
        else:
            where = None if one == other else f"is {other!r} instead of {one!r}"
        if where is not None:
            return f"{name} {where}"
    return None


def _list_difference(field: FieldDescriptor, value: list[Any], one: Any, other: Any, but: frozenset[str]) -> str | None:
    if len(one) != len(other):
        return f"has {len(other)} entries instead of {len(one)}"
    for at, (written, wanted, found) in enumerate(zip(value, one, other, strict=True)):
        where = difference(written, wanted, found, but) if field.message_type else None if wanted == found else f"is {found!r}"
        if where is not None:
            return f"[{at}] {where}"
    return None


def _frame_difference(columns: dict[str, Any], wanted: Frame, found: Frame) -> str | None:
    one, other = unpack(wanted), unpack(found)
    return next((f"{name}: {other[name]} instead of {one[name]}" for name in columns if one[name] != other[name]), None)
