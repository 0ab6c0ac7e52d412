"""Cuts the messages of a step into blocks, with the states of their keys, and reads what a program made of them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from headrace.contract.counts import counted
from headrace.pipelines._errors import StateError
from headrace.pipelines.elements.elements import Elements, Key
from headrace.pipelines.elements.message import NO_TIME
from headrace.pipelines.programs.columns import ColumnError, pack, pack_numbers, unpack, unpack_numbers
from headrace.pipelines.states.state import StateClass
from headrace.protocol.v1.program_pb2 import ProgramBlock, ProgramResults, StateColumn

BLOCK_MESSAGES = 4_096
"""The maximum number of messages in a block."""
BLOCK_BYTES = 2**20
"""The size of values and states, in bytes, at which a block ends. It has at least one message."""
_REASON_CHARACTERS = 1_000


class ProgramState:
    """The state of a key. Its attributes are the fields that it has, which are bytes."""


@dataclass(frozen=True)
class ProgramStates(StateClass):
    """The states of a program.

    Attributes:
        fields: The fields that the step declares.
    """

    fields: tuple[str, ...] = ()

    def unpack(self, packed: bytes) -> list[Any]:
        """Deserialises states.

        Raises:
            StateError: States have a field that the step does not declare.
        """
        states = StateClass.unpack(self, packed)
        unknown = _fields(states).difference(self.fields)
        if unknown:
            raise StateError(
                f"step {self.step}: the checkpoint has states with {', '.join(sorted(unknown))}, which state= does not name; "
                "name the field again, and have the program clear it, or give the step another name to start without states"
            )
        return states


def _fields(states: Sequence[Any]) -> set[str]:
    return set().union(*map(vars, states))


@dataclass(frozen=True, slots=True)
class Block:
    """Some consecutive messages of a step.

    Attributes:
        first: The index of the first message.
        count: The number of messages.
        keys: Their different keys.
        request: The request to the program.
    """

    first: int
    count: int
    keys: Sequence[Key]
    request: ProgramBlock


@dataclass(frozen=True, slots=True)
class Outcome:
    """The result of a program for a block.

    Attributes:
        values: The results.
        indices: The index of the message that each comes from.
        changed: The keys whose states have changed, with the new state; None if it is removed.
        failed: The indices of the messages that it could not process, with the reasons.
    """

    values: list[bytes]
    indices: list[int]
    changed: list[tuple[Key, ProgramState | None]]
    failed: list[tuple[int, str]]


class Messages:
    """The messages of a step, which are cut into blocks.

    Args:
        elements: The messages, with keys.
        values: Their payloads.
    """

    def __init__(self, elements: Elements, values: Sequence[bytes | None]) -> None:
        assert elements.keys is not None, "the graph puts such a step behind a key_by"
        origin, places = elements.origin, np.asarray(elements.places(), np.int64)
        self._stream, self._values = origin.stream, values
        self._count = BLOCK_MESSAGES
        self._keys = list(elements.keys)
        self._sequences = origin.sequences[places].astype("<u8")
        times = elements.times
        if times is None and origin.times is not None:
            times = origin.times[places]
        has_times = times is not None and bool((times != NO_TIME).any())
        self._times = times.astype("<i8") if has_times and times is not None else None

    def __len__(self) -> int:
        """The number of messages."""
        return len(self._values)

    def block(self, first: int, states: Mapping[Key, Any], fields: Sequence[str]) -> Block:
        """The block that begins with a message, with the present states of its keys."""
        # Where messages are large, the next block is cut as this one was, without another search.
        self._count = min(2 * self._count, BLOCK_MESSAGES)
        while True:
            end = min(first + self._count, len(self))
            keys = list(dict.fromkeys(self._keys[first:end]))
            of_keys = [vars(states[key]) if key in states else {} for key in keys]
            columns = [[state.get(field) for state in of_keys] for field in fields]
            if end == first + 1 or _size(self._values[first:end], *columns) <= BLOCK_BYTES:
                return Block(first, end - first, keys, self._request(first, end, keys, columns))
            self._count = (end - first) // 2

    def _request(self, first: int, end: int, keys: Sequence[Key], columns: Sequence[Sequence[bytes | None]]) -> ProgramBlock:
        places = {key: place for place, key in enumerate(keys)}
        request = ProgramBlock(
            stream=self._stream,
            sequences=self._sequences[first:end].tobytes(),
            event_times=b"" if self._times is None else self._times[first:end].tobytes(),
            key_indices=pack_numbers(list(map(places.__getitem__, self._keys[first:end]))),
            states=[StateColumn(values=data, lengths=lengths) for data, lengths in map(pack, columns)],
        )
        request.values, request.value_lengths = pack(self._values[first:end])
        request.keys, request.key_lengths = pack([_key_bytes(key) for key in keys])
        return request


def _size(*columns: Sequence[bytes | None]) -> int:
    """The size of all values, in bytes."""
    return sum(sum(map(len, filter(None, column))) for column in columns)


def outcome_of(block: Block, results: ProgramResults, fields: Sequence[str]) -> Outcome:
    """The result of a program for a block.

    Raises:
        ColumnError: The answer is inconsistent, or names what is not in the block.
    """
    indices = unpack_numbers("message_indices", results.message_indices)
    values = unpack("values", results.values, results.value_lengths)
    if len(indices) != len(values):
        raise ColumnError(f"message_indices has {len(indices)} entries, and value_lengths has {len(values)}")
    if any(later < index for index, later in pairwise(indices)):
        raise ColumnError("the results are not in the order of their messages")
    if indices and indices[-1] >= block.count:
        raise ColumnError(f"message_indices names message {indices[-1]}, but the block has messages 0 to {block.count - 1}")
    if None in values:
        raise ColumnError("a result is null")
    failed = [(message.message, message.reason[:_REASON_CHARACTERS]) for message in results.failed]
    _check_failed([index for index, _ in failed], set(indices), block.count)
    return Outcome(
        [value for value in values if value is not None],
        [block.first + index for index in indices],
        _changed(block, results, fields),
        [(block.first + index, reason) for index, reason in failed],
    )


def _check_failed(failed: Sequence[int], with_results: set[int], count: int) -> None:
    if any(later <= index for index, later in pairwise(failed)):
        raise ColumnError("the failed messages are not in ascending order")
    if failed and failed[-1] >= count:
        raise ColumnError(f"message {failed[-1]} has failed, but the messages of the block are 0 to {count - 1}")
    if not with_results.isdisjoint(failed):
        raise ColumnError("a message that has failed has a result")


def _changed(block: Block, results: ProgramResults, fields: Sequence[str]) -> list[tuple[Key, ProgramState | None]]:
    """The changed states."""
    places = unpack_numbers("changed_keys", results.changed_keys)
    if not places:
        return []
    if max(places) >= len(block.keys):
        raise ColumnError(f"the state of key {max(places)} has changed, but the keys of the block are 0 to {len(block.keys) - 1}")
    if len(set(places)) < len(places):
        raise ColumnError("changed_keys has a key twice")
    if len(results.states) != len(fields):
        raise ColumnError(
            f"states has {counted(len(results.states), 'column')}, and the states have {counted(len(fields), 'field')}"
        )
    columns = []
    for field, column in zip(fields, results.states, strict=True):
        what = f"the field {field} in states"
        if len(column.lengths) != 4 * len(places):
            raise ColumnError(f"{what} has {len(column.lengths) // 4} entries, and changed_keys has {len(places)}")
        columns.append(unpack(what, column.values, column.lengths))
    states = [
        _state({field: value for field, value in zip(fields, row, strict=True) if value is not None})
        for row in zip(*columns, strict=True)
    ]
    return list(zip(map(block.keys.__getitem__, places), states, strict=True))


def _state(fields: dict[str, bytes]) -> ProgramState | None:
    if not fields:
        return None
    state = ProgramState()
    state.__dict__ = fields
    return state


def _key_bytes(key: Key) -> bytes | None:
    """A key as bytes, as a sink receives it."""
    if key is None or isinstance(key, bytes):
        return key
    return (key if isinstance(key, str) else repr(key)).encode()
