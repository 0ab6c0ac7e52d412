"""Documents have the names and the values that the protocol's own JSON has."""

from typing import Any, get_args, get_type_hints

import pytest
from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.json_format import MessageToDict
from google.protobuf.message import Message
from google.protobuf.message_factory import GetMessageClass
from hypothesis import given
from hypothesis import strategies as st
from typing_extensions import TypedDict

from headrace.gateway_status import document as documents
from headrace.gateway_status import messages as messages_of
from headrace.gateway_status import timeline
from headrace.gateway_status.fields import UNKNOWN, Fields
from headrace.gateway_status.last_errors import NONE
from headrace.protocol.v1 import admin_documents, admin_pb2, connector_pb2, metrics_pb2, sink_pb2

REPORTED = set(documents.ReportedDocument.__annotations__)
ROWS: dict[Any, tuple[Any, set[str]]] = {
    documents.GatewayDocument: (admin_pb2.GatewayStatus, {"address"}),
    documents.StreamDocument: (admin_pb2.StreamStatus, {*NONE}),
    documents.ReportedDocument: (admin_pb2.ReportedStatus, {"state_age_ms", *NONE}),
    documents.SessionDocument: (admin_pb2.SessionStatus, REPORTED),
    documents.SinkSessionDocument: (admin_pb2.SinkSessionStatus, REPORTED),
    documents.PipelineDocument: (admin_pb2.PipelineStatus, {"committed", "steps", "series", *NONE}),
    documents.StepDocument: (metrics_pb2.StepMetrics, {"time_ms"}),
    admin_documents.SeriesDocument: (metrics_pb2.MetricSeries, set()),
    documents.SinkDocument: (admin_pb2.SinkStatus, {"committed", "lost", *NONE}),
    admin_documents.DeploymentDocument: (admin_pb2.DeploymentStatus, set()),
    admin_documents.SupervisedDocument: (admin_pb2.SupervisedConnector, set()),
    admin_documents.ProcessDocument: (admin_pb2.ProcessState, set()),
    documents.LostVoteDocument: (admin_pb2.LostVote, {"pipeline", "batch"}),
    admin_documents.TransactionDocument: (sink_pb2.Transaction, set()),
    admin_documents.ErrorDocument: (connector_pb2.ConnectorError, set()),
    documents.ProblemDocument: (admin_pb2.Problem, {"since"}),
    messages_of.PeekDocument: (admin_pb2.PeekResponse, {"messages"}),
    messages_of.PreviewDocument: (admin_pb2.BytesPreview, {"text", "base64"}),
    messages_of.HeaderDocument: (admin_pb2.HeaderPreview, {"value"}),
    messages_of.MessagePreviewDocument: (admin_pb2.MessagePreview, set(messages_of.ContentDocument.__annotations__)),
    messages_of.DeadLetterDocument: (admin_pb2.DeadLetter, {"committed_at", *messages_of.ContentDocument.__annotations__}),
    messages_of.DeadLettersDocument: (admin_pb2.ListDeadLettersResponse, {"sinks", "replay"}),
    messages_of.SinkDeadLettersDocument: (admin_pb2.SinkDeadLetters, {"letters"}),
    timeline.EventDocument: (admin_pb2.Event, {"at"}),
    timeline.TimelineDocument: (admin_pb2.ListBatchesResponse, {"batches", "summary"}),
    timeline.BatchDocument: (admin_pb2.BatchStatus, {"stages", "streams"}),
    timeline.BatchStreamDocument: (admin_pb2.BatchStreamStatus, {"epoch", "after", "end"}),
    timeline.MessageDocument: (
        admin_pb2.LocateMessageResponse,
        {"stream", "epoch", "sequence", "held_by", "pipelines", "problem"},
    ),
    timeline.MessageReaderDocument: (admin_pb2.MessageReader, {"since", "problem"}),
}
"""The message of each document, and the fields that are worked out."""
NOT_SHOWN = {
    metrics_pb2.StepMetrics: {"ahead", "fired", "time_us"},
    sink_pb2.Transaction: {"run"},
}
"""The fields that documents do not contain as they are, of files that cannot state the option `shown`."""
SHORT = st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=5)
SCALARS: dict[int, st.SearchStrategy[Any]] = {
    FieldDescriptor.TYPE_STRING: SHORT,
    FieldDescriptor.TYPE_BYTES: st.binary(max_size=5),
    FieldDescriptor.TYPE_BOOL: st.booleans(),
    FieldDescriptor.TYPE_DOUBLE: st.floats(allow_nan=False, allow_infinity=False),
    FieldDescriptor.TYPE_UINT32: st.integers(0, 2**32 - 1),
    FieldDescriptor.TYPE_UINT64: st.integers(0, 2**64 - 1),
    FieldDescriptor.TYPE_SINT64: st.integers(-(2**63), 2**63 - 1),
}


