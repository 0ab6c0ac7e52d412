"""The meaning of the documents' words, as the commands and the console phrase it."""

from collections.abc import Mapping

MESSAGE_STATES: Mapping[str, str] = {
    "not-received": "has not arrived at the gateway",
    "not-planned": "waits for a micro-batch",
    "in-batch": "is in a micro-batch that is not committed",
    "committed": "is committed, and its source is not told yet",
    "acknowledged": "is acknowledged",
    "redelivered": "was delivered again under another sequence",
}
"""What a message does, by its state."""
NO_FAULTS = frozenset({"paused", "process-starts"})
"""The kinds of problems that tell what somebody does: nothing is wrong with such a part, and the gateway is ready."""
