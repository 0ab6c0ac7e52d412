"""The commit timeline of a pipeline, and where a message stands, as plain data. Its names and types are stable."""

from datetime import UTC, datetime, timedelta
from typing import Literal, cast

# Pydantic, which makes the JSON schemas, needs this one before Python 3.12.
from typing_extensions import TypedDict

from headrace.gateway_status.convert import problem_document
from headrace.gateway_status.document import ProblemDocument
from headrace.gateway_status.fields import UNKNOWN, Words
from headrace.protocol.v1 import admin_pb2 as pb
from headrace.protocol.v1.frame_pb2 import Position

Stage = Literal["planned", "read", "processed", "staged", "voted", "committed", "sink_committed", "acknowledged"]
MessageState = Literal["not-received", "not-planned", "in-batch", "committed", "acknowledged", "redelivered"]
_STAGES = Words(pb.BatchStage.items(), "BATCH_STAGE_", "_")
_MESSAGE_STATES = Words(pb.MessageState.items(), "MESSAGE_STATE_")


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


class BatchStreamDocument(TypedDict):
    """What a micro-batch reads of one stream: the messages after a sequence, which is null at the beginning, up to another."""

    stream: str
    epoch: int
    after: int | None
    end: int
    messages: int | None


class BatchDocument(TypedDict):
    """One micro-batch. Its number is null until the gateway learns it."""

    batch: int | None
    rebuilt: bool
    redelivered: bool
    stages: StagesDocument
    streams: list[BatchStreamDocument]
    streams_in_all: int


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


class TimelineDocument(TypedDict):
    """The last micro-batches of a pipeline, newest first."""

    pipeline: str
    batches: list[BatchDocument]
    summary: SummaryDocument


class MessageReaderDocument(TypedDict):
    """How far a message is in one pipeline."""

    pipeline: str
    state: MessageState
    batch: int | None
    stage: Stage | None
    since: str | None
    reason: str
    problem: ProblemDocument | None


class MessageDocument(TypedDict):
    """Where a message stands."""

    stream: str
    epoch: int
    sequence: int
    state: MessageState
    reason: str
    held_by: list[str]
    pipelines: list[MessageReaderDocument]
    problem: ProblemDocument | None


def timeline_document(answer: pb.ListBatchesResponse) -> TimelineDocument:
    """Converts the micro-batches of a pipeline to plain data."""
    return {
        "pipeline": answer.pipeline,
        "batches": [_batch(batch) for batch in answer.batches],
        "summary": _summary([{time.stage: time.at_ms for time in b.stages} for b in answer.batches if not b.rebuilt]),
    }


def message_document(answer: pb.LocateMessageResponse) -> MessageDocument:
    """Converts where a message stands to plain data."""
    now = datetime.now(UTC)
    behind = (pb.MESSAGE_STATE_NOT_RECEIVED, pb.MESSAGE_STATE_NOT_PLANNED, pb.MESSAGE_STATE_IN_BATCH)
    return {
        "stream": answer.message.stream,
        "epoch": answer.message.position.epoch,
        "sequence": answer.message.position.sequence,
        "state": _state(answer.state),
        "reason": answer.reason,
        "held_by": [reader.pipeline for reader in answer.readers if reader.state in behind],
        "pipelines": [
            {
                "pipeline": reader.pipeline,
                "state": _state(reader.state),
                "batch": reader.batch if reader.HasField("batch") else None,
                "stage": cast(Stage, _stage(reader.stage)) if reader.stage else None,
                "since": _ago(now, reader.age_ms) if reader.HasField("age_ms") else None,
                "reason": reader.reason,
                "problem": problem_document(reader.problem, now) if reader.HasField("problem") else None,
            }
            for reader in answer.readers
        ],
        "problem": problem_document(answer.problem, now) if answer.HasField("problem") else None,
    }


def _batch(batch: pb.BatchStatus) -> BatchDocument:
    return {
        "batch": batch.batch if batch.HasField("batch") else None,
        "rebuilt": batch.rebuilt,
        "redelivered": batch.redelivered,
        "stages": cast(
            StagesDocument, {_stage(time.stage): _time(time.at_ms) for time in batch.stages if _stage(time.stage) != UNKNOWN}
        ),
        "streams": [
            {
                "stream": read.stream,
                "epoch": read.end.epoch,
                "after": _after(read.after, read.end) if read.HasField("after") else None,
                "end": read.end.sequence,
                "messages": read.messages if read.HasField("messages") else None,
            }
            for read in batch.streams
        ],
        "streams_in_all": batch.streams_in_all,
    }


def _after(after: Position, end: Position) -> int | None:
    """Returns a sequence of the epoch in which the micro-batch ends; None if it reads all of this epoch."""
    return after.sequence if after.epoch == end.epoch else None


def _summary(batches: list[dict[pb.BatchStage.ValueType, int]]) -> SummaryDocument:
    found: dict[str, DurationDocument] = {}
    for stage in pb.BatchStage.values()[2:]:
        spans = [b[stage] - b[pb.BATCH_STAGE_PLANNED] for b in batches if stage in b and pb.BATCH_STAGE_PLANNED in b]
        if spans:
            found[_stage(stage)] = {"min_ms": min(spans), "avg_ms": round(sum(spans) / len(spans)), "max_ms": max(spans)}
    return cast(SummaryDocument, found)


def _stage(stage: pb.BatchStage.ValueType) -> str:
    return _STAGES[stage]


def _state(state: pb.MessageState.ValueType) -> MessageState:
    return cast(MessageState, _MESSAGE_STATES[state])


def _time(at_ms: int) -> str:
    return _iso(datetime.fromtimestamp(at_ms / 1000, UTC))


def _ago(now: datetime, age_ms: int) -> str:
    return _iso(now - timedelta(milliseconds=age_ms))


def _iso(at: datetime) -> str:
    return at.isoformat(timespec="milliseconds").replace("+00:00", "Z")
