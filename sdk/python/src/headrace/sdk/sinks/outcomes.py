"""Validates the outcomes that a sink returned. Pure functions."""

from collections.abc import Sequence

from headrace.protocol.v1 import sink_pb2 as pb
from headrace.sdk._errors import InvalidOutcomes
from headrace.sdk.sinks.types import WRITTEN, Outcomes, Refused


def refusals(outcomes: Outcomes, first: int, count: int) -> list[pb.Staged.Refused]:
    """Returns the refused messages, by their places in the part.

    Args:
        outcomes: The outcomes that the sink returned.
        first: The place of the first message in the part.
        count: The number of messages that the sink received.

    Raises:
        InvalidOutcomes: Not every message has exactly one outcome.
    """
    if outcomes is None:
        return []
    if not isinstance(outcomes, Sequence) or isinstance(outcomes, str | bytes):
        raise InvalidOutcomes(f"outcomes must be a sequence or None, not {type(outcomes).__name__}")
    if len(outcomes) != count:
        raise InvalidOutcomes(f"{len(outcomes)} outcomes for {count} messages")
    if outcomes.count(WRITTEN) == count:
        return []
    refused = []
    for place, outcome in enumerate(outcomes, first):
        if isinstance(outcome, Refused):
            refused.append(pb.Staged.Refused(sequence=place, reason=outcome.reason))
        elif outcome != WRITTEN:
            raise InvalidOutcomes(f"message {place}: {outcome!r} is neither WRITTEN nor Refused(reason)")
    return refused
