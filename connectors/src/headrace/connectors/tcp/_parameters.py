"""The parameters of the TCP source."""

from pydantic import Field

from headrace.configuration import Duration, Size
from headrace.connectors.bad_records import BadRecordParameters, BadRecords
from headrace.connectors.listening import Listening


class TcpParameters(Listening, BadRecordParameters):
    """Receive length-prefixed messages from any number of clients: each is preceded by its length as a big-endian u32.

    Clients receive no answer: messages that are not in the checkpoint when this process dies are lost.
    """

    bad_records: BadRecords = Field(
        BadRecords.SKIP,
        description="What to do with a message that cannot be sent, such as one above the gateway's max_frame_bytes.",
    )
    listen: str = Field("127.0.0.1:7000", description="The address to listen on, HOST:PORT.")
    source: str = Field(description="The stream is named SOURCE/0.", examples=["trades"])
    max_message_bytes: Size = Field(
        1 << 20,
        ge=1,
        description="The largest message; a longer one ends its connection. Below the gateway's max_frame_bytes.",
    )
    max_clients: int = Field(
        1000,
        ge=1,
        description="The most clients. A further one closes the one longest without ever sending a message; it closes"
        " itself if all have sent one.",
    )
    buffer_bytes: Size = Field(
        64 << 20,
        ge=1024,
        description="The most bytes that wait for the checkpoint; then clients are not read. Incomplete messages may "
        "take as many; then the oldest is dropped.",
    )
    message_seconds: Duration = Field(30.0, gt=0, description="How long a message may take to arrive; then its connection ends.")
    idle_seconds: Duration | None = Field(
        None, gt=0, description="How long a client may be silent; then its connection ends. Default: for ever."
    )
