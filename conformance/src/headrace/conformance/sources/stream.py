"""The gateway's knowledge of one stream of one session."""

import time
from dataclasses import dataclass, field

from headrace.conformance.core.frames import Message
from headrace.protocol.v1 import source_pb2 as pb
from headrace.protocol.v1.frame_pb2 import Frame, Position


@dataclass(eq=False)
class Outstanding:
    """A frame whose credit is not returned yet."""

    last: int
    bytes: int
    messages: int


@dataclass(eq=False)
class Stream:
    """One stream id of a session, from OpenStream on."""

    id: int
    name: str
    kind: pb.SourceKind.ValueType
    chooses_start: bool
    opened: bool = False
    """StreamOpened was sent."""
    epoch: int = 0
    resume: Position | None = None
    cursor: bytes = b""
    """The last cursor of a resumable stream."""
    asked_at: float = field(default_factory=time.monotonic)
    """When OpenStream arrived."""
    rejected_at: float = 0.0
    rejected: bool = False
    """The gateway has closed it. Frames that are in flight are dropped."""
    closed: pb.CloseStream | None = None
    """How the connector has closed it."""
    lost: pb.PositionLost | None = None
    starts: pb.Starts.Stream | None = None
    last: int | None = None
    """The largest sequence that was sent."""
    frames: list[Frame] = field(default_factory=list)
    messages: list[Message] = field(default_factory=list)
    """Those after the resume position, by ascending sequence."""
    outstanding: list[Outstanding] = field(default_factory=list)
    acknowledged: int = 0
    """How many of the messages are acknowledged."""
    backlogs: list[pb.Backlog] = field(default_factory=list)
    requests: list[pb.CreditRequest] = field(default_factory=list)
    lent_bytes: int = 0
    """Credit that only its next frame may spend."""
    lent_messages: int = 0

    @property
    def usable(self) -> bool:
        """Whether the connector may send frames of it."""
        return self.opened and not self.rejected and self.closed is None and self.lost is None

    @property
    def ended(self) -> bool:
        """Whether the connector has said that its source has ended."""
        return self.closed is not None and self.closed.end_of_stream

    @property
    def settled(self) -> bool:
        """Whether everything that was received is acknowledged."""
        return self.acknowledged == len(self.messages)

    @property
    def values(self) -> list[bytes | None]:
        """The values of its messages."""
        return [message.value for message in self.messages]

    def add(self, message: Message) -> None:
        """Keeps a message, unless it is at or before its last message or its resume position."""
        behind = self.messages[-1].sequence if self.messages else self.resume.sequence if self.resume is not None else -1
        if message.sequence > behind:
            self.messages.append(message)
