"""A program that counts the values of each key, without a library: what docs/write/programs.md describes, and nothing more.

A value `fail` cannot be processed, and `forget` removes the state of its key.
"""

import struct
import sys
from typing import Any

from google.protobuf.proto import parse_length_prefixed, serialize_length_prefixed

from headrace.protocol.v1.program_pb2 import (
    FailedMessage,
    ProgramBlock,
    ProgramReady,
    ProgramRequest,
    ProgramResponse,
    ProgramResults,
    StateColumn,
)

NULL = 0xFFFFFFFF
NO_TIME = -(2**63)


def split(data: bytes, lengths: bytes) -> list[bytes | None]:
    """The values of a column."""
    values: list[bytes | None] = []
    for (length,) in struct.iter_unpack("<I", lengths):
        values.append(None if length == NULL else data[:length])
        data = data if length == NULL else data[length:]
    return values


def joined(values: list[bytes | None]) -> tuple[bytes, bytes]:
    """A column of values."""
    lengths = [NULL if value is None else len(value) for value in values]
    return b"".join(value or b"" for value in values), struct.pack(f"<{len(lengths)}I", *lengths)


def counted(block: ProgramBlock) -> ProgramResults:
    """What becomes of a block."""
    keys = split(block.keys, block.key_lengths)
    (counts,) = (split(column.values, column.lengths) for column in block.states)
    times = [time for (time,) in struct.iter_unpack("<q", block.event_times)]
    sequences = [sequence for (sequence,) in struct.iter_unpack("<Q", block.sequences)]
    results, messages, changed, failed = list[bytes | None](), list[int](), list[int](), list[FailedMessage]()
    indices = [index for (index,) in struct.iter_unpack("<I", block.key_indices)]
    for message, (key, value) in enumerate(zip(indices, split(block.values, block.value_lengths), strict=True)):
        if value == b"fail":
            failed.append(FailedMessage(message=message, reason="it refuses"))
            continue
        if key not in changed:
            changed.append(key)
        if value == b"forget":
            counts[key] = None
            continue
        count = counts[key] = b"%d" % (int(counts[key] or 0) + 1)
        time = times[message] if times and times[message] != NO_TIME else None
        results.append(b"%s %s %s/%d at %r" % (keys[key], count, block.stream.encode(), sequences[message], time))
        messages.append(message)
    response = ProgramResults(block=block.block, failed=failed)
    response.message_indices = struct.pack(f"<{len(messages)}I", *messages)
    response.values, response.value_lengths = joined(results)
    response.changed_keys = struct.pack(f"<{len(changed)}I", *changed)
    values, lengths = joined([counts[key] for key in changed])
    response.states.append(StateColumn(values=values, lengths=lengths))
    return response


def serve(requests: Any, responses: Any) -> None:
    """Answers requests until there are no more."""
    while (request := parse_length_prefixed(ProgramRequest, requests)) is not None:
        if request.HasField("hello"):
            response = ProgramResponse(ready=ProgramReady(protocol_version=1, state_fields=["count"]))
        else:
            response = ProgramResponse(results=counted(request.block))
        serialize_length_prefixed(response, responses)
        responses.flush()


if __name__ == "__main__":
    serve(sys.stdin.buffer, sys.stdout.buffer)
