"""What the TCP source can be told."""

from pydantic import Field

from headrace.connectors._bad_records import BadRecordParameters, BadRecords
from headrace.connectors._listening import Listening


class TcpParameters(Listening, BadRecordParameters):
    """Receive length-prefixed messages from any number of clients: a big-endian u32 with its length before each one.

    Clients are told nothing: what is not in the checkpoint when this process dies is lost.
    """

    bad_records: BadRecords = Field(
        BadRecords.SKIP,
        description="What to do with a message that cannot be taken, such as one above the gateway's max_frame_bytes: fail; "
        "skip, which is counted and logged; or dead-letter.",
    )
    listen: str = Field("127.0.0.1:7000", description="Where to listen, HOST:PORT.")
    source: str = Field(description="The stream is called SOURCE/0.", examples=["trades"])
    max_message_bytes: int = Field(
        1 << 20, ge=1, description="A longer message ends its connection. Keep it below max_frame_bytes of the gateway."
    )
    max_clients: int = Field(1000, ge=1, description="How many clients may be connected; more are turned away.")
    buffer_bytes: int = Field(
        64 << 20, ge=1024, description="How many bytes may wait for the checkpoint; then no client is read."
    )
    message_seconds: float = Field(
        30.0, gt=0, description="How long a message may take to arrive once it has begun; then its connection ends."
    )
