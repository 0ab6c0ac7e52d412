"""The errors of the engine.

HeadraceError
├── OptionError        an option of the source or the sink is invalid
├── SchemaError        the rows to write do not have a sink's schema
├── DecodeError        a message's value cannot be decoded
├── CheckpointError    the checkpoint does not match the query, or is invalid
│   ├── OlderCheckpoint    a sink has committed a batch that is not in the checkpoint
│   ├── Replaced           another run of the query has started on the checkpoint
│   └── PositionRefused    a stream cannot be moved to a position
├── SpillError         states beyond a worker's memory cannot be written to its local disk
├── LakeError          a table of files cannot be written, or does not match the checkpoint
├── HistoryError       a file of the past cannot be read, or does not say what a message is
├── FrameError         the columns of a frame are inconsistent
├── SinkFailed         a sink cannot write a batch
│   ├── SinkRefused        it permanently rejects messages
│   ├── SinkLost           it has lost rows that it voted for
│   └── NotAtOnce          it writes nothing before its vote
└── GatewayError       the gateway rejected a call, or did not answer
    ├── GatewayAway        it is unavailable
    │   ├── SinkAway           no connector serves a sink of the query
    │   ├── StreamAway         no connector provides a stream that a bounded run must read
    │   └── SourceSilent       a source sends none of the messages that a batch needs
    ├── NotAllowed         the token is missing, invalid, or does not permit the call
    ├── TakenOver          a newer run of the same pipeline has taken over
    ├── NotAttached        it does not know the pipeline; the engine attaches again by itself
    └── MessagesLost       a source no longer has messages that the pipeline must read
"""

from typing import ClassVar

from headrace.contract.errors import HeadraceError


class OptionError(HeadraceError, ValueError):
    """An option is unknown, missing, or has an invalid value."""


class SchemaError(HeadraceError, ValueError):
    """The rows to write have a column that sinks do not accept, or no column `value`."""


class DecodeError(HeadraceError, ValueError):
    """A message's value is not of the format and schema that the options `decode` and `schema` name."""


class CheckpointError(HeadraceError):
    """The checkpoint is invalid, belongs to another pipeline, or Spark violated the order of calls that positions rely on."""


class OlderCheckpoint(CheckpointError):
    """A sink has committed a batch that is not in the checkpoint: an older checkpoint was restored."""


class Replaced(CheckpointError):
    """Another run of the query has started on the same checkpoint, so this run must end."""


class PositionRefused(CheckpointError):
    """A stream cannot be moved to a position, or not safely."""


class SpillError(HeadraceError):
    """States for which a worker has no memory cannot be written to, or read from, its local disk."""


class LakeError(HeadraceError):
    """A table of files cannot be written, has lost files of a micro-batch, or does not match the checkpoint."""


class HistoryError(HeadraceError):
    """A file of the past cannot be read, has changed, or lacks a field of its messages; or a live message lacks its place."""


class FrameError(HeadraceError):
    """The columns of a frame are inconsistent."""


class SinkFailed(HeadraceError):
    """A sink cannot write a batch, for the reason given. The batch is not committed and must run again."""


class SinkRefused(SinkFailed):
    """A sink permanently rejects messages."""


class SinkLost(SinkFailed):
    """An instance of a sink has restarted without rows that it voted for and that are in the commit log."""


class NotAtOnce(SinkFailed):
    """A sink is not at-least-once, so rows are delivered to it with their micro-batch; the engine does so by itself."""


class GatewayError(HeadraceError):
    """The gateway rejected a call."""


class GatewayAway(GatewayError):
    """The gateway is unavailable."""

    advice: ClassVar[str] = ""
    """What to do once the timeout has passed; empty for the advice of the caller that waits."""


class SourceSilent(GatewayAway):
    """A source sends none of the messages that a batch must read."""

    advice = "Start its connector"


class SinkAway(GatewayAway):
    """No connector serves a sink that the query writes to."""


class StreamAway(GatewayAway):
    """No connector provides a stream that a run with `availableNow` names."""


class NotAllowed(GatewayError):
    """The gateway does not accept the token, or the token does not permit the call."""


class TakenOver(GatewayError):
    """A newer run of the same pipeline has taken over."""


class NotAttached(GatewayError):
    """The gateway does not know the pipeline, for example because it has restarted."""


class MessagesLost(GatewayError):
    """A source no longer has messages that the pipeline must read."""
