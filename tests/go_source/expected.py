"""The messages that the Go source must send."""

import datetime

from headrace.sdk import Message

BEGAN_US = int(datetime.datetime(2025, 1, 1, tzinfo=datetime.UTC).timestamp()) * 1_000_000


def message(number: int) -> Message:
    """The message of a number."""
    headers = [("tens", b"%d" % (number // 10))] if number % 10 == 0 else None
    value = b"message %d from the go-source example" % number
    return Message(value, b"key-%d" % (number % 100), BEGAN_US + number * 1000, sequence=number, headers=headers)
