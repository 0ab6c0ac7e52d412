"""The values that stand for null in the packed columns of a frame."""

NULL_LENGTH = 0xFFFFFFFF
"""The length of a key, value or id that is null; it adds nothing to the column's data."""
NULL_TIME = -(2**63)
"""The event time of a message that has none."""
MAX_DELTA = 0xFFFFFFFF
"""The largest difference between the sequences of two neighbours in a frame."""
