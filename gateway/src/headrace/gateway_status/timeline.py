"""Events, the commit timeline of a pipeline, and where a message stands, as plain data. The names are stable."""

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta

# Pydantic, which makes the JSON schemas, needs this one before Python 3.12.
from typing_extensions import TypedDict

from headrace.contract.limits import MAX_SEQUENCE
from headrace.gateway_status.convert import problem_document
from headrace.gateway_status.document import ProblemDocument
from headrace.gateway_status.fields import UNKNOWN, Fields, since_1970, time_text, words_of
from headrace.protocol.v1 import admin_pb2 as pb
from headrace.protocol.v1.admin_documents import (
    BatchFields,
    BatchStage,
    BatchStreamFields,
    EventFields,
    MessageFields,
    MessageReaderFields,
    MessageState,
    TimelineFields,
)

MESSAGE_STATES: Mapping[MessageState, str] = {
    "not-received": "has not arrived at the gateway",
    "not-planned": "waits for a micro-batch",
    "in-batch": "is in a micro-batch that is not committed",
    "committed": "is committed, and its source is not told yet",
    "acknowledged": "is acknowledged",
    "redelivered": "was delivered again under another sequence",
}
"""What a message does, by its state."""
_STAGES = words_of(BatchStage, pb.BatchStage.DESCRIPTOR)
_BEHIND = (pb.MESSAGE_STATE_NOT_RECEIVED, pb.MESSAGE_STATE_NOT_PLANNED, pb.MESSAGE_STATE_IN_BATCH)


class EventDocument(EventFields):
    """Something that happened: its number since the gateway started, when in UTC, its kind, to what, and what."""

    at: str


class EventLogDocument(TypedDict):
    """The last events, oldest first, and since when the gateway counts them."""

    started: str
    events: list[EventDocument]


class StagesDocument(TypedDict, total=False):
    """When a micro-batch reached each stage, in UTC; absent if it has not, or does not have the stage."""

    planned: str
    read: str
    processed: str
    staged: str
    voted: str
    committed: str
    sink_committed: str
    acknowledged: str


class BatchStreamDocument(BatchStreamFields):
    """What a micro-batch reads of one stream: the messages after a sequence, which is null at the beginning, up to another."""

    epoch: int
    after: int | None
    end: int


class BatchDocument(BatchFields):
    """One micro-batch. Its number is null until the gateway learns it."""

    stages: StagesDocument
    streams: list[BatchStreamDocument]


class DurationDocument(TypedDict):
    """How long after `planned` a stage was reached."""

    min_ms: int
    avg_ms: int
    max_ms: int


class SummaryDocument(TypedDict, total=False):
    """The durations of each stage that micro-batches have reached, without micro-batches that were rebuilt."""

    read: DurationDocument
    processed: DurationDocument
    staged: DurationDocument
    voted: DurationDocument
    committed: DurationDocument
    sink_committed: DurationDocument
    acknowledged: DurationDocument


class TimelineDocument(TimelineFields):
    """The last micro-batches of a pipeline, newest first."""

    batches: list[BatchDocument]
    summary: SummaryDocument


class MessageReaderDocument(MessageReaderFields):
    """How far a message is in one pipeline."""

    since: str | None
    problem: ProblemDocument | None


class MessageDocument(MessageFields):
    """Where a message stands."""

    stream: str
    epoch: int
    sequence: int
    held_by: list[str]
    pipelines: list[MessageReaderDocument]
    problem: ProblemDocument | None


def event_log_document(answer: pb.ListEventsResponse) -> EventLogDocument:
    """Converts events to plain data."""
    return _event_log(answer, {"started": since_1970(milliseconds=answer.started_ms)})


def timeline_document(answer: pb.ListBatchesResponse) -> TimelineDocument:
    """Converts the micro-batches of a pipeline to plain data."""
    return _timeline(answer)


