"""Limits and defaults that both ends of the protocol know."""

PROTOCOL_VERSION = 1
"""The version that a `Hello` and a `SinkHello` name."""
DEFAULT_GATEWAY = "127.0.0.1:7433"
"""The address of a gateway where none is given, as host:port."""
MAX_SEQUENCE = 2**63 - 1
"""The largest sequence of a message, and the largest number of a micro-batch: Spark has signed 64-bit integers."""
MAX_CURSOR_BYTES = 4096
MAX_NAME_BYTES = 255
"""The longest name of a stream, pipeline, sink or instance."""