def not_shown(message: Any) -> set[str]:
    """The fields of a message that its document does not contain as they are."""
    options = {field.name: field.GetOptions().Extensions[admin_pb2.shown] for field in message.DESCRIPTOR.fields}
    return NOT_SHOWN.get(message, set()) | {name for name, shown in options.items() if shown == admin_pb2.SHOWN_NOT}


def values(field: FieldDescriptor, depth: int) -> st.SearchStrategy[Any]:
    """The values of one element of a field."""
    if field.message_type is not None:
        return messages(field.message_type, depth - 1)
    if field.enum_type is not None:
        return st.sampled_from([value.number for value in field.enum_type.values])
    return SCALARS[field.type]


@st.composite
def messages(draw: st.DrawFn, descriptor: Descriptor, depth: int = 3, without: frozenset[str] = frozenset()) -> Message:
    """A message of which each field is there or not."""
    made = GetMessageClass(descriptor)()
    for field in descriptor.fields:
        if (field.message_type is not None and depth == 0) or field.name in without or not draw(st.booleans()):
            continue
        if field.message_type is not None and field.message_type.GetOptions().map_entry:
            getattr(made, field.name).update(draw(st.dictionaries(SHORT, st.integers(0, 9), max_size=2)))
        elif field.is_repeated:
            getattr(made, field.name).extend(draw(st.lists(values(field, depth), max_size=2)))
        elif field.message_type is not None:
            getattr(made, field.name).CopyFrom(draw(values(field, depth)))
        else:
            setattr(made, field.name, draw(values(field, depth)))
    return made


def agree(found: Any, told: Any, field: FieldDescriptor) -> None:
    """Asserts that a value of a document is the value of the protocol's JSON."""
    if found is None:
        assert told in (None, "") or (field.enum_type is not None and told.endswith("_UNSPECIFIED"))
    elif isinstance(told, list):
        assert len(found) == len(told)
        for one, other in zip(found, told, strict=True):
            agree(one, other, field)
    elif field.message_type is not None and not field.message_type.GetOptions().map_entry:
        for name in found.keys() & field.message_type.fields_by_name.keys():
            agree(found[name], told.get(name), field.message_type.fields_by_name[name])
    elif field.message_type is not None:
        assert {key: str(value) for key, value in found.items()} == told
    elif field.enum_type is not None:
        is_named = told.lower().endswith("_" + found.replace(" ", "_").replace("-", "_"))
        assert is_named or (found == UNKNOWN and told.endswith("_UNSPECIFIED"))
    else:
        assert str(found) == str(told)


@pytest.mark.parametrize("document", ROWS, ids=lambda document: document.__name__)
@given(data=st.data())
def test_a_document_has_the_values_of_the_protocols_json(document: Any, data: st.DataObject) -> None:
    message, worked_out = ROWS[document]
    made = data.draw(messages(message.DESCRIPTOR, without=frozenset(not_shown(message))))
    found = Fields(document, message.DESCRIPTOR, *worked_out)(made, dict.fromkeys(worked_out))
    told = MessageToDict(made, preserving_proto_field_name=True, always_print_fields_with_no_presence=True)
    assert set(found) == set(get_type_hints(document))
    for name in found.keys() - worked_out:
        agree(found[name], told.get(name), message.DESCRIPTOR.fields_by_name[name])


@pytest.mark.parametrize("document", ROWS, ids=lambda document: document.__name__)
def test_every_field_of_a_message_is_shown_or_declares_that_it_is_not(document: Any) -> None:
    message, worked_out = ROWS[document]
    assert set(message.DESCRIPTOR.fields_by_name) - not_shown(message) - worked_out == set(get_type_hints(document)) - worked_out


def test_a_timeline_names_every_stage_of_a_micro_batch() -> None:
    stages = get_args(admin_documents.BatchStage)
    assert tuple(timeline.StagesDocument.__annotations__) == stages
    assert tuple(timeline.SummaryDocument.__annotations__) == stages[1:]


class Misspelt(TypedDict):
    message: str
    mesage: str


class NeverAbsent(TypedDict):
    age_ms: int | None


@pytest.mark.parametrize(
    ("document", "reason"),
    [(Misspelt, "Misspelt.mesage: ConnectorError has no such field"), (NeverAbsent, "NeverAbsent.age_ms may be None, but")],
)
def test_a_document_that_does_not_fit_its_message_is_refused(document: Any, reason: str) -> None:
    with pytest.raises(TypeError, match=reason):
        Fields(document, connector_pb2.ConnectorError.DESCRIPTOR)