def message_document(answer: pb.LocateMessageResponse) -> MessageDocument:
    """Converts where a message stands to plain data."""
    now = datetime.now(UTC)

    def problem_of(part: pb.LocateMessageResponse | pb.MessageReader) -> ProblemDocument | None:
        return problem_document(part.problem, now) if part.HasField("problem") else None

    def reader_document(reader: pb.MessageReader) -> MessageReaderDocument:
        since = time_text(now - timedelta(milliseconds=reader.age_ms)) if reader.HasField("age_ms") else None
        return _reader(reader, {"since": since, "problem": problem_of(reader)})

    return _message(
        answer,
        {
            "stream": answer.message.stream,
            "epoch": answer.message.position.epoch,
            "sequence": answer.message.position.sequence,
            "held_by": [reader.pipeline for reader in answer.readers if reader.state in _BEHIND],
            "pipelines": [reader_document(reader) for reader in answer.readers],
            "problem": problem_of(answer),
        },
    )


def oldest_unacknowledged(status: pb.GetStatusResponse, stream: str) -> tuple[int | None, int]:
    """Returns the epoch and the sequence of the oldest message of a stream that is not acknowledged.

    They follow the last acknowledged position. If sequences have gaps, there may be no such message; the answer then describes
    the next one. For a stream that the gateway does not know, any sequence will do: the gateway refuses it.
    """
    found = next((one for one in status.streams if one.stream == stream), None)
    if found is None or not found.HasField("received"):
        return None, 0
    if not found.HasField("acknowledged") or found.acknowledged.epoch < found.received.epoch:
        return found.received.epoch, 0
    return found.acknowledged.epoch, min(found.acknowledged.sequence + 1, MAX_SEQUENCE)


def _times(batch: pb.BatchStatus) -> Mapping[str, object]:
    """Returns when a micro-batch reached each stage; a later release may know further stages."""
    known = [(_STAGES.get(time.stage, UNKNOWN), time.at_ms) for time in batch.stages]
    return {"stages": {word: since_1970(milliseconds=at_ms) for word, at_ms in known if word != UNKNOWN}}


def _ends(read: pb.BatchStreamStatus) -> Mapping[str, object]:
    """Returns what is read, in the epoch in which the micro-batch ends; `after` is None if it reads all of this epoch."""
    is_within = read.HasField("after") and read.after.epoch == read.end.epoch
    return {"epoch": read.end.epoch, "after": read.after.sequence if is_within else None, "end": read.end.sequence}


def _summary(answer: pb.ListBatchesResponse) -> Mapping[str, object]:
    batches = [{time.stage: time.at_ms for time in batch.stages} for batch in answer.batches if not batch.rebuilt]
    found: dict[str | None, DurationDocument] = {}
    for stage in pb.BatchStage.values()[2:]:
        spans = [b[stage] - b[pb.BATCH_STAGE_PLANNED] for b in batches if stage in b and pb.BATCH_STAGE_PLANNED in b]
        if spans:
            found[_STAGES[stage]] = {"min_ms": min(spans), "avg_ms": round(sum(spans) / len(spans)), "max_ms": max(spans)}
    return {"summary": found}


def _at(event: pb.Event) -> Mapping[str, object]:
    return {"at": since_1970(milliseconds=event.at_ms)}


_event = Fields(EventDocument, pb.Event.DESCRIPTOR, "at", values_of=_at)
_event_log = Fields(EventLogDocument, pb.ListEventsResponse.DESCRIPTOR, "started", inner=(_event,))
_stream = Fields(BatchStreamDocument, pb.BatchStreamStatus.DESCRIPTOR, "epoch", "after", "end", values_of=_ends)
_batch = Fields(BatchDocument, pb.BatchStatus.DESCRIPTOR, "stages", values_of=_times, inner=(_stream,))
_timeline = Fields(TimelineDocument, pb.ListBatchesResponse.DESCRIPTOR, "summary", values_of=_summary, inner=(_batch,))
_reader = Fields(MessageReaderDocument, pb.MessageReader.DESCRIPTOR, "since", "problem")
_message = Fields(
    MessageDocument,
    pb.LocateMessageResponse.DESCRIPTOR,
    *("stream", "epoch", "sequence", "held_by", "pipelines", "problem"),
)
