"""What can go wrong in the engine.

HeadraceError
├── OptionError        an option of the source or of the sink is wrong
├── SchemaError        rows are to be written that no sink takes
├── CheckpointError    Spark's checkpoint and the source do not fit together
│   ├── OlderCheckpoint    a sink has committed what the checkpoint does not know of
│   └── Replaced           another run of the query has started on the checkpoint
├── FrameError         a frame's columns do not add up
├── SinkFailed         a sink cannot write a batch
│   ├── SinkRefused        it refuses messages for good
│   └── SinkLost           it has lost what it voted for
└── GatewayError       the gateway refused a call, or did not answer
    ├── GatewayAway        it could not be reached
    │   ├── SinkAway           no connector serves a sink
    │   ├── StreamAway         no connector has a stream that a bounded run is to read
    │   └── SourceSilent       a source sends nothing of what a batch must read again
    ├── NotAllowed         the token, or its lack, does not allow the call
    ├── TakenOver          a newer run of the same pipeline is at work
    ├── NotAttached        it does not know the pipeline's positions; the engine mends this by itself
    └── MessagesLost       a source no longer has what the pipeline must read
"""

from typing import ClassVar


class HeadraceError(Exception):
    """The root of all errors of the engine."""


class OptionError(HeadraceError, ValueError):
    """An option is unknown, missing, or has a value that is not valid."""


class SchemaError(HeadraceError, ValueError):
    """The rows that are to be written have a column that no sink takes, or lack the one that it needs."""


class CheckpointError(HeadraceError):
    """Spark asked for something that the checkpoint's protocol rules out, or the checkpoint belongs to another pipeline."""


class OlderCheckpoint(CheckpointError):
    """A sink has committed a batch that the checkpoint does not know of, so that the checkpoint must be an older one."""


class Replaced(CheckpointError):
    """Another run of the query has started on the same checkpoint, so that this one must end."""


class FrameError(HeadraceError):
    """A frame's columns do not add up."""


class SinkFailed(HeadraceError):
    """A sink cannot write a batch, and says why. The batch is not committed and must be run again."""


class SinkRefused(SinkFailed):
    """A sink refuses messages for good."""


class SinkLost(SinkFailed):
    """An instance of a sink has come back without rows that it voted for and that the commit log has."""


class GatewayError(HeadraceError):
    """The gateway refused a call."""


class GatewayAway(GatewayError):
    """The gateway could not be reached."""

    advice: ClassVar[str] = ""
    """What to do where it has been for too long; empty where whoever waits knows."""


class SourceSilent(GatewayAway):
    """A source sends nothing of what a batch must read."""

    advice = "Start its connector"


class SinkAway(GatewayAway):
    """No connector serves a sink that the query writes to."""


class StreamAway(GatewayAway):
    """No connector has a stream that a run with `availableNow` names."""


class NotAllowed(GatewayError):
    """The gateway does not accept the token, or the token does not allow the call."""


class TakenOver(GatewayError):
    """A newer run of the same pipeline has taken over."""


class NotAttached(GatewayError):
    """The gateway does not know the pipeline's positions."""


class MessagesLost(GatewayError):
    """A source no longer has what the pipeline must read."""
