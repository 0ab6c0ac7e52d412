"""The values that represent null in the packed columns of a frame, and the limit of sequence deltas."""

NULL_LENGTH = 0xFFFFFFFF
"""The length of a null key, value or id; it adds nothing to the column's data."""
NULL_TIME = -(2**63)
"""The event time of a message without one."""
MAX_DELTA = 0xFFFFFFFF
"""The largest difference between the sequences of two consecutive messages in a frame."""
