"""Named fault points: the instructions of the product at which a process can be killed, from outside, without a hook in it.

Needs the standard library only, since `hooks/sitecustomize.py` loads it into every process of a world.
"""

import os
import sys
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import Any

Arguments = tuple[Any, ...]
Applies = Callable[[Arguments, Any], bool]


class At(Enum):
    """Where in a function a point lies."""

    ENTRY = "it is called"
    RETURN = "it is about to return, or a generator to end"
    DONE = "it is about to return from a call that was meant when it began"
    ITEM = "a generator is about to yield an item"
    ITEM_TAKEN = "what was done with a generator's item is done, and it is asked for the next"


def always(arguments: Arguments, result: Any) -> bool:
    """Every call is meant."""
    return True


@dataclass(frozen=True)
class Point:
    """An instruction at which a process dies.

    Attributes:
        role: Whose process it is. The driver is killed with all that it has started.
        event: The event that has not, or has just, happened there.
        when: `before` or `after` the event.
        module: The module of the function.
        function: Its qualified name.
        at: Where in the function.
        applies: Tells the calls that are meant by their arguments and, where it is known, by what is returned or yielded.
    """

    role: str
    event: str
    when: str
    module: str
    function: str
    at: At
    applies: Applies = always

    @property
    def name(self) -> str:
        """As files and tests name it."""
        return f"{self.role}.{self.event}.{self.when}"


def _in_process_of(role: str, applies: Applies = always) -> Applies:
    """Restricts a point of the SDK, which all connectors run, to connectors of one role."""
    return lambda arguments, result: os.environ.get("HEADRACE_CHAOS_ROLE") == role and applies(arguments, result)


def _is_frame(arguments: Arguments, result: Any) -> bool:
    request = arguments[1]
    return type(request).__name__ == "IngestRequest" and request.WhichOneof("message") in ("frame", "frames")


def _has_ack(arguments: Arguments, item: Any) -> bool:
    return bool(item.HasField("ack"))


def _is_commit(arguments: Arguments, item: Any) -> bool:
    # A frame is handed on as the bytes it came in.
    return item is not None and not isinstance(item, bytes) and bool(item.HasField("commit"))


def _has_position(arguments: Arguments, result: Any) -> bool:
    return arguments[0]._position is not None


def _is_some(arguments: Arguments, result: Any) -> bool:
    return bool(result)


def _plans(arguments: Arguments, result: Any) -> bool:
    return bool(getattr(result, "ranges", result))


def _is_new_end(arguments: Arguments, result: Any) -> bool:
    return bool(result != arguments[1])


def _is_new_batch(arguments: Arguments, result: Any) -> bool:
    return bool(arguments[1] != arguments[2])


def _is_after_a_batch(arguments: Arguments, result: Any) -> bool:
    planner = arguments[0]._planner
    return planner is not None and planner._last_start != planner._last_end == arguments[1]


def _of_source(role: str) -> list[Point]:
    sent, of_frame = ("headrace.sdk.wire._call", "Call.write"), _in_process_of(role, _is_frame)
    received, told = (
        ("headrace.sdk.sources.stream", "Stream.acknowledge"),
        ("headrace.sdk.sources.reader", "ThreadReader._deliver"),
    )
    return [
        Point(role, "frame-sent", "before", *sent, At.ENTRY, of_frame),
        Point(role, "frame-sent", "after", *sent, At.RETURN, of_frame),
        Point(role, "ack-received", "before", *received, At.ENTRY, _in_process_of(role)),
        Point(role, "ack-received", "after", *told, At.DONE, _in_process_of(role, _has_position)),
    ]


_GATEWAY = "headrace.gateway.core"
_DELIVERING, _PARTS = f"{_GATEWAY}.batches.delivering", f"{_GATEWAY}.sinks.session"
_PLANNING, _SESSION = f"{_GATEWAY}.batches.planning", f"{_GATEWAY}.streams.session"
_ENGINE_SERVICE = "headrace.gateway.services.engine"
_READER, _WRITER, _DELIVERY = "headrace.engine.source.reader", "headrace.engine.sink.writer", "headrace.engine.sink.delivery"
_MANIFESTS, _STATES = "headrace.engine.checkpoint.manifests", "headrace.engine.applications.states.bucket_files"
_FILES, _STAGING = "headrace.connectors.file._sink", "headrace.connectors.file.staging"
_HELD = "headrace.sdk.sinks.idempotent"

