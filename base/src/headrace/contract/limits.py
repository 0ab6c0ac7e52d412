"""Limits and defaults that both ends of the protocol share."""

PROTOCOL_VERSION = 1
"""The protocol version in `Hello` and `SinkHello`."""
DEFAULT_GATEWAY = "127.0.0.1:7433"
"""The default address of a gateway, as host:port."""
DEFAULT_HTTP = "127.0.0.1:7434"
"""The default address of the HTTP server of a gateway that listens on the default port, as host:port."""
MAX_SEQUENCE = 2**63 - 1
"""The largest sequence of a message, and the largest number of a micro-batch: Spark's integers are signed 64-bit."""
MAX_CURSOR_BYTES = 65_536
"""The maximum size of a cursor, in bytes, unless a gateway announces a lower one."""
UNANNOUNCED_CURSOR_BYTES = 4_096
"""The maximum size of a cursor, in bytes, at a gateway that announces none."""
MAX_FRAMES = 256
"""The maximum number of frames in one message of a source."""
MAX_NAME_BYTES = 255
"""The maximum length of the name of a stream, pipeline, sink or instance, in bytes."""
MAX_BATCHES = 500
"""How many micro-batches a gateway keeps of each pipeline, and how many a message names."""
MAX_EVENTS = 1_200
"""How many events a gateway remembers."""
MAX_PEEK = 10_000
"""The largest number of messages that a peek may be limited to."""
MAX_DEAD_LETTERS = 50
"""How many dead letters a gateway keeps of each sink."""
MAX_BATCH_STREAMS = 50
"""How many streams a message names of a micro-batch."""