POINTS: tuple[Point, ...] = (
    *_of_source("replayable"),
    *_of_source("redelivering"),
    Point("gateway", "frame-accepted", "before", f"{_GATEWAY}.intake.intake", "take_frame", At.ENTRY),
    Point("gateway", "frame-accepted", "after", f"{_GATEWAY}.intake.intake", "take_frame", At.RETURN),
    Point("gateway", "range-planned", "before", _PLANNING, "plan", At.RETURN, _plans),
    Point("gateway", "range-planned", "after", _ENGINE_SERVICE, "EngineService._plan", At.RETURN, _plans),
    Point("gateway", "rows-delivered", "before", _PARTS, "SinkSession.finish_part", At.ENTRY),
    Point("gateway", "rows-delivered", "after", _PARTS, "SinkSession.finish_part", At.RETURN),
    Point("gateway", "vote", "before", _DELIVERING, "vote", At.ENTRY),
    Point("gateway", "vote", "after", _DELIVERING, "vote", At.RETURN),
    Point("gateway", "commit-told", "before", _PARTS, "SinkSession.waiting", At.RETURN, _is_commit),
    Point("gateway", "commit-told", "after", _PARTS, "SinkSession.committed", At.ENTRY),
    Point("gateway", "ack-sent", "before", _SESSION, "Session.waiting", At.ITEM, _has_ack),
    Point("gateway", "ack-sent", "after", _SESSION, "Session.waiting", At.ITEM_TAKEN, _has_ack),
    Point("driver", "offsets-written", "before", _READER, "StreamReader.latestOffset", At.RETURN, _is_new_end),
    Point("driver", "offsets-written", "after", _READER, "Reader.partitions", At.ENTRY, _is_new_batch),
    Point("driver", "manifest-written", "before", _MANIFESTS, "ManifestLog.write", At.ENTRY),
    Point("driver", "manifest-written", "after", _MANIFESTS, "ManifestLog.write", At.RETURN),
    Point("driver", "commits-written", "before", _WRITER, "Writer.commit", At.RETURN),
    Point("driver", "commits-written", "after", _READER, "StreamReader.latestOffset", At.ENTRY, _is_after_a_batch),
    Point("executor", "range-read", "before", _READER, "StreamReader.read", At.ENTRY),
    Point("executor", "range-read", "after", _READER, "StreamReader.read", At.RETURN),
    Point("executor", "states-written", "before", _STATES, "BucketFiles.finish", At.ENTRY),
    Point("executor", "states-written", "after", _STATES, "BucketFiles.finish", At.RETURN),
    Point("executor", "rows-delivered", "before", _DELIVERY, "Delivery.finish", At.ENTRY),
    Point("executor", "rows-delivered", "after", _DELIVERY, "Delivery.finish", At.RETURN),
    Point("two-phase", "part-staged", "before", _STAGING, "Staging.finish", At.ENTRY),
    Point("two-phase", "part-staged", "after", _STAGING, "Staging.finish", At.RETURN),
    Point("two-phase", "vote", "before", _FILES, "FileSink.prepare", At.ENTRY),
    Point("two-phase", "vote", "after", _FILES, "FileSink.prepare", At.RETURN),
    Point("two-phase", "commit", "before", _FILES, "FileSink.commit", At.ENTRY),
    Point("two-phase", "commit", "after", _FILES, "FileSink.commit", At.RETURN),
    Point("idempotent", "part-held", "before", _HELD, "IdempotentHandler.end", At.ENTRY),
    Point("idempotent", "part-held", "after", _HELD, "IdempotentHandler.end", At.RETURN),
    Point("idempotent", "vote", "before", _HELD, "IdempotentHandler.prepare", At.ENTRY),
    Point("idempotent", "vote", "after", _HELD, "IdempotentHandler._write", At.RETURN),
)
"""Every point. Of the idempotent sink, the vote is the commit: what is written before it answers is visible."""

_REAL_TIME = "headrace.engine.applications.real_time"


def _in_bucket_process(arguments: Arguments, result: Any) -> bool:
    """Whether it is a process with a share of the buckets, and not the driver."""
    return "bucket_process" in sys.argv[0]


REAL_TIME_POINTS: tuple[Point, ...] = (
    Point("gateway", "frames-followed", "before", f"{_GATEWAY}.batches.following", "_after", At.RETURN, _is_some),
    Point("driver", "message-processed", "before", f"{_REAL_TIME}.processor", "Processor.process", At.ENTRY),
    Point("driver", "message-processed", "after", f"{_REAL_TIME}.processor", "Processor.process", At.RETURN),
    Point("driver", "results-delivered", "before", f"{_REAL_TIME}.parts", "PartsCall.send", At.ENTRY),
    Point("driver", "results-delivered", "after", f"{_REAL_TIME}.at_once", "AtOnce._answered", At.ENTRY),
    Point("driver", "states-saved", "before", f"{_REAL_TIME}.processor", "Processor.save", At.ENTRY),
    Point("driver", "states-saved", "after", f"{_REAL_TIME}.processor", "Processor.save", At.RETURN),
    Point("worker", "rows-processed", "before", f"{_REAL_TIME}.buckets", "Buckets.process", At.ENTRY, _in_bucket_process),
    Point("worker", "rows-processed", "after", f"{_REAL_TIME}.buckets", "Buckets.process", At.RETURN, _in_bucket_process),
    Point("worker", "share-saved", "before", f"{_REAL_TIME}.buckets", "Buckets.save", At.ENTRY, _in_bucket_process),
    Point("worker", "share-saved", "after", f"{_REAL_TIME}.buckets", "Buckets.save", At.RETURN, _in_bucket_process),
    Point("driver", "batch-processed", "after", f"{_REAL_TIME}.reader", "RealTimeReader.partitions", At.ENTRY, _is_new_batch),
)
"""Those of real-time mode alone."""
